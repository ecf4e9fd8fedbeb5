"""`birdrl audit`: report, kept rows and exit status."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest

from birdrl.cli import main


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    """Two training rows of which the second is a copy of the evaluation row."""
    question = "The report counts cancelled orders although it should not"
    rows = [
        {"instance_id": "t1", "db_id": "shop", "query": "Prices lack the tax", "issue_sql": ["SELECT price FROM item"]},
        {"instance_id": "t2", "db_id": "shop", "query": question, "issue_sql": ["SELECT COUNT(*) FROM orders"]},
    ]
    train, evaluation = tmp_path / "train.jsonl", tmp_path / "eval.jsonl"
    train.write_text("".join(json.dumps(row, indent=None) + "\n" for row in rows))
    evaluation.write_text(json.dumps({**rows[1], "instance_id": "e1", "db_id": "store"}) + "\n")
    for db_id, table in (("shop", "item"), ("store", "thing")):
        (tmp_path / "databases" / db_id).mkdir(parents=True)
        connection = sqlite3.connect(tmp_path / "databases" / db_id / f"{db_id}.sqlite")
        connection.executescript(f"CREATE TABLE {table}(price REAL); INSERT INTO {table} VALUES (1);")
        connection.close()
    return train, evaluation


def command(files: tuple[Path, Path], *more: str) -> list[str]:
    return ["audit", "--train", str(files[0]), "--eval", str(files[1]), *more]


def test_a_copy_is_a_finding(files: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(command(files, "--out", str(tmp_path / "out"))) == 1
    shown = capsys.readouterr()
    assert "| t2 | near_duplicate, exact_copy | 1.000 | 1.000 | e1 |" in shown.out
    assert "| schemas (same tables and columns) on both sides | not looked at |" in shown.out
    assert "0 databases on both sides, 1 of 2 training rows flagged" in shown.err
    assert (tmp_path / "out" / "report.md").read_text() == shown.out
    lines = files[0].read_bytes().splitlines(keepends=True)
    assert (tmp_path / "out" / "train.jsonl").read_bytes() == lines[0]


def test_json_and_databases(files: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(command(files, "--json", "--databases", str(tmp_path / "databases"))) == 1
    report = json.loads(capsys.readouterr().out)
    assert (report["counts"]["schema_overlap"], report["counts"]["near_duplicate_pairs"]) == (0, 1)
    assert report["closest"][0]["train"]["instance_id"] == "t2"


def test_nothing_found(files: tuple[Path, Path]) -> None:
    files[1].write_text(json.dumps({"instance_id": "e", "db_id": "zoo", "query": "Lions?", "issue_sql": ["DELETE"]}))
    assert main(command(files)) == 0


def test_a_database_on_both_sides_is_a_finding(files: tuple[Path, Path]) -> None:
    files[1].write_text(json.dumps({"instance_id": "e", "db_id": "shop", "query": "Lions?", "issue_sql": ["DELETE"]}))
    assert main(command(files)) == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--text-threshold", "2"], "--text-threshold: "),
        (["--exclude", "everything"], "--exclude: "),
        (["--exclude", "same_result"], "needs the databases"),
        (["--databases", "/nowhere"], "no such folder"),
    ],
)
def test_wrong_input(
    files: tuple[Path, Path], options: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(command(files, *options)) == 2
    assert message in capsys.readouterr().err


def test_one_file_on_both_sides_is_a_mistake(files: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(command((files[0], files[0]))) == 2
    assert "name two files" in capsys.readouterr().err


def test_the_places_of_the_report_are_looked_at_first(
    files: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = files[0].read_bytes()
    for out, message in (
        (tmp_path, "train.jsonl: is one of the files that are read"),
        (files[1], "eval.jsonl: a file; give the name of a folder"),
        (files[1] / "deep", "deep: cannot be created ("),
    ):
        assert main(command(files, "--out", str(out))) == 2
        said = capsys.readouterr()
        assert message in said.err
        assert said.out == ""
    assert files[0].read_bytes() == before


@pytest.mark.parametrize("side", [0, 1])
def test_a_file_without_rows_is_not_clean(
    files: tuple[Path, Path], side: int, capsys: pytest.CaptureFixture[str]
) -> None:
    files[side].write_text("")
    assert main(command(files)) == 2
    assert f"{files[side]}: holds no row" in capsys.readouterr().err


def test_a_run_that_fails_leaves_no_folder_behind(files: tuple[Path, Path], tmp_path: Path) -> None:
    files[1].write_text("{broken\n")
    assert main(command(files, "--out", str(tmp_path / "new" / "out"))) == 2
    assert not (tmp_path / "new").exists()


def test_a_list_is_split_into_kept_lines(files: tuple[Path, Path], tmp_path: Path) -> None:
    rows = [json.loads(line) for line in files[0].read_text().splitlines()]
    files[0].write_text(json.dumps(rows))
    assert main(command(files, "--out", str(tmp_path / "out"))) == 1
    assert [json.loads(line) for line in (tmp_path / "out" / "train.jsonl").read_text().splitlines()] == rows[:1]
