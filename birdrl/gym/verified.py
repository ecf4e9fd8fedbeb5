"""Verified SQL: executable, non-empty, deterministic SELECTs that SQL-Rewind turns into issues (BIRD-RL, section 2).

Two sources: a schema-aware query generator, and files of gold SQL in the forms of BIRD and Spider.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from birdrl.errors import InputError
from birdrl.files import read_json
from birdrl.gym.querygen.generate import generate
from birdrl.gym.select_check import SelectChecker, SelectRejected
from birdrl.gym.templates import TemplateStore


@dataclass(frozen=True)
class VerifiedSql:
    """One executable, non-empty, deterministic SELECT in canonical form, and the question it answers."""

    db_id: str
    sql: str
    source_id: str
    question: str | None = None


@dataclass(frozen=True)
class Rejected:
    """A row of a gold file that cannot be used. `row` counts list entries or lines from 1."""

    path: str
    row: int
    db_id: str
    sql: str
    reason: str


@dataclass(frozen=True)
class _GoldRow:
    path: Path
    row: int
    db_id: str
    sql: str
    source_id: str
    question: str | None


def generate_verified(store: TemplateStore, db_id: str, rng_seed: int, count: int) -> list[VerifiedSql]:
    """Up to `count` different generated queries over a template, at most 2,000 result rows each.

    Fewer come back only when the database offers no more. The same arguments give the same list.
    """
    drafts = generate(store, db_id, rng_seed, count)
    return [
        VerifiedSql(db_id, draft.sql, f"generated/{db_id}/{number}", draft.question)
        for number, draft in enumerate(drafts, 1)
    ]


def read_gold_files(
    paths: Sequence[Path | str], store: TemplateStore, *, time_limit_s: float = 5.0, max_rows: int = 10_000
) -> tuple[list[VerifiedSql], list[Rejected]]:
    """Gold SQL of BIRD/Spider JSON lists, or of .sql/.txt lines `SQL<TAB>db_id`, checked on the templates.

    JSON fields: db_id, `SQL` or `query`, and optionally question and question_id. Rows that name an unknown database,
    do not execute, give no rows, take too long or are not deterministic are returned with their reason; a query that
    repeats an accepted one of its database is rejected as a duplicate. Raises InputError for a file or row that is
    not in one of these forms.
    """
    rows = [row for path in paths for row in _read(Path(path))]
    accepted: list[VerifiedSql] = []
    rejected: list[Rejected] = []
    seen: set[tuple[str, str]] = set()
    by_database: dict[str, list[tuple[int, _GoldRow]]] = {}
    for position, row in enumerate(rows):
        by_database.setdefault(row.db_id, []).append((position, row))
    outcome: dict[int, VerifiedSql | Rejected] = {}
    for db_id, group in by_database.items():
        for position, result in _check_group(store, db_id, group, time_limit_s, max_rows):
            outcome[position] = result
    for position, row in enumerate(rows):
        result = outcome[position]
        if isinstance(result, VerifiedSql) and (result.db_id, result.sql) in seen:
            result = _reject(row, "duplicate of an earlier query of this database")
        if isinstance(result, VerifiedSql):
            seen.add((result.db_id, result.sql))
            accepted.append(result)
        else:
            rejected.append(result)
    return accepted, rejected


def _check_group(
    store: TemplateStore, db_id: str, group: Iterable[tuple[int, _GoldRow]], time_limit_s: float, max_rows: int
) -> Iterator[tuple[int, VerifiedSql | Rejected]]:
    """Check the rows of one database with one pair of connections."""
    if db_id not in store.manifest:
        why = store.rejected.get(db_id, "not among the templates")
        for position, row in group:
            yield position, _reject(row, f"unknown database {db_id!r}: {why}")
        return
    checker = SelectChecker(store.path(db_id), store.schema(db_id), time_limit_s=time_limit_s, max_rows=max_rows)
    try:
        for position, row in group:
            try:
                checked = checker.check(row.sql)
            except SelectRejected as error:
                yield position, _reject(row, str(error))
            else:
                yield position, VerifiedSql(db_id, checked.sql, row.source_id, row.question)
    finally:
        checker.close()


def _reject(row: _GoldRow, reason: str) -> Rejected:
    return Rejected(str(row.path), row.row, row.db_id, row.sql, reason)


def _read(path: Path) -> Iterator[_GoldRow]:
    if path.suffix in (".sql", ".txt"):
        yield from _read_lines(path)
    else:
        yield from _read_json(path)


def _read_json(path: Path) -> Iterator[_GoldRow]:
    rows: Any = read_json(path)
    if not isinstance(rows, list):
        raise InputError(f"{path}: expected a JSON list of objects with db_id and SQL (or query)")
    for number, row in enumerate(rows, 1):
        if not isinstance(row, dict):
            raise InputError(f"{path}, row {number}: expected an object, got {type(row).__name__}")
        sql = row.get("SQL", row.get("query"))
        if not isinstance(sql, str) or not isinstance(row.get("db_id"), str):
            raise InputError(f"{path}, row {number}: needs the text fields db_id and SQL (or query)")
        question = row.get("question")
        identity = row.get("question_id", number)
        yield _GoldRow(
            path, number, row["db_id"], sql.strip().rstrip(";"), f"{path.name}#{identity}",
            question if isinstance(question, str) else None,
        )  # fmt: skip


def _read_lines(path: Path) -> Iterator[_GoldRow]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not UTF-8 ({error.reason}); convert the file") from error
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        sql, tab, db_id = line.rpartition("\t")
        if not tab or not sql.strip() or not db_id.strip():
            raise InputError(f"{path}, line {number}: expected SQL<TAB>db_id")
        yield _GoldRow(path, number, db_id.strip(), sql.strip().rstrip(";"), f"{path.name}#{number}", None)
