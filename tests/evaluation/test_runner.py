"""Episodes in lockstep: every instance gets its record, and failures of others are not the policy's."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from toy_shop import BAD_GOLD, BOUNDARY, BROKEN, UPDATE

from birdrl.agent.answers import format_answer
from birdrl.agent.episode import StopReason
from birdrl.agent.prompting import load_prompts
from birdrl.agent.templating import observation_suffix
from birdrl.agent.tools import format_tool_call
from birdrl.errors import InfraError
from birdrl.evaluation.policy import Generation
from birdrl.evaluation.results import summarise
from birdrl.evaluation.runner import EpisodeRunner
from birdrl.params import AgentParams
from birdrl.sql.pool import PoolConfig, ReplicaPool

RUN = format_tool_call("execute_sql", "SELECT id FROM orders WHERE price >= 20")
FIX = format_tool_call("submit_solution", "SELECT id FROM orders WHERE price >= 20")


class CharPolicy:
    """Characters are tokens; what it says is a function of all it has seen."""

    def __init__(self, says: Callable[[str], str]) -> None:
        self.says = says
        self.batches: list[int] = []

    def prompt(self, messages, tools):
        return [ord(c) for c in f"{'tools' if tools else ''}|" + "\n".join(m["content"] for m in messages)]

    def continuation(self, observation):
        return [ord(c) for c in observation_suffix(observation)]

    def generate(self, sequences, limits):
        self.batches.append(len(sequences))
        texts = [self.says("".join(map(chr, ids))) for ids in sequences]
        return [
            Generation([ord(c) for c in text[:limit]], text[:limit], len(text) <= limit)
            for text, limit in zip(texts, limits, strict=True)
        ]


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
    assert policy.batches == [2, 1]
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
