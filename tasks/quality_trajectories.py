"""Task quality_trajectories: the teacher's trajectories meet their expectations, or the run stops here."""

from __future__ import annotations

from prefect import task

from tasks._stage import STAGE_TASK, StageCall, StageResult, json_figures, run_stage


@task(name="quality_trajectories", **STAGE_TASK)
def quality_trajectories(call: StageCall) -> StageResult:
    """Figures: expectations checked and met; the Data Docs lie in docs/."""
    return run_stage(call, json_figures("summary.json"))
