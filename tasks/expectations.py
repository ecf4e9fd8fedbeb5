"""Stage `quality`: instances, templates and the split against their expectations; then the data set card.

A hard expectation that does not hold stops the run and shows the offending rows; advisory suites are reported only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import great_expectations.expectations as gxe
import pandas as pd

from birdrl.files import read_json, write_json, write_text
from birdrl.gym.card import data_card, render_card
from birdrl.gym.instance import CATEGORIES
from birdrl.gym.paper import TABLE_8
from birdrl.gym.templates import TemplateStore
from birdrl.stages.registry import StageContext
from tasks import gates
from tasks.frames import database_frame, instance_frame, share_frame, template_frame
from tasks.gate_columns import instance_gates, read_rows
from tasks.gates import on_its_column
from tasks.text_columns import text_columns
from tasks.validation import Suite, between, check

TEXT_CHARS = (10, 8_000)  # the published gym's longest description has 917 tokens
SQL_CHARS = (1, 20_000)  # and its longest solution 1,976
SHARE_TOLERANCE = 10.0  # points of 100 between a category's shares of the two sides before it is mentioned
DISTINCT_TEXTS = 0.9  # share of different issue texts below which it is mentioned
DISTINCT_WORDINGS = 0.9  # the same of reports with names and values masked
SOLUTION_SHARE = 0.6  # mean share of what only the solution has that stands in the text, above which it is mentioned
LENGTH_FACTOR = 2.0  # between the mean length of our reports and the published one, either way, before it is mentioned


def run(ctx: StageContext) -> None:
    """Validate what training and evaluation will read; write `docs/` (Data Docs), `summary.json` and the data set card
    (`card.md`, `card.json`).

    Raises QualityError naming the broken expectations, their first offending rows and their Data Docs; these and the
    latest runs before stay in `artifacts/<profile>/quality-history`.
    """
    params = ctx.params.quality
    store = TemplateStore(ctx.input("templates"))
    paths = {"train": ctx.input("audit") / "train.jsonl", "eval": ctx.input("gym") / "eval.jsonl"}
    frames = {
        side: _side_frame(path, store, sample=params.gate_sample, seed=f"{ctx.seed}:{side}", workers=params.workers)
        for side, path in paths.items()
    }
    report = read_json(ctx.input("audit") / "report.json")
    summary = check(
        quality_suites(frames["train"], frames["eval"], store, ctx, report),
        ctx.out,
        ctx.root / "quality-history",
        keep=params.history,
    )
    card = data_card(
        profile=ctx.root.name,
        seed=ctx.seed,
        files=paths,
        templates=store,
        stats=read_json(ctx.input("gym") / "stats.json"),
        audit=report,
        quality=summary,
        licence=params.licence,
        origin=params.origin,
    )
    write_json(ctx.out / "card.json", card)
    write_text(ctx.out / "card.md", render_card(card))


def quality_suites(
    train: pd.DataFrame, evaluation: pd.DataFrame, store: TemplateStore, ctx: StageContext, report: Mapping[str, Any]
) -> list[Suite]:
    """All suites of the stage. `report` is the audit's."""
    limits = ctx.params.quality
    evaluation["id_in_training"] = evaluation["instance_id"].isin(set(train["instance_id"].dropna()))
    flagged = {flag["instance_id"] for flag in report["flagged"]}
    train["flagged_by_audit"] = train["instance_id"].isin(flagged)
    sides = {"train": train, "eval": evaluation}
    fingerprints = {db_id: store.schema(db_id).fingerprint() for db_id in store.db_ids}
    return [
        Suite(
            "train",
            train,
            ("row", "instance_id"),
            [
                *instance_expectations(store.db_ids, limits.min_train_instances),
                gxe.ExpectColumnUniqueValueCountToBeBetween(
                    column="bug_kind", min_value=limits.min_bug_kinds, notes="Distinct kinds: quality.min_bug_kinds."
                ),
                gxe.ExpectColumnValuesToBeInSet(
                    column="flagged_by_audit", value_set=[False], notes="The audit's findings are left out."
                ),
            ],
        ),
        Suite(
            "eval",
            evaluation,
            ("row", "instance_id"),
            [
                *instance_expectations(store.db_ids, limits.min_eval_instances),
                gxe.ExpectColumnValuesToBeInSet(
                    column="id_in_training", value_set=[False], notes="No id occurs on both sides."
                ),
            ],
        ),
        Suite("split", database_frame(sides, fingerprints), ("db_id",), split_expectations()),
        Suite("templates", template_frame(store), ("db_id",), template_expectations()),
        Suite("shares", share_frame(sides, CATEGORIES), ("category",), share_expectations(), hard=False),
        Suite("texts", train, ("row", "instance_id"), text_expectations(ctx.params.gym.text_style), hard=False),
        Suite("template_modes", template_frame(store), ("db_id",), mode_expectations(), hard=False),
    ]


