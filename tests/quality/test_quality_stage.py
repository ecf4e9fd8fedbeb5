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
    assert (hard[0]["rows"], hard[1]["rows"]) == (8, 4)
    pages = sorted(path.relative_to(ctx.out / "docs").parts[0] for path in (ctx.out / "docs").rglob("*.html"))
    assert {"index.html", "expectations", "validations"} == set(pages)
    assert not (ctx.root / "quality-failed").exists()
    assert_self_contained(ctx.out / "docs", ctx.root)


def assert_self_contained(docs: Path, root: Path) -> None:
    """No page loads anything from elsewhere, links are relative and lead to files that exist."""
    for page in docs.rglob("*.html"):
        text = page.read_text()
        assert not re.search(r"""(?:src|href)=["']?(?:https?:)?//""", text), page
        assert str(root) not in text
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


def test_every_broken_expectation_names_itself_and_its_rows(rows: Rows, context: Build) -> None:
    train, evaluation = rows["train"], rows["eval"]
    train[0]["category"] = "weird"
    train[1]["instance_id"] = "train-0"
    train[2]["db_id"] = "nowhere"
    train[3]["test_cases"] = []
    train[4]["issue_sql"] = "not a list"
    train[5]["sol_sql"] = [train[5]["issue_sql"][0] + " ;"]
    train[6]["query"] += " Try select ID from item\nwhere id <= 11 instead."
    train[7]["dialect"] = None
    evaluation[0]["db_id"] = "shop"
    evaluation[1]["instance_id"] = "train-3"
    evaluation[2]["query"] = "fix it"
    evaluation.pop()
    for row in train:
        row["bug"]["kind"] = "the_same"
    ctx = context(rows)
    message = failures(ctx)
    for shown in (
        r"train: expect_column_values_to_be_in_set of category: 1 of 8 rows\n *row 1, instance_id train-0: .*'weird'",
        r"train: expect_column_values_to_be_unique of instance_id: 2 .*\n *row 1: .*'train-0'\n *row 2: .*'train-0'",
        r"train: expect_column_values_to_be_in_set of db_id: 1 .*\n *row 3, instance_id train-2: db_id = 'nowhere'",
        r"train: .* of tests: .*\n.*train-3: tests = 0",
        r"train: .* of issue_statements: .*\n.*train-4: issue_statements = 0",
        r"train: .* of solution_differs: .*\n.*train-5: solution_differs = False",
        r"train: .* of text_shows_solution: 1 .*\n.*train-6: text_shows_solution = True",
        r"train: expect_column_values_to_not_be_null of dialect: .*\n.*train-7: dialect = null",
        r"train: expect_column_unique_value_count_to_be_between of bug_kind: observed 1, wanted min_value 2",
        r"split: .* of sides: .*\n *db_id shop: sides = 'train\+eval'",
        r"eval: .* of id_in_training: .*\n.*row 2, instance_id train-3: id_in_training = True",
        r"eval: .* of query_chars: .*\n.*eval-2: query_chars = 6",
        r"eval: expect_table_row_count_to_be_between: observed 3, wanted min_value 4",
    ):
        assert re.search(shown, message), f"{shown}\n{message}"
    index = ctx.root / "quality-failed" / "docs" / "index.html"
    assert str(index) in message
    assert "failed" in index.read_text()


def test_damaged_templates_are_named_and_failed_docs_vanish_after_repair(rows: Rows, context: Build) -> None:
    ctx = context(rows)
    manifest = json.loads((ctx.root / "templates" / "manifest.json").read_text())
    shop, clinic = (ctx.root / "templates" / f"{manifest[db_id]['sha256']}.sqlite" for db_id in ("shop", "clinic"))
    sound = {file: file.read_bytes() for file in (shop, clinic)}
    for file in sound:
        file.chmod(0o644)
    clinic.write_bytes(sound[clinic][:-1] + b"?")  # the last byte of the file belongs to a stored row
    shop.write_bytes(sound[shop][:100] + b"\xff" * 4000)
    shop.chmod(0o444)
    message = failures(ctx)
    assert "of hash_matches: 2 of 2 rows\n      db_id clinic: hash_matches = False" in message
    assert "of mode: 1 of 2 rows\n      db_id clinic: mode = '644'" in message
    assert re.search(r"of integrity: 1 of 2 rows\n\s+db_id shop: integrity = ", message)

    for file, data in sound.items():
        file.chmod(0o644)
        file.write_bytes(data)
        file.chmod(0o444)
    again = ctx.root / "again"
    again.mkdir()
    run(StageContext(ctx.name, ctx.params, ctx.root, again, ctx.work))
    assert not (ctx.root / "quality-failed").exists()
