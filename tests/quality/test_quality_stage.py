"""The quality stage: sound data pass; broken data stop the run and show the rows."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from birdrl.errors import QualityError
from birdrl.files import sha256_file
from birdrl.gym.templates import TemplateStore
from birdrl.stages.registry import StageContext

pytest.importorskip("great_expectations", reason="the pipeline extra is not installed")
from tasks.expectations import run
from tasks.gate_columns import instance_gates
from tasks.quality_history import keep_run, runs

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
    assert [run.name for run in runs(ctx.root / "quality-history")] == ["0001-passed"]
    assert_card(ctx)
    assert_self_contained(ctx.out / "docs", ctx.root)
    assert_self_contained(ctx.root / "quality-history", ctx.root)


def assert_card(ctx: StageContext) -> None:
    """The card names licence, sources, statistics, audit and hashes."""
    text = (ctx.out / "card.md").read_text()
    card = json.loads((ctx.out / "card.json").read_text())
    front = yaml.safe_load(text.split("---")[1])
    assert front["license_name"] == card["licence"] == "not stated"
    assert "set `quality.licence`" in text
    assert "Licence: not stated. Origin: not stated." in text
    assert "SQL of the train side: not stated (8)." in text
    assert "| issues, before the audit | 9 | 9 |" in text
    for path in (ctx.root / "audit/train.jsonl", ctx.root / "gym/eval.jsonl"):
        assert sha256_file(path) in text
    assert card["files"]["train"]["databases"] == {"shop": 8}
    assert card["databases"]["clinic"]["sha256"] == TemplateStore(ctx.root / "templates").sha256("clinic")
    assert "| database overlap | 0 |" in text
    assert "| result overlap | not looked at |" in text
    assert "| train | stops the run | 8 |" in text
    assert "| `query` | The user's description" in text
    assert "Fewer issues than asked for: 2 train missing." in text


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
    suites = {suite["name"]: suite for suite in json.loads((ctx.out / "summary.json").read_text())["suites"]}
    assert (suites["shares"]["hard"], suites["shares"]["success"]) == (False, False)
    assert runs(ctx.root / "quality-history")[-1].name.endswith("-passed")
    assert "shares (advisory)" in (ctx.root / "quality-history" / "index.html").read_text()


def test_reports_that_are_alike_and_short_are_mentioned(rows: Rows, context: Build) -> None:
    ctx = context(rows)
    found = {}
    for style in ("brief", "report"):
        out = ctx.root / style
        out.mkdir()
        gym = ctx.params.gym.model_copy(update={"text_style": style})
        run(StageContext(ctx.name, ctx.params.model_copy(update={"gym": gym}), ctx.root, out, ctx.work))
        suites = {suite["name"]: suite for suite in json.loads((out / "summary.json").read_text())["suites"]}
        assert suites["texts"]["hard"] is False
        found[style] = {(failure["expectation"], failure["column"]) for failure in suites["texts"]["failed"]}
    assert found["brief"] == set()
    assert found["report"] == {
        ("expect_column_proportion_of_unique_values_to_be_between", "wording"),
        ("expect_column_mean_to_be_between", "query_tokens"),
    }


def test_every_broken_expectation_names_itself_and_its_rows(rows: Rows, context: Build) -> None:
    train, evaluation = rows["train"], rows["eval"]
    train[0]["category"] = "weird"
    train[1]["instance_id"] = "train-0"
    train[2]["db_id"] = "nowhere"
    train[3]["test_cases"] = []
    train[4]["issue_sql"] = "not a list"
    train[5]["sol_sql"] = [train[5]["issue_sql"][0] + " ;"]
    train[6]["query"] += " Try select ID from item\nwhere id <= 7 instead."
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
        r"train: expect_text_not_to_show_solution of text_gate: 1 .*\n.*train-6: .*the text quotes the solution: ",
        r"train: expect_column_values_to_not_be_null of dialect: .*\n.*train-7: dialect = null",
        r"train: expect_row_to_be_an_instance of form_gate: 3 .*\n.*train-0: form_gate = .category: Input should be",
        r"train: expect_issue_to_fail_a_test of issue_gate: 1 .*\n.*train-5: issue_gate = 'the issue passes all tests'",
        r"train: expect_column_unique_value_count_to_be_between of bug_kind: observed 1, wanted min_value 2",
        r"split: .* of sides: .*\n *db_id shop: sides = 'train\+eval'",
        r"eval: .* of id_in_training: .*\n.*row 2, instance_id train-3: id_in_training = True",
        r"eval: .* of query_chars: .*\n.*eval-2: query_chars = 6",
        r"eval: expect_table_row_count_to_be_between: observed 3, wanted min_value 4",
    ):
        assert re.search(shown, message), f"{shown}\n{message}"
    index = ctx.root / "quality-history" / "0001-failed" / "docs" / "index.html"
    assert str(index) in message
    assert "failed" in index.read_text()


def test_solutions_that_do_not_work_are_named_with_what_went_wrong(rows: Rows, context: Build) -> None:
    train = rows["train"]
    train[0]["sol_sql"] = ["SELECT colour FROM item"]
    train[1]["test_cases"] = [{"kind": "state", "probe_sql": "SELECT COUNT(*) FROM item"}]
    train[2]["test_cases"] = [{"kind": "result"}, {"kind": "feature", "required": ["window"]}]
    message = failures(context(rows))
    assert re.search(r"expect_solution_to_pass_its_tests of solution_gate: 2 of 8 rows", message)
    assert re.search(r"train-0: solution_gate = .*no such column: colour", message)
    assert re.search(r"train-2: solution_gate = .passes 1 of 2: ", message)
    assert re.search(
        r"expect_empty_answer_to_fail of empty_gate: .*\n(.*\n)*?.*train-1: .*doing nothing passes", message
    )


def test_gates_are_tried_on_a_seeded_sample(rows: Rows, context: Build) -> None:
    ctx = context(rows)
    store = TemplateStore(ctx.input("templates"))
    tried = [
        instance_gates(rows["train"], store, sample=3, seed=seed, workers=1)["solution_gate"]
        for seed in ("a", "a", "b")
    ]
    assert tried[0] == tried[1] != tried[2]
    assert [column.count("passes") for column in tried] == [3, 3, 3]
    assert [column.count(None) for column in tried] == [5, 5, 5]


def test_a_database_under_another_name_and_a_flagged_row_are_found(rows: Rows, context: Build) -> None:
    ctx = context(rows)
    schemas = json.loads((ctx.root / "templates" / "schemas.json").read_text())
    schemas["clinic"] = {**schemas["shop"], "db_id": "clinic"}
    (ctx.root / "templates" / "schemas.json").write_text(json.dumps(schemas))
    rows_of_train = ctx.root / "audit" / "train.jsonl"
    rows_of_train.write_text(rows_of_train.read_text().replace("train-3", "train-99"))  # the audit has flagged that one
    message = failures(ctx)
    assert re.search(r"split: .* of twin: 2 .*\n *db_id clinic: twin = 'shop'", message)
    assert re.search(r"of flagged_by_audit: 1 of 8 rows\n.*row 4, instance_id train-99", message)


def test_the_history_keeps_the_latest_runs(tmp_path: Path) -> None:
    out, history = tmp_path / "out", tmp_path / "history"
    (out / "docs").mkdir(parents=True)
    failure = {"expectation": "expect_more", "column": "rows", "observed": "1", "rows": []}
    for number, success in enumerate([True, True, False, True], 1):
        (out / "docs" / "index.html").write_text(f"page {number}")
        suite = {
            "name": "train",
            "hard": True,
            "rows": number,
            "success": success,
            "failed": [] if success else [failure],
        }
        summary = {"success": success, "suites": [suite]}
        (out / "summary.json").write_text(json.dumps(summary))
        kept = keep_run(history, out, summary, 2)
        assert (kept / "docs" / "index.html").read_text() == f"page {number}"
    assert [path.name for path in runs(history)] == ["0003-failed", "0004-passed"]
    page = (history / "index.html").read_text()
    assert page.index("0004-passed/docs/index.html") < page.index("0003-failed/docs/index.html")
    assert "train: expect_more rows" in page
    assert "0002" not in page
    assert sorted(path.name for path in history.iterdir()) == ["0003-failed", "0004-passed", "index.html"]


def test_damaged_templates_are_named(rows: Rows, context: Build) -> None:
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
    assert "template_modes (advisory)" in (ctx.root / "quality-history" / "index.html").read_text()
    assert re.search(r"of integrity: 1 of 2 rows\n\s+db_id shop: integrity = ", message)

    for file, data in sound.items():
        file.chmod(0o644)
        file.write_bytes(data)
        file.chmod(0o444)
    again = ctx.root / "again"
    again.mkdir()
    run(StageContext(ctx.name, ctx.params, ctx.root, again, ctx.work))