def instance_expectations(db_ids: Sequence[str], min_rows: int) -> list[gxe.Expectation]:
    """What holds for instances on either side (columns: see tasks.frames and tasks.gate_columns)."""
    return [
        gxe.ExpectTableRowCountToBeBetween(min_value=min_rows, notes="Rows after the audit: quality.min_*_instances."),
        on_its_column(gates.ExpectRowToBeAnInstance),
        on_its_column(gates.ExpectTextNotToShowSolution),
        on_its_column(gates.ExpectSolutionToPassItsTests, "On quality.gate_sample rows."),
        on_its_column(gates.ExpectIssueToFailATest, "On quality.gate_sample rows."),
        on_its_column(gates.ExpectEmptyAnswerToFail, "On quality.gate_sample rows."),
        *(gxe.ExpectColumnValuesToNotBeNull(column=name) for name in ("instance_id", "db_id", "category", "dialect")),
        gxe.ExpectColumnValuesToBeUnique(column="instance_id"),
        gxe.ExpectColumnValuesToBeInSet(column="category", value_set=list(CATEGORIES)),
        gxe.ExpectColumnValuesToBeInSet(column="dialect", value_set=["SQLite"]),
        gxe.ExpectColumnValuesToBeInSet(
            column="db_id", value_set=list(db_ids), notes="Every database is in the template manifest."
        ),
        between("query_chars", *TEXT_CHARS, notes="Length of the issue text."),
        between("issue_statements", 1, 50),
        between("issue_chars", *SQL_CHARS),
        between("solution_statements", 1, 50),
        between("solution_chars", *SQL_CHARS),
        between("tests", 1, 100),
        gxe.ExpectColumnValuesToBeInSet(
            column="solution_differs", value_set=[True], notes="The solution is not the issue SQL."
        ),
    ]


def split_expectations() -> list[gxe.Expectation]:
    """Training and evaluation use different databases, under whatever names."""
    return [
        gxe.ExpectColumnValuesToBeInSet(
            column="sides", value_set=["train", "eval"], notes="A database is used on one side only."
        ),
        gxe.ExpectColumnValuesToBeNull(
            column="twin", notes="A database of the other side with the same tables and columns."
        ),
    ]


def template_expectations() -> list[gxe.Expectation]:
    """Template files are those of the manifest, sound and not empty."""
    return [
        gxe.ExpectTableRowCountToBeBetween(min_value=1),
        gxe.ExpectColumnValuesToBeUnique(column="db_id"),
        gxe.ExpectColumnValuesToBeInSet(column="hash_matches", value_set=[True], notes="SHA-256 of the file's bytes."),
        gxe.ExpectColumnValuesToBeInSet(column="integrity", value_set=["ok"], notes="PRAGMA quick_check."),
        between("tables", 1, None),
        between("rows", 1, None),
    ]


def mode_expectations() -> list[gxe.Expectation]:
    """Templates are read-only files; advisory, because a checkout may have written them otherwise and leases open
    them read-only in any case."""
    return [gxe.ExpectColumnValuesToBeInSet(column="mode", value_set=["444"], notes="Nobody may write to a template.")]


def share_expectations() -> list[gxe.Expectation]:
    """Both sides have similar category shares; advisory, because success is reported per category anyway."""
    return [
        between("difference", -SHARE_TOLERANCE, SHARE_TOLERANCE, notes="Evaluation minus training share, in points.")
    ]


def text_expectations(style: str) -> list[gxe.Expectation]:
    """Issue texts vary and tell little of the solution; those of style `report` are as long as the published ones.
    Advisory."""
    mean, longest = TABLE_8["overall"]["query"]
    texts = [
        gxe.ExpectColumnProportionOfUniqueValuesToBeBetween(
            column="text", min_value=DISTINCT_TEXTS, notes="Share of different issue texts."
        ),
        gxe.ExpectColumnMeanToBeBetween(
            column="solution_share",
            max_value=SOLUTION_SHARE,
            notes="Share of the tokens that only the solution has which the text holds.",
        ),
    ]
    if style == "brief":  # a few words are neither long nor of many wordings
        return texts
    return [
        *texts,
        gxe.ExpectColumnProportionOfUniqueValuesToBeBetween(
            column="wording", min_value=DISTINCT_WORDINGS, notes="Share of different texts, names and values masked."
        ),
        gxe.ExpectColumnMeanToBeBetween(
            column="query_tokens",
            min_value=mean / LENGTH_FACTOR,
            max_value=mean * LENGTH_FACTOR,
            notes=f"Tokens of an issue text; {mean} in the published gym (Table 8).",
        ),
        gxe.ExpectColumnMaxToBeBetween(
            column="query_tokens", max_value=longest, notes="Tokens of the longest issue text of the published gym."
        ),
    ]


def _side_frame(path: Path, store: TemplateStore, *, sample: int | None, seed: str, workers: int) -> pd.DataFrame:
    rows = read_rows(path)
    columns = instance_gates(rows, store, sample=sample, seed=seed, workers=workers)
    verdicts = {name: pd.Series(values, dtype=object) for name, values in columns.items()}
    return instance_frame(rows).assign(**verdicts).join(text_columns(rows, store.schemas))
