"""The quality stage: sound data pass; broken data stop the run and show the rows."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from birdrl.errors import QualityError
from birdrl.stages.registry import StageContext

pytest.importorskip("great_expectations", reason="the pipeline extra is not installed")
from tasks.expectations import run

Rows = dict[str, list[dict[str, Any]]]
Build = Callable[[Rows], StageContext]


def failures(ctx: StageContext) -> str:
    with pytest.raises(QualityError) as caught:
        run(ctx)
    return str(caught.value)


def test_sound_data_pass_and_leave_docs_and_summary(rows: Rows, context: Build) -> None:
    ctx = context(rows)
    run(ctx)
    summary = json.loads((ctx.out / "summary.json").read_text())
    hard = [suite for suite in summary["suites"] if suite["hard"]]
    assert [suite["name"] for suite in hard] == ["train", "eval", "split", "templates"]
    assert all(suite["success"] and not suite["failed"] for suite in hard)
    assert hard[0]["expectations"] >= 15
    assert (hard[0]["rows"], hard[1]["rows"]) == (3, 2)
    pages = sorted(path.relative_to(ctx.out / "docs").parts[0] for path in (ctx.out / "docs").rglob("*.html"))
    assert {"index.html", "expectations", "validations"} == set(pages)
    assert not (ctx.root / "quality-failed").exists()


def test_docs_need_no_network_and_move_freely(rows: Rows, context: Build) -> None:
    ctx = context(rows)
    run(ctx)
    for page in (ctx.out / "docs").rglob("*.html"):
        text = page.read_text()
        assert not re.search(r"""(?:src|href)=["']?(?:https?:)?//""", text), page
        assert str(ctx.root) not in text
        for target in re.findall(r"""(?:src|href)="([^"#]+)""", text):
            assert (page.parent / target).resolve().is_file(), f"{page}: {target}"


def test_equal_data_give_equal_bytes(rows: Rows, context: Build) -> None:
    ctx = context(rows)
    trees = []
    for name in ("first", "second"):
        out = ctx.root / name
        out.mkdir()
        run(StageContext(ctx.name, ctx.params, ctx.root, out, ctx.work))
        trees.append({str(path.relative_to(out)): path.read_bytes() for path in out.rglob("*") if path.is_file()})
    assert trees[0] == trees[1]


def test_an_advisory_suite_reports_but_does_not_stop(rows: Rows, context: Build) -> None:
    for row in rows["train"]:
        row["category"] = "query"
    ctx = context(rows)
    run(ctx)
    shares = json.loads((ctx.out / "summary.json").read_text())["suites"][-1]
    assert (shares["name"], shares["hard"], shares["success"]) == ("shares", False, False)


def spoil_category(rows: Rows) -> None:
    rows["train"][1]["category"] = "weird"


def spoil_id(rows: Rows) -> None:
    rows["train"][2]["instance_id"] = "train-0"


def spoil_null(rows: Rows) -> None:
    rows["eval"][1]["db_id"] = None


def spoil_database(rows: Rows) -> None:
    rows["train"][0]["db_id"] = "nowhere"


def spoil_split(rows: Rows) -> None:
    rows["eval"][0]["db_id"] = "shop"


def spoil_tests(rows: Rows) -> None:
    rows["train"][0]["test_cases"] = []


def spoil_statements(rows: Rows) -> None:
    rows["train"][0]["issue_sql"] = "not a list"


def spoil_solution(rows: Rows) -> None:
    rows["train"][1]["sol_sql"] = [rows["train"][1]["issue_sql"][0] + " ;"]


def spoil_text(rows: Rows) -> None:
    rows["train"][1]["query"] += " Try select ID from item\nwhere id <= 6 instead."


def spoil_both_sides(rows: Rows) -> None:
    rows["eval"][0]["instance_id"] = "train-1"


def spoil_length(rows: Rows) -> None:
    rows["eval"][0]["query"] = "fix it"


