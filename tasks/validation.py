"""Validating tables with Great Expectations: suites as code, results as JSON, Data Docs that need no network.

Hard suites stop the run and show the offending rows; advisory suites are reported only.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

os.environ["GX_ANALYTICS_ENABLED"] = "false"  # read when the package is imported

import great_expectations as gx
import great_expectations.expectations as gxe
import pandas as pd
from great_expectations.core.run_identifier import RunIdentifier

from birdrl.errors import QualityError
from birdrl.files import write_json
from tasks.data_docs import SuitePage, finish_data_docs
from tasks.quality_history import keep_run

SHOWN_ROWS = 5
# Data Docs name their pages after the time of the run; a fixed one keeps equal data at equal paths.
RUN = RunIdentifier(run_name="quality", run_time=datetime(2000, 1, 1, tzinfo=UTC))


@dataclass(frozen=True)
class Suite:
    """Expectations over one table. `keys` name a row for a person; an advisory suite never fails the run."""

    name: str
    frame: pd.DataFrame
    keys: tuple[str, ...]
    expectations: Sequence[gxe.Expectation]
    hard: bool = True


def check(suites: Sequence[Suite], out: Path, history: Path, *, keep: int) -> dict[str, Any]:
    """Validate, write `docs/` and `summary.json` to `out`, keep a copy in `history` (the latest `keep` runs).

    Returns the summary. Raises QualityError naming the broken hard expectations, their first offending rows and the
    Data Docs in the history.
    """
    summary = validate(suites, out / "docs")
    write_json(out / "summary.json", summary)
    kept = keep_run(history, out, summary, keep)
    broken = [suite for suite in summary["suites"] if suite["hard"] and not suite["success"]]
    if broken:
        raise QualityError(describe_failures(broken, kept / "docs" / "index.html"))
    return summary


def between(column: str, low: float | None, high: float | None, notes: str | None = None) -> gxe.Expectation:
    """Every value of a column lies in a closed range."""
    return gxe.ExpectColumnValuesToBeBetween(column=column, min_value=low, max_value=high, notes=notes)


def validate(suites: Sequence[Suite], docs: Path) -> dict[str, Any]:
    """Run all suites, write Data Docs into `docs`, and return
    `{suites: [{name, hard, rows, success, expectations, failed: [{expectation, column, observed, rows}]}]}`.

    Raises QualityError when Great Expectations itself could not evaluate an expectation.
    """
    with tempfile.TemporaryDirectory(prefix="birdrl-gx-") as folder:
        context = gx.get_context(mode="file", project_root_dir=folder)
        context.enable_analytics(False)
        context.variables.progress_bars = {"globally": False}
        for site in list(context.variables.data_docs_sites or {}):
            context.delete_data_docs_site(site)
        context.add_data_docs_site(
            "docs",
            {
                "class_name": "SiteBuilder",
                "show_how_to_buttons": False,
                "store_backend": {"class_name": "TupleFilesystemStoreBackend", "base_directory": str(docs.resolve())},
                "site_index_builder": {"class_name": "DefaultSiteIndexBuilder"},
            },
        )
        source = context.data_sources.add_pandas("birdrl")
        entries = [_validate_one(context, source, suite) for suite in suites]
        context.build_data_docs()
    finish_data_docs(
        docs, [SuitePage(e["name"], e["hard"], e["rows"], e["expectations"], e["failed"]) for e in entries]
    )
    return {"success": all(e["success"] for e in entries if e["hard"]), "suites": entries}


def describe_failures(broken: Sequence[Mapping[str, Any]], page: Path) -> str:
    """The message of a failed run: expectation, offending rows, where to look."""
    lines = [f"{sum(len(suite['failed']) for suite in broken)} data expectations do not hold:"]
    for suite in broken:
        for failure in suite["failed"]:
            column = f" of {failure['column']}" if failure["column"] else ""
            lines.append(f"  {suite['name']}: {failure['expectation']}{column}: {failure['observed']}")
            lines += [f"      {row}" for row in failure["rows"]]
    lines.append(f"Data Docs: {page}; correct the data or the limits (quality.* in params.yaml) and run again.")
    return "\n".join(lines)


def _validate_one(context: Any, source: Any, suite: Suite) -> dict[str, Any]:
    batch = source.add_dataframe_asset(suite.name).add_batch_definition_whole_dataframe("all")
    added = context.suites.add(gx.ExpectationSuite(name=suite.name, expectations=list(suite.expectations)))
    definition = context.validation_definitions.add(gx.ValidationDefinition(name=suite.name, data=batch, suite=added))
    checkpoint = context.checkpoints.add(
        gx.Checkpoint(
            name=suite.name,
            validation_definitions=[definition],
            result_format={
                "result_format": "SUMMARY",
                "unexpected_index_column_names": list(suite.keys),
                "partial_unexpected_count": SHOWN_ROWS,
            },
        )
    )
    outcome = checkpoint.run(batch_parameters={"dataframe": suite.frame}, run_id=RUN)
    results = [result for run in outcome.run_results.values() for result in run.results]
    failed = [_failure(suite, result) for result in results if not result.success]
    failed.sort(key=lambda failure: (failure["expectation"], failure["column"]))
    return {
        "name": suite.name,
        "hard": suite.hard,
        "rows": len(suite.frame),
        "success": bool(outcome.success),
        "expectations": len(results),
        "failed": failed,
    }


def _failure(suite: Suite, result: Any) -> dict[str, Any]:
    config, found = result.expectation_config, result.result
    column = config.kwargs.get("column", "")
    if "unexpected_count" in found:
        total = found["element_count"]
        observed = f"{found['unexpected_count']} of {total} rows"
        rows = [_row(suite, entry, column) for entry in found.get("partial_unexpected_index_list") or []][:SHOWN_ROWS]
    elif "observed_value" in found:
        wanted = {key: config.kwargs[key] for key in ("min_value", "max_value") if config.kwargs.get(key) is not None}
        observed = f"observed {found['observed_value']}, wanted " + ", ".join(f"{k} {v}" for k, v in wanted.items())
        rows = []
    else:
        message = (result.exception_info or {}).get("exception_message") or result.exception_info
        raise QualityError(f"suite {suite.name}: {config.type} of {column} could not be evaluated: {message}")
    return {"expectation": config.type, "column": column, "observed": observed, "rows": rows}


def _row(suite: Suite, entry: Mapping[str, Any], column: str) -> str:
    keys = ", ".join(f"{key} {entry[key]}" for key in suite.keys if key in entry and key != column)
    value = entry.get(column)
    shown = "null" if pd.isna(value) else repr(value.item() if hasattr(value, "item") else value)
    return f"{keys}: {column} = {shown}" if keys else f"{column} = {shown}"
