"""Teacher, rollout and evaluation show a policy the same text for the same SQL, within the same budget."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from toy_shop import BOUNDARY

from birdrl.agent.episode import LAST_TURN_NOTE
from birdrl.agent.prompting import load_prompts
from birdrl.agent.templating import observation_suffix
from birdrl.agent.tools import format_tool_call
from birdrl.distill.trajectories import TrajectoryTeacher
from birdrl.evaluation.policy import Generation
from birdrl.evaluation.runner import EpisodeRunner
from birdrl.params import AgentParams, Params
from birdrl.rewards.execution import ExecutionScorer
from birdrl.sql import PoolConfig, ReplicaPool
from birdrl.sql.observation import MIN_BYTES
from training.scripted import Harness

pytest.importorskip("verl")

REPAIRED = BOUNDARY.sol_sql[0]
LIMITS = {"max_turns": 3, "max_response_tokens": 64, "max_trajectory_tokens": 400, "max_prompt_tokens": 700}


class Recorder:
    """A policy of the evaluation that runs one statement, submits, and keeps what it was shown."""

    def __init__(self) -> None:
        self.shown: list[str] = []

    def prompt(self, messages: object, tools: object) -> list[int]:
        return [0]

    def continuation(self, observation: str) -> list[int]:
        self.shown.append(observation)
        return [0]

    def submit(self, sequence: list[int], limit: int) -> int:
        return len(self.shown)

    def advance(self) -> list[tuple[int, Generation]]:
        tool = ("submit_solution", REPAIRED) if self.shown else ("execute_sql", REPAIRED)
        return [(len(self.shown), Generation([1], format_tool_call(*tool), True))]


@pytest.mark.parametrize(
    ("budget", "expected"),
    [
        ({"observation_rows": 2}, "id\n2\n3\n(1 more row)"),
        ({"observation_rows": 9, "observation_bytes": 80}, "id\n2\n3\n4"),
    ],
)
def test_the_same_sql_shows_the_same_everywhere(
    budget: dict[str, int], expected: str, tmp_path: Path, tokenizer: Any, params: Params
) -> None:
    agent = AgentParams.model_validate({**LIMITS, **budget})
    with closing(Harness(tmp_path, tokenizer, params)) as harness:
        check_everywhere(harness, agent, expected, {**LIMITS, **budget})


def check_everywhere(harness: Harness, agent: AgentParams, expected: str, limits: dict[str, int]) -> None:
    turns = [format_tool_call("execute_sql", REPAIRED), format_tool_call("submit_solution", REPAIRED)]
    output, _, _ = harness.run(list(turns), **limits)
    assert harness.text(output, 0) == observation_suffix(expected)

    prompts = load_prompts("compact")
    with ReplicaPool(PoolConfig(workers=1)) as replicas, ReplicaPool(PoolConfig(workers=1)) as pool:
        scorer = ExecutionScorer(harness.store, pool)
        recorder = Recorder()
        EpisodeRunner(harness.store, replicas, scorer, prompts, agent, 1).run(recorder, [BOUNDARY], "agentic")
        assert recorder.shown == [expected]

        shown = set()
        for seed in range(12):
            row = TrajectoryTeacher(harness.store, pool, scorer, prompts, agent, seed).build(BOUNDARY)
            assert isinstance(row, dict)
            for call, answer in zip(row["messages"], row["messages"][1:], strict=False):
                if f'"{REPAIRED}"' in call["content"] and answer["role"] == "tool":
                    shown.add(answer["content"].removesuffix(f"\n{LAST_TURN_NOTE}"))
        assert shown == {expected}


def test_the_smallest_budget_that_can_be_asked_for_suffices() -> None:
    assert AgentParams.model_validate({"observation_bytes": MIN_BYTES}).observation_bytes == MIN_BYTES
    with pytest.raises(ValidationError):
        AgentParams.model_validate({"observation_bytes": MIN_BYTES - 1})
