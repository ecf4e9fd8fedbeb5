"""Task report: one page with the table, the curves and the data."""

from __future__ import annotations

from pathlib import Path

from prefect import task

from tasks._stage import STAGE_TASK, StageCall, StageResult, run_stage


@task(name="report", **STAGE_TASK)
def report(call: StageCall) -> StageResult:
    """Figures: where the pages lie."""
    return run_stage(call, _pages)


def _pages(out: Path) -> str:
    pages = sorted(out.glob("*.md")) + sorted(out.glob("*.html"))
    return "\n".join(f"- `{page}`" for page in pages)