@pytest.mark.parametrize(
    ("spoil", "shown"),
    [
        (spoil_category, r"train: expect_column_values_to_be_in_set of category: 1 of 3.*row 2.*train-1.*'weird'"),
        (spoil_id, r"train: expect_column_values_to_be_unique of instance_id.*row 1: .*'train-0'.*row 3"),
        (spoil_null, r"eval: expect_column_values_to_not_be_null of db_id.*row 2.*eval-1.*null"),
        (spoil_database, r"train: expect_column_values_to_be_in_set of db_id.*train-0.*'nowhere'"),
        (spoil_split, r"split: expect_column_values_to_be_in_set of sides.*db_id shop: sides = 'train\+eval'"),
        (spoil_tests, r"train: expect_column_values_to_be_between of tests.*train-0: tests = 0"),
        (spoil_statements, r"train: .* of issue_statements.*train-0: issue_statements = 0"),
        (spoil_solution, r"train: .* of solution_differs.*train-1: solution_differs = False"),
        (spoil_text, r"train: .* of text_shows_solution.*train-1: text_shows_solution = True"),
        (spoil_both_sides, r"eval: .* of id_in_training.*train-1: id_in_training = True"),
        (spoil_length, r"eval: .* of query_chars.*eval-0: query_chars = 6"),
        (
            lambda rows: rows["train"].pop(),
            r"train: expect_table_row_count_to_be_between: observed 2, wanted min_value 3",
        ),
    ],
    ids=lambda value: getattr(value, "__name__", "").strip("<>") or None,
)
def test_a_broken_expectation_names_itself_and_its_rows(
    rows: Rows, context: Build, spoil: Callable[[Rows], Any], shown: str
) -> None:
    spoil(rows)
    ctx = context(rows)
    message = failures(ctx)
    assert re.search(shown, message, re.DOTALL), message
    assert (ctx.root / "quality-failed" / "docs" / "index.html").is_file()
    assert str(ctx.root / "quality-failed" / "docs" / "index.html") in message


def test_too_few_bug_kinds_are_named(rows: Rows, context: Build) -> None:
    for row in rows["train"]:
        row["bug"]["kind"] = "the_same"
    assert "of bug_kind: observed 1, wanted min_value 2" in failures(context(rows))


def test_changed_and_writable_templates_are_named(rows: Rows, context: Build) -> None:
    ctx = context(rows)
    manifest = json.loads((ctx.root / "templates" / "manifest.json").read_text())
    file = ctx.root / "templates" / f"{manifest['clinic']['sha256']}.sqlite"
    file.chmod(0o644)
    data = bytearray(file.read_bytes())
    data[-1] ^= 0xFF  # the last byte of the file belongs to a stored row
    file.write_bytes(bytes(data))
    message = failures(ctx)
    assert "templates: expect_column_values_to_be_in_set of hash_matches: 1 of 2 rows" in message
    assert "db_id clinic: hash_matches = False" in message
    assert "db_id clinic: mode = '644'" in message


def test_a_damaged_template_fails_its_integrity_check(rows: Rows, context: Build) -> None:
    ctx = context(rows)
    manifest = json.loads((ctx.root / "templates" / "manifest.json").read_text())
    file = ctx.root / "templates" / f"{manifest['shop']['sha256']}.sqlite"
    file.chmod(0o644)
    file.write_bytes(file.read_bytes()[:100] + b"\xff" * 4000)
    file.chmod(0o444)
    assert re.search(r"of integrity: 1 of 2 rows\n\s+db_id shop: integrity = ", failures(ctx))


def test_a_repaired_run_clears_the_failed_docs(rows: Rows, context: Build, tmp_path: Path) -> None:
    spoil_category(rows)
    ctx = context(rows)
    failures(ctx)
    rows["train"][1]["category"] = "query"
    (ctx.root / "audit" / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows["train"]))
    out = tmp_path / "again"
    out.mkdir()
    run(StageContext(ctx.name, ctx.params, ctx.root, out, ctx.work))
    assert not (ctx.root / "quality-failed").exists()
