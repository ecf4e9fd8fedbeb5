"""Verified SQL: executable, non-empty, deterministic SELECTs that SQL-Rewind turns into issues (BIRD-RL, section 2).

Two sources: a schema-aware query generator, and files of gold SQL in the forms of BIRD and Spider.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from birdrl.errors import InputError
from birdrl.files import read_json, read_lines
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
class GoldRow:
    """One query of a gold file, not checked yet. `row` counts list entries or lines from 1."""

    path: str
    row: int
    db_id: str
    sql: str
    source_id: str
    question: str | None


def generate_verified(
    store: TemplateStore, db_id: str, rng_seed: int, count: int, *, complex_share: float = 0.0
) -> list[VerifiedSql]:
    """Up to `count` different generated queries over a template, at most 2,000 result rows each.

    `complex_share` of them are queries of several steps. Fewer come back only when the database offers no more. The
    same arguments give the same list.
    """
    drafts = generate(store, db_id, rng_seed, count, complex_share=complex_share)
    return [
        VerifiedSql(db_id, draft.sql, f"generated/{db_id}/{number}", draft.question)
        for number, draft in enumerate(drafts, 1)
    ]


def read_gold_files(
    paths: Sequence[Path | str], store: TemplateStore, *, time_limit_s: float = 5.0, max_rows: int = 10_000
) -> tuple[list[VerifiedSql], list[Rejected]]:
    """Gold SQL of BIRD/Spider JSON lists, or of .sql/.txt lines `SQL<TAB>db_id`, checked on the templates.

    Rows that cannot be used are returned with their reason, both lists in the order of the files. Raises InputError
    for a file or row that is not in one of these forms.
    """
    by_database: dict[str, list[tuple[int, GoldRow]]] = {}
    for position, row in enumerate(read_gold_rows(paths)):
        by_database.setdefault(row.db_id, []).append((position, row))
    outcome: dict[int, VerifiedSql | Rejected] = {}
    for db_id, group in by_database.items():
        results = check_gold_rows(store, db_id, [row for _, row in group], time_limit_s=time_limit_s, max_rows=max_rows)
        outcome |= {position: result for (position, _), result in zip(group, results, strict=True)}
    ordered = [outcome[position] for position in sorted(outcome)]
    return (
        [result for result in ordered if isinstance(result, VerifiedSql)],
        [result for result in ordered if isinstance(result, Rejected)],
    )


def read_gold_rows(paths: Sequence[Path | str]) -> list[GoldRow]:
    """The rows of gold files, unchecked. JSON fields: db_id, `SQL` or `query`, and optionally question, question_id.

    Raises InputError for a file or row that is not in one of the forms, and for a file without rows.
    """
    rows: list[GoldRow] = []
    for path in paths:
        read = list(_read(Path(path)))
        if not read:
            raise InputError(f"{path}: holds no query; expected a JSON list, or lines SQL<TAB>db_id")
        rows += read
    return rows


def check_gold_rows(
    store: TemplateStore,
    db_id: str,
    rows: Sequence[GoldRow],
    *,
    time_limit_s: float = 5.0,
    max_steps: int = 200_000_000,
    max_rows: int = 10_000,
) -> list[VerifiedSql | Rejected]:
    """The rows of one database, checked on its template, in their order.

    Rejected with a reason: an unknown database; SQL that does not execute, gives no rows, takes too long or is not
    deterministic; a query that repeats an accepted one.
    """
    if db_id not in store.manifest:
        why = store.rejected.get(db_id, "not among the templates")
        return [_reject(row, f"unknown database {db_id!r}: {why}") for row in rows]
    checker = SelectChecker(
        store.path(db_id), store.schema(db_id), max_steps=max_steps, time_limit_s=time_limit_s, max_rows=max_rows
    )
    results: list[VerifiedSql | Rejected] = []
    seen: set[str] = set()
    try:
        for row in rows:
            try:
                sql = checker.check(row.sql).sql
            except SelectRejected as error:
                results.append(_reject(row, str(error)))
                continue
            if sql in seen:
                results.append(_reject(row, "duplicate of an earlier query of this database"))
            else:
                seen.add(sql)
                results.append(VerifiedSql(db_id, sql, row.source_id, row.question))
    finally:
        checker.close()
    return results


def _reject(row: GoldRow, reason: str) -> Rejected:
    return Rejected(row.path, row.row, row.db_id, row.sql, reason)


def _read(path: Path) -> Iterator[GoldRow]:
    if path.suffix in (".sql", ".txt"):
        yield from _read_lines(path)
    else:
        yield from _read_json(path)


def _read_json(path: Path) -> Iterator[GoldRow]:
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
        yield GoldRow(
            str(path), number, row["db_id"], sql.strip().rstrip(";"), f"{path.name}#{identity}",
            question if isinstance(question, str) else None,
        )  # fmt: skip


def _read_lines(path: Path) -> Iterator[GoldRow]:
    for number, line in enumerate(read_lines(path), 1):
        if not line.strip():
            continue
        sql, tab, db_id = line.rpartition("\t")
        if not tab or not sql.strip() or not db_id.strip():
            raise InputError(f"{path}, line {number}: expected SQL<TAB>db_id")
        yield GoldRow(str(path), number, db_id.strip(), sql.strip().rstrip(";"), f"{path.name}#{number}", None)
