"""Task audit: training and evaluation issues are compared before anything is learnt from them."""

from __future__ import annotations

from prefect import task

from tasks._stage import STAGE_TASK, StageCall, StageResult, json_figures, run_stage


@task(name="audit", **STAGE_TASK)
def audit(call: StageCall) -> StageResult:
    """Figures: overlaps found and training instances taken out."""
    return run_stage(call, json_figures("report.json"))
