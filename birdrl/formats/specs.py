"""The public formats, declared: which field is which, how a file holds its rows, how it is recognised."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from birdrl.errors import InputError
from birdrl.formats.files import SHOWN_FIELDS, Container, RawRow, container_of, read_rows


@dataclass(frozen=True)
class Format:
    """A public format. `fields` maps its field names, in published order, to ours.

    `required` must be there in every row; a file is taken for the first format all of whose `marks` its first row has.
    `capital`: categories are written with a capital letter.
    """

    name: str
    title: str
    kind: Literal["issue", "generation"]
    container: Container
    fields: Mapping[str, str]
    required: tuple[str, ...]
    marks: tuple[str, ...]
    capital: bool = True


def _same(names: str) -> dict[str, str]:
    return {name: name for name in names.split()}


_ISSUE = "instance_id db_id query issue_sql preprocess_sql clean_up_sql sol_sql test_cases category dialect version"

_ALL = (
    Format(
        "birdrl", "birdrl's own issues", "issue", "jsonl",
        _same(f"{_ISSUE} bug difficulty source"),
        ("instance_id", "db_id", "query", "issue_sql"), ("issue_sql", "bug"), capital=False,
    ),
    Format(
        "birdrl-tasks", "birdrl's own generation tasks", "generation", "jsonl",
        _same(
            "instance_id db_id question evidence sol_sql difficulty category dialect preprocess_sql clean_up_sql "
            "test_cases source"
        ),
        ("instance_id", "db_id", "question"), ("instance_id", "question", "sol_sql", "source"), capital=False,
    ),
    Format(
        "bird-critic-preview", "BIRD-CRITIC, preview of January 2025", "issue", "jsonl",
        {
            "instance_id": "instance_id", "selected_database": "db_id", "query": "query", "error_sql": "issue_sql",
            "sol_sql": "sol_sql", "preprocess_sql": "preprocess_sql", "clean_up_sql": "clean_up_sql",
            "test_cases": "test_cases",
        },
        ("instance_id", "selected_database", "query", "error_sql"), ("error_sql", "selected_database"),
    ),
    Format(
        "six-gym", "SIX-GYM and SIX-GYM-SQLite", "issue", "jsonl",
        _same(
            "instance_id db_id query issue_sql sol_sql test_cases preprocess_sql clean_up_sql category dialect version"
        ),
        ("instance_id", "db_id", "query", "issue_sql", "sol_sql"), ("issue_sql", "sol_sql", "test_cases"),
    ),
    Format(
        "bird-critic", "BIRD-CRITIC, any dialect", "issue", "jsonl",
        _same(
            "dialect version instance_id db_id query issue_sql preprocess_sql clean_up_sql category sol_sql test_cases"
        ),
        ("instance_id", "db_id", "query", "issue_sql"), ("issue_sql", "db_id"),
    ),
    Format(
        "livesqlbench", "LiveSQLBench", "generation", "jsonl",
        {
            "instance_id": "instance_id", "selected_database": "db_id", "query": "question", "sol_sql": "sol_sql",
            "preprocess_sql": "preprocess_sql", "clean_up_sqls": "clean_up_sql", "test_cases": "test_cases",
            "category": "category", "difficulty_tier": "difficulty",
        },
        ("instance_id", "selected_database", "query"), ("selected_database", "query"),
    ),
    Format(
        "bird", "BIRD", "generation", "json",
        {
            "question_id": "instance_id", "db_id": "db_id", "question": "question", "evidence": "evidence",
            "SQL": "sol_sql", "difficulty": "difficulty",
        },
        ("db_id", "question", "SQL"), ("SQL", "question"),
    ),
    Format(
        "mini-dev", "BIRD mini-dev", "generation", "json",
        {
            "question_id": "instance_id", "db_id": "db_id", "question": "question", "evidence": "evidence",
            "SQL": "sol_sql", "difficulty": "difficulty",
        },
        ("question_id", "db_id", "question", "SQL"), ("SQL", "question_id", "question"),
    ),
    Format(
        "spider", "Spider", "generation", "json",
        {"db_id": "db_id", "query": "sol_sql", "question": "question"},
        ("db_id", "query", "question"), ("query", "question", "db_id"),
    ),
    Format(
        "spider-gold", "Spider's gold lines, SQL<TAB>db_id", "generation", "lines",
        {"SQL": "sol_sql", "db_id": "db_id"}, ("SQL", "db_id"), ("SQL", "db_id"),
    ),
)  # fmt: skip

FORMATS: dict[str, Format] = {form.name: form for form in _ALL}


def named(name: str) -> Format:
    """The format of that name. Raises InputError."""
    if name not in FORMATS:
        raise InputError(f"no format {name!r}; formats are: {', '.join(FORMATS)}")
    return FORMATS[name]


def detect(path: Path) -> Format:
    """The format of a file, by the fields of its first sound row. Raises InputError when it is none of ours."""
    first = next((row for row in read_rows(path, container_of(path)) if isinstance(row, RawRow)), None)
    if first is None:
        raise InputError(f"{path}: no row that could be read; formats are: {', '.join(FORMATS)}")
    for form in _ALL:
        if all(mark in first.values for mark in form.marks):
            return form
    fields = ", ".join(list(first.values)[:SHOWN_FIELDS])
    raise InputError(
        f"{path}: not a format that is known (fields: {fields}); name one with --format: {', '.join(FORMATS)}"
    )
