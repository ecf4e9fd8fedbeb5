"""Task templates: databases are checked, hashed and stored read-only."""

from __future__ import annotations

from prefect import task

from tasks._stage import STAGE_TASK, StageCall, StageResult, json_figures, run_stage


@task(name="templates", **STAGE_TASK)
def templates(call: StageCall) -> StageResult:
    """Figures: the manifest, one entry per database."""
    return run_stage(call, json_figures("manifest.json"))
