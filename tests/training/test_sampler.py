"""Failures are counted and capped; a group needs two."""

from __future__ import annotations

from typing import Any

import pytest

from birdrl.errors import InfraError
from birdrl.params import Params
from birdrl.training.rollout_settings import RolloutSettings

pytest.importorskip("verl")
from birdrl.training.sampler import check_failures, lone_groups, step_metrics


def settings(params: Params, share: float) -> RolloutSettings:
    return RolloutSettings(
        agent=params.agent, tools=True, templates="x", seed=0, group_size=4, prompts_per_step=2,
        max_failure_share=share, log="x",
    )  # fmt: skip


def record(blame: str = "none", **more: Any) -> dict[str, Any]:
    done = {"turns": 2, "tool_calls": 1, "tool_errors": 0, "stop": "submitted", "reward": 1.0}
    return {"blame": blame, "instance_id": "i1", "reason": "disk full", **done, **more}


def test_failures_below_the_cap_pass(params: Params) -> None:
    records = [record()] * 7 + [record("infra")]
    assert check_failures(records, 7, settings(params, 0.125)) == records


def test_failures_above_the_cap_stop_the_run(params: Params) -> None:
    with pytest.raises(InfraError, match=r"2 of 8 trajectories(.|\n)*gold, i1: disk full"):
        check_failures([record()] * 6 + [record("gold"), record("infra")], 6, settings(params, 0.125))


def test_a_zero_reward_is_no_failure(params: Params) -> None:
    check_failures([record("policy", reward=0.0)] * 8, 8, settings(params, 0.0))


def test_a_vanished_trajectory_is_a_bug(params: Params) -> None:
    with pytest.raises(RuntimeError, match="1 of 8 trajectories vanished"):
        check_failures([record()] * 7, 7, settings(params, 1.0))


def test_only_groups_of_one_are_dropped() -> None:
    assert lone_groups(["a_0_0", "a_0_1", "b_0_0", "b_3_0", "c_2_0"]) == {"a", "c"}


def test_figures_of_a_step() -> None:
    records = [record(), record(reward=0.5, stop="max_turns", tool_errors=2), record("infra")]
    figures = step_metrics(records)
    assert figures["rollout/failures/infra"] == 1
    assert figures["rollout/tool_errors/mean"] == 1
    assert figures["rollout/solved/mean"] == 0.5
    assert figures["rollout/stop/max_turns"] == 0.5
