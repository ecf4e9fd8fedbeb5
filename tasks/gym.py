"""Task gym: verified SQL becomes gated, executable SQL issues."""

from __future__ import annotations

from prefect import task

from tasks._stage import STAGE_TASK, StageCall, StageResult, json_figures, run_stage


@task(name="gym", **STAGE_TASK)
def gym(call: StageCall) -> StageResult:
    """Figures: accepted and quarantined instances, category shares, features."""
    return run_stage(call, json_figures("stats.json"))
