"""Task sft_reasoning: stage 1, reasoning imitation."""

from __future__ import annotations

from prefect import task

from tasks._stage import STAGE_TASK, StageCall, StageResult, json_figures, run_stage


@task(name="sft_reasoning", **STAGE_TASK)
def sft_reasoning(call: StageCall) -> StageResult:
    """Figures: steps, losses, tokens; the curve streams into MLflow."""
    return run_stage(call, json_figures("summary.json"))
