"""Task policy_init: the model that training starts from."""

from __future__ import annotations

from prefect import task

from tasks._stage import STAGE_TASK, StageCall, StageResult, json_figures, run_stage


@task(name="policy_init", **STAGE_TASK)
def policy_init(call: StageCall) -> StageResult:
    """Figures: source, parameters, hashes of tokenizer and chat template."""
    return run_stage(call, json_figures("policy.json"))
