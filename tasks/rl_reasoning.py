"""Task rl_reasoning: stage 3, single-turn GRPO on the execution reward."""

from __future__ import annotations

from prefect import task

from tasks._stage import STAGE_TASK, StageCall, StageResult, json_figures, run_stage


@task(name="rl_reasoning", **STAGE_TASK)
def rl_reasoning(call: StageCall) -> StageResult:
    """Figures: steps, reward, KL, dropped samples; curves stream into MLflow."""
    return run_stage(call, json_figures("summary.json"))
