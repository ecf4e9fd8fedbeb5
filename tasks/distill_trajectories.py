"""Task distill_trajectories: the teacher writes tool-use trajectories with real observations."""

from __future__ import annotations

from prefect import task

from tasks._stage import STAGE_TASK, StageCall, StageResult, json_figures, run_stage


@task(name="distill_trajectories", **STAGE_TASK)
def distill_trajectories(call: StageCall) -> StageResult:
    """Figures: trajectories kept and rejected, turns."""
    return run_stage(call, json_figures("stats.json"))
