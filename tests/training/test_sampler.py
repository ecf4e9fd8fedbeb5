"""Failures are counted and capped; a group needs two."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from birdrl.errors import InfraError
from birdrl.params import Params, RewardParams
from birdrl.training.rollout_settings import RolloutSettings

pytest.importorskip("verl")
from birdrl.training.results import failure_rows, step_rows
from birdrl.training.sampler import GroupSampler, check_failures, lone_groups, step_metrics


def settings(params: Params, share: float) -> RolloutSettings:
    return RolloutSettings(
        agent=params.agent, tools=True, templates="x", seed=0, group_size=4, prompts_per_step=2,
        max_failure_share=share, log="x",
    )  # fmt: skip


def record(blame: str = "none", **more: Any) -> dict[str, Any]:
    done = {"turns": 2, "tool_calls": 1, "tool_errors": 0, "stop": "submitted", "reward": 1.0, "pool": {}}
    done |= {"solved": True, "outcome": "solved", "parts": {"execution": 1.0}, "unparsable": 0}
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


def test_no_group_is_needed_for_step_wise_rewards(params: Params) -> None:
    from transfer_queue import KVBatchMeta

    batch = KVBatchMeta(partition_id="train", keys=["a_0_0", "b_0_0", "b_1_0"], tags=[{}, {}, {}])
    sampler = GroupSampler.__new__(GroupSampler)
    step_wise = {"reward": RewardParams.model_validate({"preset": "step_wise"})}
    sampler.settings = settings(params, 1.0).model_copy(update=step_wise)
    assert sampler._drop_lone(batch).keys == batch.keys


def test_figures_of_a_step() -> None:
    half = {"reward": 0.5, "solved": False, "outcome": "partial", "parts": {"execution": 0.4, "extra": 0.1}}
    records = [record(), record(stop="max_turns", tool_errors=2, unparsable=1, **half), record("infra")]
    figures = step_metrics(records)
    assert figures["rollout/failures/infra"] == 1
    assert figures["rollout/tool_errors/mean"] == 1
    assert figures["rollout/solved/mean"] == 0.5
    assert figures["rollout/stop/max_turns"] == 0.5
    assert figures["rollout/outcome/partial"] == 0.5
    assert figures["rollout/reward/execution/mean"] == pytest.approx(0.7)
    assert figures["rollout/reward/extra/mean"] == 0.05
    assert figures["rollout/unparsable"] == 1


def test_pool_counters_of_all_rollout_processes_add_up() -> None:
    """What the agent loops counted since their last record, whichever process wrote it, failures included."""
    parts = [{"tools": {"leases": 2, "wait_s": 0.5}}, {"tools": {"leases": 1, "wait_s": 0.25}, "scoring": {"kills": 1}}]
    figures = step_metrics([record(pool=parts[0]), record("infra", pool=parts[1])])
    assert {name: value for name, value in figures.items() if "pool" in name} == {
        "rollout/pool/tools/leases": 3.0,
        "rollout/pool/tools/wait_s": 0.75,
        "rollout/pool/scoring/kills": 1.0,
    }


def test_what_depends_on_the_clock_is_no_result(tmp_path: Path) -> None:
    """Pool counters are tracked, but two equal runs leave equal files."""
    line = {"step": 1, "data": {"critic/score/mean": 0.5, "rollout/solved/mean": 1.0, "rollout/pool/tools/waits": 3}}
    (tmp_path / "metrics.jsonl").write_text(json.dumps(line) + "\n")
    assert step_rows([tmp_path / "metrics.jsonl"]) == [{"step": 1, "reward": 0.5, "rollout/solved/mean": 1.0}]
    assert "pool" not in failure_rows([record("infra", pool={"tools": {"waits": 3}})])[0]
