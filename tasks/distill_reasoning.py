"""Task distill_reasoning: the teacher writes a thought for every training issue."""

from __future__ import annotations

from prefect import task

from tasks._stage import STAGE_TASK, StageCall, StageResult, json_figures, run_stage


@task(name="distill_reasoning", **STAGE_TASK)
def distill_reasoning(call: StageCall) -> StageResult:
    """Figures: pairs kept and rejected, with the reasons."""
    return run_stage(call, json_figures("stats.json"))
