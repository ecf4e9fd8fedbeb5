"""Reading files of the public forms, whole and in blocks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from birdrl.audit.rows import Row, blocks_of, database_ids, find_rows, read_block, read_rows
from birdrl.errors import InputError

SIX_GYM = {
    "instance_id": "TRAIN_0", "db_id": "books", "dialect": "PostgreSQL", "version": "14.12", "category": "Query",
    "query": "Which?", "issue_sql": ["SELECT 1;"], "sol_sql": ["SELECT 2;"], "test_cases": ["def test_case(): ..."],
    "preprocess_sql": ["CREATE TABLE t(a)"], "clean_up_sql": [],
}  # fmt: skip
CRITIC = {"instance_id": "SQLite_3", "db_id": "shop", "query": "Why?", "issue_sql": ["DELETE"], "sol_sql": []}
BIRD = {"question_id": 12, "db_id": "superhero", "question": "How many?", "evidence": "", "SQL": "SELECT COUNT(*)"}
SPIDER = {"db_id": "concert_singer", "question": "List them", "query": "SELECT name FROM singer", "sql": {}}


def lines(path: Path, *rows: Any) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_fields_of_the_public_forms(tmp_path: Path) -> None:
    six, critic, bird, spider = read_rows(lines(tmp_path / "all.jsonl", SIX_GYM, CRITIC, BIRD, SPIDER))
    assert six == Row(
        1, "TRAIN_0", "books", "Which?", ("SELECT 1;",), ("SELECT 2;",), ("CREATE TABLE t(a)",), None, "postgres"
    )
    assert (critic.sql, critic.solution, critic.dialect) == (("DELETE",), (), "sqlite")
    assert (bird.instance_id, bird.text, bird.sql) == ("12", "How many?", ("SELECT COUNT(*)",))
    assert (spider.instance_id, spider.text, spider.sql) == ("4", "List them", ("SELECT name FROM singer",))


def test_the_preview_calls_the_buggy_sql_otherwise(tmp_path: Path) -> None:
    preview = {"instance_id": "1_1", "selected_database": "financial", "query": "Why?", "error_sql": "SELECT 1"}
    [row] = read_rows(lines(tmp_path / "a.jsonl", preview))
    assert (row.db_id, row.sql) == ("financial", ("SELECT 1",))


def test_sources_of_rows(tmp_path: Path) -> None:
    rows = [
        CRITIC | {"source": {"post_id": 7}},
        CRITIC | {"post_id": 7},
        CRITIC | {"birdrl": {"source": {"post_id": 7}}},
        CRITIC | {"source": {"verified_sql": ""}},
    ]
    assert [row.source for row in read_rows(lines(tmp_path / "a.jsonl", *rows))] == [*["post_id:7"] * 3, None]


def test_a_json_list_reads_like_lines(tmp_path: Path) -> None:
    (tmp_path / "list.json").write_text("\ufeff \n" + json.dumps([BIRD, SPIDER], indent=1))
    listed = read_rows(tmp_path / "list.json")
    assert listed == read_rows(lines(tmp_path / "lines.jsonl", BIRD, SPIDER))
    assert database_ids(tmp_path / "list.json") == {"superhero", "concert_singer"}


def test_blocks_cover_every_row_once_whatever_their_size(tmp_path: Path) -> None:
    rows = [CRITIC | {"instance_id": f"r{n}", "query": "x" * (n % 7)} for n in range(50)]
    path = tmp_path / "rows.jsonl"
    path.write_text("\n\n".join(json.dumps(row) for row in rows))  # blank lines, no newline at the end
    whole = read_rows(path)
    assert [row.number for row in whole] == list(range(1, 100, 2))
    for size in (1, 100, 999, 10**6):
        blocks = blocks_of(path, size)
        assert [row for block in blocks for row in read_block(block)] == whole
        assert sum(block.lines for block in blocks) == 99
    assert find_rows(path, [1, 51]) == {1: whole[0], 51: whole[25]}
    assert find_rows(path, []) == {}


def test_an_empty_file_has_no_rows(tmp_path: Path) -> None:
    assert read_rows(lines(tmp_path / "empty.jsonl")) == []


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"db_id": ', r"bad\.jsonl, line 2: not valid JSON"),
        ("[1]", r"line 2: expected a JSON object, got list"),
        (json.dumps({**CRITIC, "query": None}), r"line 2: no field 'query'"),
        (json.dumps({**CRITIC, "db_id": 1.5}), r"line 2, field 'db_id': expected a text, got float"),
        (json.dumps({**CRITIC, "issue_sql": [1]}), r"line 2, field 'issue_sql': expected SQL or a list"),
    ],
)
def test_a_bad_row_is_named(tmp_path: Path, line: str, message: str) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_text(json.dumps(CRITIC) + "\n" + line + "\n")
    with pytest.raises(InputError, match=message):
        read_rows(path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none\.jsonl: cannot be read"):
        read_rows(tmp_path / "none.jsonl")
