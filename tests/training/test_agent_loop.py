"""The agent loop on a real replica, with a scripted policy in place of the rollout server."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from toy_shop import BAD_GOLD, BOUNDARY, UPDATE

from birdrl.agent.templating import observation_suffix
from birdrl.agent.tools import TOOLS
from birdrl.errors import InfraError
from birdrl.files import read_jsonl
from birdrl.params import Params
from training.scripted import GOOD, SAMPLING, Harness, Script, ScriptedServer, call

pytest.importorskip("verl")

SLOW = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT COUNT(*) FROM n"


@pytest.fixture
def harness(tmp_path: Path, tokenizer: Any, params: Params) -> Iterator[Harness]:
    harness = Harness(tmp_path, tokenizer, params)
    yield harness
    harness.close()


def free_replicas(environment: Any) -> int:
    """How many replicas can be leased right now."""
    leases = []
    try:
        for number in range(environment.replicas.config.workers):
            leases.append(environment.replicas.acquire(f"probe-{number}", environment.store.path("shop")))
    finally:
        for lease in leases:
            lease.release()
    return len(leases)


def test_the_mask_is_one_exactly_on_sampled_tokens(harness: Harness) -> None:
    turns = [call("SELECT COUNT(*) FROM orders"), f"So:\n{call(GOOD, 'submit_solution')}"]
    output, server, _ = harness.run(list(turns))
    assert harness.text(output, 1) == "".join(f"{turn}<|im_end|>" for turn in turns)
    given = harness.text(output, 0)
    assert given.startswith(observation_suffix("").split("\n</tool_response>")[0])
    assert given.endswith("<|im_start|>assistant\n")
    assert output.reward_score == 1.0
    assert output.num_turns == 2
    assert [lp != 0 for lp in output.response_logprobs] == [m == 1 for m in output.response_mask]
    # Token in, token out: the second request continues the very ids of the first.
    second = server.calls[1]["prompt_ids"]
    assert second == output.prompt_ids + output.response_ids[: len(second) - len(output.prompt_ids)]
    assert server.calls[0]["seed"] != server.calls[1]["seed"]
    whole = harness.tokenizer.decode(output.prompt_ids)
    assert all(tool["function"]["name"] in whole for tool in TOOLS)


def test_a_submission_on_the_last_turn_counts(harness: Harness) -> None:
    output, _, _ = harness.run([call("SELECT 1"), call("SELECT 2"), call(GOOD, "submit_solution")])
    assert output.reward_score == 1.0
    assert harness.record()["stop"] == "submitted"


def test_changes_are_private_and_the_replica_goes_back(harness: Harness) -> None:
    output, _, environment = harness.run(
        [call("DELETE FROM orders"), call(UPDATE.sol_sql[0], "submit_solution")], UPDATE
    )
    assert output.reward_score == 1.0, "scored on a fresh replica, not on the emptied one"
    assert environment.replicas.counters.leases == 1
    with pytest.raises(InfraError):
        environment.replicas.lookup("anything")
    counted = harness.record()["pool"]
    assert (counted["tools"]["leases"], counted["tools"]["kills"]) == (1, 0)
    assert counted["tools"]["overlay_bytes"] > 0, "the released lease is in the record of its trajectory"
    assert counted["scoring"]["leases"] > 0
    assert not any(environment.take_counters()["tools"].values()), "every event is counted once"


def test_an_agent_worker_is_told_its_number_or_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    import ray

    from birdrl.training.environment import agent_worker_number

    class Context:
        def __init__(self, name: str | None) -> None:
            self.name = name

        def get_actor_name(self) -> str | None:
            return self.name

    monkeypatch.setattr(ray, "get_runtime_context", lambda: Context("agent_loop_worker_3_1a2b3c4d"))
    assert agent_worker_number() == 4
    for name in ("somebody", None):
        monkeypatch.setattr(ray, "get_runtime_context", lambda name=name: Context(name))
        with pytest.raises(InfraError, match="more than one agent worker"):
            agent_worker_number()


@pytest.mark.parametrize(
    ("script", "stop", "reward"),
    [
        ([call("SELECT 1")] * 3, "max_turns", 0.0),
        (["I do not know."], "no_tool_call", 0.0),
        ([call(GOOD), "done"], "no_tool_call", 1.0),
        ([call("SELEC"), call("no_such(", "submit_solution")], "submitted", 0.0),
    ],
)
def test_how_trajectories_end(harness: Harness, script: Script, stop: str, reward: float) -> None:
    output, _, _ = harness.run(script)
    assert (harness.record()["stop"], output.reward_score) == (stop, reward)
    assert harness.record()["blame"] in ("none", "policy")


def test_a_turn_that_was_cut_is_closed_by_the_environment(harness: Harness) -> None:
    output, server, _ = harness.run([f"{call('SELECT 1')}<cut>", call(GOOD, "submit_solution")])
    end = harness.tokenizer.eos_token_id
    cut = len(server.calls[1]["prompt_ids"]) - len(output.prompt_ids)
    first = output.response_mask.index(0)
    assert output.response_ids[first] == end
    assert first < cut
    assert harness.text(output, 1).count("<|im_end|>") == 1


def test_the_token_limit_ends_a_trajectory(harness: Harness) -> None:
    output, server, _ = harness.run([call(GOOD)] * 3, max_trajectory_tokens=70)
    assert len(output.response_ids) <= 70
    assert harness.record()["stop"] == "token_limit"
    assert all(request["max_tokens"] <= 64 for request in server.calls)


def test_one_answer_without_tools(harness: Harness) -> None:
    output, server, environment = harness.run([f"The bound.\n```sql\n{GOOD}\n```"], tools=False)
    assert output.reward_score == 1.0
    assert environment.replicas is None
    assert set(output.response_mask) == {1}
    assert "execute_sql" not in harness.tokenizer.decode(server.calls[0]["prompt_ids"])


def test_the_record_tells_parts_outcome_and_blame(harness: Harness) -> None:
    harness.run([call(GOOD, "submit_solution")])
    record = harness.record()
    assert (record["reward"], record["parts"], record["outcome"]) == (1.0, {"execution": 1.0}, "solved")
    assert (record["blame"], record["solved"], record["passed"], record["tests"]) == ("none", True, 1, 1)
    harness.run(["I do not know."])
    assert (harness.record()["outcome"], harness.record()["blame"]) == ("no_solution", "policy")


def test_the_configured_reward_is_what_is_trained_on(harness: Harness) -> None:
    turns = [call("SELECT id, price FROM orders WHERE price >= 20"), call(GOOD, "submit_solution")]
    output, _, _ = harness.run(turns, reward={"preset": "astra"})
    assert output.reward_score == pytest.approx(0.90)
    assert harness.record()["turn_scores"] == pytest.approx([0.4, 1.0])
    assert harness.record()["parts"] == pytest.approx({"atr/gain": 1.0, "atr/cost": -0.1})


def test_step_wise_rewards_stand_on_the_last_token_of_their_turn(harness: Harness) -> None:
    turns = [call("SELECT id, price FROM orders WHERE price >= 20"), "<tool_call>{</tool_call>",
             call(GOOD, "submit_solution")]  # fmt: skip
    output, _, _ = harness.run(turns, reward={"preset": "step_wise"})
    sent = output.as_dict()
    assert "turn_rewards" not in sent
    mask = output.response_mask
    ends = [i for i, m in enumerate(mask) if m and (i + 1 == len(mask) or not mask[i + 1])]
    assert {i: float(r) for i, r in enumerate(sent["rm_scores"]) if r} == pytest.approx({ends[0]: 0.4, ends[2]: 1.0})
    assert len(ends) == 3


def test_gold_and_infra_failures_leave_the_group_and_a_record(harness: Harness) -> None:
    output, _, _ = harness.run([call("SELECT 1", "submit_solution")], BAD_GOLD)
    assert output == []
    assert harness.record()["blame"] == "gold"
    output, _, environment = harness.run([InfraError("the server is gone")])
    assert output == []
    assert harness.record() | {"reason": "the server is gone", "blame": "infra"} == harness.record()
    assert environment.replicas.counters.leases == 1


@pytest.mark.parametrize(
    ("turn", "seen"),
    [
        (call("SELECT 1", "drop_table"), "there is no tool 'drop_table'"),
        ('<tool_call>\n{"name": "execute_sql", \n</tool_call>', "not valid JSON"),
        (
            '<tool_call>\n{"name": "execute_sql", "arguments": {"query": "SELECT 1"}}\n</tool_call>',
            "needs the argument",
        ),
        (call("  "), "got empty SQL"),
        (call("-- nothing"), "no SQL statement found"),
        (call("SELECT nope FROM orders"), "no such column: nope"),
    ],
)
def test_a_call_that_is_no_good_is_answered_and_the_trajectory_goes_on(harness: Harness, turn: str, seen: str) -> None:
    output, _, _ = harness.run([turn, call(GOOD, "submit_solution")])
    assert seen in harness.text(output, 0)
    assert (output.reward_score, harness.record()["tool_errors"]) == (1.0, 1)


def test_several_calls_of_a_turn_are_answered_in_order_in_one_message(harness: Harness) -> None:
    turn = call("CREATE TABLE marks(n)") + call("INSERT INTO marks VALUES (7)") + call("SELECT n AS mark FROM marks")
    output, _, environment = harness.run([turn, call(GOOD, "submit_solution")], max_response_tokens=200)
    given = harness.text(output, 0)
    assert given.count("<tool_response>") == 1
    assert "OK\nOK (1 row changed)\nmark\n7" in given
    assert (harness.record()["tool_calls"], output.num_turns, output.reward_score) == (4, 2, 1.0)
    assert environment.replicas.counters.leases == 1


def test_a_submission_beside_other_calls_ends_the_trajectory(harness: Harness) -> None:
    turn = call("SELECT 1") + call(GOOD, "submit_solution") + call("DROP TABLE orders")
    output, server, _ = harness.run([turn], max_response_tokens=200)
    assert (output.reward_score, len(server.calls), harness.record()["tool_calls"]) == (1.0, 1, 2)


def test_generation_that_takes_too_long_is_not_the_policys_fault(harness: Harness) -> None:
    output, _, environment = harness.run([call(GOOD), 5.0, call("late", "submit_solution")], trajectory_timeout_s=0.4)
    assert output == []
    assert harness.record()["blame"] == "infra"
    assert free_replicas(environment) == 2


def test_sql_that_uses_up_the_time_is_the_policys_fault(harness: Harness) -> None:
    script = [call(GOOD), call(SLOW), 5.0, call("late", "submit_solution")]
    output, server, environment = harness.run(script, trajectory_timeout_s=1.0, statement_timeout_s=1.6)
    assert harness.record() | {"stop": "timeout", "blame": "policy", "reward": 0.0} == harness.record()
    assert output.reward_score == 0.0
    assert len(server.calls) == 2, "its SQL was cut at the trajectory's limit, so there was no further turn"
    assert free_replicas(environment) == 2


def test_generation_cut_after_slow_sql_is_the_policys_fault(harness: Harness) -> None:
    script = [call(SLOW), 5.0, call("late", "submit_solution")]
    output, server, environment = harness.run(script, trajectory_timeout_s=1.5, statement_timeout_s=1.0)
    assert (harness.record()["stop"], harness.record()["blame"]) == ("timeout", "policy")
    assert len(server.calls) == 2
    assert output.response_mask[-1] == 0, "it waited for an answer to its observation"
    assert free_replicas(environment) == 2


def test_a_cancelled_trajectory_leaves_nothing_behind(harness: Harness) -> None:
    environment = harness.configure(agent={"statement_timeout_s": 1.0})

    async def go() -> None:
        for script in ([60.0, "never"], [call(SLOW), "never"]):  # while it writes, while its SQL runs
            server = ScriptedServer(harness.tokenizer, script)
            running = asyncio.create_task(harness.loop(server).run(dict(SAMPLING), **harness.row(BOUNDARY)))
            await asyncio.sleep(0.3)
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running

    asyncio.run(go())
    assert free_replicas(environment) == 2
    assert not harness.log.exists()


def test_many_trajectories_share_few_replicas_and_see_only_their_own_changes(harness: Harness) -> None:
    environment = harness.configure(group_size=2)
    sessions = 12

    async def one(number: int) -> Any:
        mark = f"INSERT INTO orders VALUES ({100 + number}, 1, {number})"
        look = "SELECT GROUP_CONCAT(id) AS ids FROM orders WHERE id >= 100"
        server = ScriptedServer(harness.tokenizer, [call(mark), call(look), call(GOOD, "submit_solution")])
        row = harness.row(BOUNDARY, session=number)
        return await harness.loop(server).run(dict(SAMPLING), **row)

    async def go() -> list[Any]:
        return await asyncio.gather(*(one(number) for number in range(sessions)))

    outputs = asyncio.run(go())
    assert [output.reward_score for output in outputs] == [1.0] * sessions
    for number, output in enumerate(outputs):
        assert f"ids\n{100 + number}\n" in harness.text(output, 0)
    counters = environment.replicas.counters
    assert (counters.leases, counters.resets >= sessions - 2) == (sessions, True)
    assert sorted(record["session"] for record in read_jsonl(harness.log)) == list(range(sessions))


def test_a_prompt_that_is_too_long_is_the_rows_fault(harness: Harness) -> None:
    output, server, _ = harness.run([], max_prompt_tokens=32)
    assert (output, server.calls) == ([], [])
    assert harness.record()["blame"] == "gold"
    assert "agent.max_prompt_tokens allows 32" in harness.record()["reason"]


def test_an_unknown_error_is_not_hidden(harness: Harness) -> None:
    with pytest.raises(KeyError):
        harness.run([KeyError("a bug")])
