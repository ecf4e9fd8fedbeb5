"""Task sft_tools: stage 2, tool-use imitation."""

from __future__ import annotations

from prefect import task

from tasks._stage import STAGE_TASK, StageCall, StageResult, json_figures, run_stage


@task(name="sft_tools", **STAGE_TASK)
def sft_tools(call: StageCall) -> StageResult:
    """Figures: steps, losses, tokens; the curve streams into MLflow."""
    return run_stage(call, json_figures("summary.json"))
