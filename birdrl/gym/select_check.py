"""Decide whether one SELECT can be trusted as a reference: it runs, gives rows, and gives the same rows again."""

from __future__ import annotations

import re
import time
from collections import Counter
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import apsw
import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from birdrl.gym.mirror import reversed_copy
from birdrl.gym.schema import Schema
from birdrl.gym.templates import open_template

_STEPS_PER_CALL = 20_000
# Authorizer actions of a query without side effects.
READING = frozenset((apsw.SQLITE_SELECT, apsw.SQLITE_READ, apsw.SQLITE_FUNCTION, apsw.SQLITE_RECURSIVE))
_UNSTEADY_FUNCTIONS = re.compile(
    r"random|randomblob|current_(date|time|timestamp)|changes|total_changes|last_insert_rowid|sqlite_version"
    r"|sqlite_source_id|load_extension"
)
_CLOCK = re.compile(r"'now'|\"now\"|\b(?:date|time|datetime|julianday|unixepoch)\s*\(\s*\)", re.IGNORECASE)


class SelectRejected(Exception):
    """Why a query is not usable as a reference, in one sentence."""


@dataclass(frozen=True)
class CheckedSelect:
    """A query in canonical form with the table it gives."""

    sql: str
    rows: tuple[tuple[Any, ...], ...]
    ordered: bool  # the query has a top-level ORDER BY


def parse_select(sql: str) -> exp.Query:
    """The syntax tree of exactly one query. Raises SelectRejected for anything else."""
    try:
        trees = [tree for tree in sqlglot.parse(sql, read="sqlite") if tree is not None]
    except (SqlglotError, RecursionError) as error:
        raise SelectRejected(f"does not parse: {str(error).splitlines()[0]}") from error
    if len(trees) != 1 or not isinstance(trees[0], exp.Query):
        raise SelectRejected("is not one SELECT statement")
    return trees[0]


def canonical(tree: exp.Query, schema: Schema) -> str:
    """The query in sqlglot's SQLite style; changes the tree.

    SQLite reads "France" in double quotes as text when no column has that name; that is written as 'France'.
    """
    names = {column.name.lower() for table in schema.tables for column in table.columns}
    names |= {alias.alias.lower() for alias in tree.find_all(exp.Alias)} | {"rowid", "oid", "_rowid_"}
    for column in list(tree.find_all(exp.Column)):
        identifier = column.this
        quoted = isinstance(identifier, exp.Identifier) and identifier.quoted and not column.table
        if quoted and identifier.name.lower() not in names:
            column.replace(exp.Literal.string(identifier.name))
    return str(tree.sql(dialect="sqlite", copy=False))


class SelectChecker:
    """Runs queries on a template, on the template read backwards, and on a copy whose rows lie in reverse order.

    A query whose rows depend on the order in which SQLite happens to visit them gives different answers and is
    rejected. `max_steps` counts SQLite's virtual-machine steps: unlike `time_limit_s`, it cuts the same queries on
    every machine.
    """

    def __init__(
        self,
        path: Path,
        schema: Schema,
        *,
        max_steps: int = 200_000_000,
        time_limit_s: float = 10.0,
        max_rows: int = 10_000,
    ) -> None:
        self.schema = schema
        self.max_rows = max_rows
        self.max_steps = max_steps
        self.time_limit_s = time_limit_s
        self._deadline = 0.0
        self._steps_left = 0
        self._functions: set[str] = set()
        self._template, self._backwards, self._mirror = open_template(path), open_template(path), reversed_copy(path)
        self._backwards.execute("PRAGMA reverse_unordered_selects = ON")
        self._connections = (self._template, self._backwards, self._mirror)
        for connection in self._connections:
            connection.set_progress_handler(self._exhausted, _STEPS_PER_CALL)
            connection.authorizer = self._authorize

    def close(self) -> None:
        for connection in self._connections:
            connection.close()

    def check(self, sql: str) -> CheckedSelect:
        """The query in canonical form and its rows. Raises SelectRejected with the reason."""
        if _CLOCK.search(sql):
            raise SelectRejected("non-deterministic: asks for the current time")
        tree = parse_select(sql)
        ordered = tree.args.get("order") is not None
        text = canonical(tree, self.schema)
        first = self._run(self._template, text)
        if unsteady := sorted(f for f in self._functions if _UNSTEADY_FUNCTIONS.fullmatch(f)):
            raise SelectRejected(f"non-deterministic: uses {', '.join(unsteady)}")
        if not first:
            raise SelectRejected("the result is empty")
        if all(value is None for row in first for value in row):
            raise SelectRejected("the result holds nothing but NULL")
        if text != sql and not _same(first, self._run(self._template, sql), ordered):
            raise SelectRejected("its canonical form gives another result")
        for other in (self._backwards, self._mirror):
            if not _same(first, self._run(other, text), ordered):
                what = (
                    "the order of its rows depends"
                    if _same(first, self._run(other, text), False)
                    else "its rows depend"
                )
                raise SelectRejected(
                    f"non-deterministic: {what} on how SQLite visits the tables; order by a unique column"
                )
        return CheckedSelect(text, tuple(first), ordered)

    def _exhausted(self) -> bool:
        self._steps_left -= _STEPS_PER_CALL
        return self._steps_left < 0 or time.monotonic() > self._deadline

    def _authorize(self, action: int, _one: str | None, two: str | None, _db: str | None, _by: str | None) -> int:
        if action == apsw.SQLITE_FUNCTION and two:
            self._functions.add(two.lower())
        return apsw.SQLITE_OK if action in READING else apsw.SQLITE_DENY

    def _run(self, connection: apsw.Connection, sql: str) -> list[tuple[Any, ...]]:
        self._deadline = time.monotonic() + self.time_limit_s
        # The copy lacks constraints that let SQLite stop early, so it may take more steps.
        self._steps_left = self.max_steps * (8 if connection is self._mirror else 1)
        self._functions = set()
        try:
            cursor = connection.cursor()
            # A cached statement would not ask the authorizer again, and the functions it uses would go unseen.
            cursor.execute(sql, can_cache=False)
            rows: list[tuple[Any, ...]] = list(islice(cursor, self.max_rows + 1))
            cursor.close(force=True)
        except apsw.InterruptError as error:
            why = f"{self.max_steps} steps" if self._steps_left < 0 else f"{self.time_limit_s} s"
            raise SelectRejected(f"takes more than {why}") from error
        except apsw.AuthError as error:
            raise SelectRejected(f"does more than read: {error}") from error
        except (apsw.Error, UnicodeDecodeError) as error:
            raise SelectRejected(f"does not execute: {error}") from error
        if len(rows) > self.max_rows:
            raise SelectRejected(f"gives more than {self.max_rows} rows")
        return rows


def _same(a: list[tuple[Any, ...]], b: list[tuple[Any, ...]], ordered: bool) -> bool:
    left, right = ([tuple(_rounded(v) for v in row) for row in rows] for rows in (a, b))
    return left == right if ordered else Counter(left) == Counter(right)


def _rounded(value: Any) -> Any:
    # Sums of reals differ in the last bits with the order of their terms.
    return round(value, 9) if isinstance(value, float) else value
