"""Many episodes under way at once: every instance gets its record, and failures of others are not the policy's."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest
from toy_shop import BAD_GOLD, BOUNDARY, BROKEN, UPDATE

from birdrl.agent.answers import format_answer
from birdrl.agent.episode import Episode, StopReason
from birdrl.agent.prompting import load_prompts
from birdrl.agent.templating import observation_suffix
from birdrl.agent.tools import format_tool_call
from birdrl.errors import InfraError
from birdrl.evaluation.policy import Generation
from birdrl.evaluation.results import summarise
from birdrl.evaluation.runner import EpisodeRunner
from birdrl.gym.instance import Instance
from birdrl.params import AgentParams
from birdrl.sql.pool import PoolConfig, ReplicaPool

RUN = format_tool_call("execute_sql", "SELECT id FROM orders WHERE price >= 20")
FIX = format_tool_call("submit_solution", "SELECT id FROM orders WHERE price >= 20")


def named(instance: Instance, instance_id: str) -> Instance:
    return instance.model_copy(update={"instance_id": instance_id})


class CharPolicy:
    """Characters are tokens; what it says is a function of all it has seen. It writes `pace` characters a step."""

    def __init__(self, says: Callable[[str], str], pace: int = 10**9) -> None:
        self.says, self.pace = says, pace
        self.asked: dict[int, tuple[str, int]] = {}  # what is still to be written, and the limit left
        self.written: dict[int, str] = {}
        self.running: list[int] = []  # turns under way, by step
        self.tickets = 0

    def prompt(self, messages, tools):
        return [ord(c) for c in f"{'tools' if tools else ''}|" + "\n".join(m["content"] for m in messages)]

    def continuation(self, observation):
        return [ord(c) for c in observation_suffix(observation)]

    def submit(self, sequence, limit):
        assert limit > 0
        self.tickets += 1
        self.asked[self.tickets] = (self.says("".join(map(chr, sequence))), limit)
        self.written[self.tickets] = ""
        return self.tickets

    def advance(self):
        assert self.asked
        self.running.append(len(self.asked))
        ended = []
        for ticket, (text, limit) in list(self.asked.items()):
            written = self.written[ticket] = text[: min(limit, len(self.written[ticket]) + self.pace)]
            if len(written) == min(len(text), limit):
                del self.asked[ticket]
                ended.append((ticket, Generation([ord(c) for c in written], written, len(text) <= limit)))
        return ended


@pytest.fixture(scope="module")
def replicas() -> Iterator[ReplicaPool]:
    with ReplicaPool(PoolConfig(workers=2)) as pool:
        yield pool


@pytest.fixture
def runner(store, replicas, scorer) -> Callable[..., EpisodeRunner]:
    def make(**params: object) -> EpisodeRunner:
        values = {"max_turns": 3, "max_response_tokens": 400, "max_trajectory_tokens": 2000, "max_prompt_tokens": 2000}
        agent = AgentParams.model_validate(values | params)
        return EpisodeRunner(store, replicas, scorer, load_prompts("compact"), agent, batch_size=2)

    return make


def test_single_turn_records_keep_the_order_of_the_instances(runner):
    policy = CharPolicy(
        lambda seen: format_answer("t", ["SELECT id FROM orders" + " WHERE price >= 20" * ("20" in seen)])
    )
    done: list[int] = []
    records = runner().run(policy, [UPDATE, BOUNDARY, BROKEN], "reasoning", lambda: done.append(1))
    assert [record.instance.instance_id for record in records] == ["update", "boundary", "broken"]
    assert [record.success for record in records] == [False, True, False]
    assert policy.running == [2, 1]
    assert len(done) == 3
    assert records[1].stop is StopReason.ANSWERED
    assert records[1].messages[-1]["role"] == "assistant"


def test_agentic_episodes_see_real_observations(runner):
    policy = CharPolicy(lambda seen: FIX if "id\n2\n3\n4" in seen else RUN)
    (record,) = runner().run(policy, [BOUNDARY], "agentic")
    assert (record.success, record.turns, record.tool_calls, record.stop) == (True, 2, 2, StopReason.SUBMITTED)
    assert record.response_tokens == len(RUN) + len(FIX) + len(observation_suffix("id\n2\n3\n4"))


def test_token_limits_cut_turns_and_trajectories(runner):
    policy = CharPolicy(lambda seen: RUN)
    (record,) = runner(max_response_tokens=20).run(policy, [BOUNDARY], "agentic")
    assert (record.stop, record.tool_errors, record.final_sql) == (StopReason.MAX_TURNS, 3, None)
    (record,) = runner(max_trajectory_tokens=len(RUN) + 10).run(policy, [BOUNDARY], "agentic")
    assert (record.stop, record.turns, record.success) == (StopReason.TOKEN_LIMIT, 1, True)


def test_bad_gold_is_excluded_and_in_no_mean(runner):
    policy = CharPolicy(lambda seen: format_answer("t", ["SELECT id FROM orders WHERE price >= 20"]))
    records = runner().run(policy, [BOUNDARY, BAD_GOLD], "reasoning")
    assert [record.excluded for record in records] == ["", "gold"]
    assert records[1].reward is None
    entry = summarise("p", "reasoning", records)
    assert (entry["instances"], entry["success"], entry["mean_reward"]) == (1, 1.0, 1.0)
    assert entry["excluded"] == {"gold": 1}
    assert entry["by_category"] == {
        "query": {"n": 1, "successes": 1, "success": 1.0, "interval": entry["interval"]},
    }
    assert entry["by_kind"]["comparison_boundary"]["n"] == 1


def test_infrastructure_failures_are_excluded_and_the_others_go_on(runner, monkeypatch):
    made = runner()
    acquire = made._replicas.acquire

    def failing(trajectory_id, template):
        if "boundary" in trajectory_id:
            raise InfraError("no worker")
        return acquire(trajectory_id, template)

    monkeypatch.setattr(made._replicas, "acquire", failing)
    policy = CharPolicy(lambda seen: format_tool_call("submit_solution", BROKEN.sol_sql[0]))
    records = made.run(policy, [BOUNDARY, BROKEN], "agentic")
    assert [(record.excluded, record.success) for record in records] == [("infra", False), ("", True)]


def test_prompts_beyond_the_limit_are_left_out_and_counted(runner):
    records = runner(max_prompt_tokens=32).run(CharPolicy(lambda seen: ""), [BOUNDARY], "reasoning")
    assert records[0].excluded == "prompt_too_long"
    assert "max_prompt_tokens is 32" in records[0].reason


def test_replicas_are_handed_back(runner, replicas):
    runner().run(CharPolicy(lambda seen: FIX), [BOUNDARY, BROKEN, UPDATE], "agentic")
    with pytest.raises(InfraError, match="holds no replica"):
        replicas.lookup("evaluate:boundary")


def test_an_instance_takes_the_place_of_a_trajectory_that_ended(runner):
    """The long answer of one does not keep the others waiting."""
    long = format_answer("long " * 40, ["SELECT 1"])
    policy = CharPolicy(lambda seen: long if "price >=" not in seen else format_answer("t", ["SELECT 1"]), pace=40)
    done: list[int] = []
    instances = [named(BOUNDARY, f"b{n}") for n in range(4)]
    instances[2] = named(UPDATE, "u")
    records = runner().run(policy, instances, "reasoning", lambda: done.append(1))
    assert [record.instance.instance_id for record in records] == ["b0", "b1", "u", "b3"]
    assert len(done) == 4
    assert set(policy.running[:-1]) == {2}


def test_sql_that_takes_long_changes_nothing_but_the_time(runner, monkeypatch):
    """What is generated together follows from the tokens, so two runs ask the policy for the same steps."""
    instances = [named(BOUNDARY, f"b{n}") for n in range(5)]

    def trace(slow: str) -> list[int]:
        step = Episode.step

        def delayed(episode, text):
            if episode.instance.instance_id == slow:
                time.sleep(0.05)
            return step(episode, text)

        with monkeypatch.context() as patched:
            patched.setattr(Episode, "step", delayed)
            policy = CharPolicy(lambda seen: FIX if "id\n2\n3\n4" in seen else RUN, pace=16)
            runner().run(policy, instances, "agentic")
        return policy.running

    assert trace("b0") == trace("b3") == trace("none")


def test_replicas_are_handed_back_when_the_policy_fails(runner, replicas):
    def says(seen: str) -> str:
        if "id\n2\n3\n4" in seen:
            raise RuntimeError("out of memory")
        return RUN

    with pytest.raises(RuntimeError, match="out of memory"):
        runner().run(CharPolicy(says), [BOUNDARY, named(BOUNDARY, "b")], "agentic")
    for name in ("boundary", "b"):
        with pytest.raises(InfraError, match="holds no replica"):
            replicas.lookup(f"evaluate:{name}")
