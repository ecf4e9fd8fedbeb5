"""Task rl_agentic: stage 4, multi-turn GRPO on private replicas."""

from __future__ import annotations

from prefect import task

from tasks._stage import STAGE_TASK, StageCall, StageResult, json_figures, run_stage


@task(name="rl_agentic", **STAGE_TASK)
def rl_agentic(call: StageCall) -> StageResult:
    """Figures: steps, reward, KL, turns, dropped samples; curves stream into MLflow."""
    return run_stage(call, json_figures("summary.json"))
