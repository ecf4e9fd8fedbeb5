"""Task evaluate: every checkpoint on the held-out databases."""

from __future__ import annotations

from pathlib import Path

from prefect import task

from birdrl.files import read_json
from tasks._stage import STAGE_TASK, StageCall, StageResult, run_stage


@task(name="evaluate", **STAGE_TASK)
def evaluate(call: StageCall) -> StageResult:
    """Figures: success per policy and category, turns and tool errors."""
    return run_stage(call, _table)


def _table(out: Path) -> str:
    from birdrl.report import results_markdown  # draws plots too: not needed to define a flow

    return results_markdown(read_json(out / "results.json"))
