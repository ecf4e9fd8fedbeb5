"""Read the schema of an open SQLite database, with the words people use for its names."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import apsw

from birdrl.gym.schema import Column, ForeignKey, Schema, Table

MAX_EXAMPLE_CHARS = 40
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


def quote(name: str) -> str:
    """The name as a quoted SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def words(name: str) -> str:
    """'unit_price', 'unitPrice' and 'Unit-Price' all give 'unit price'."""
    return " ".join(re.split(r"[\s_\-.]+", _CAMEL.sub(" ", name).strip(" _-."))).lower() or name


def table_names(connection: apsw.Connection, database: str = "main") -> list[str]:
    """Ordinary and virtual tables in order of creation, without SQLite's own and shadow tables."""
    kinds = {row[1]: row[2] for row in connection.execute(f"PRAGMA {database}.table_list")}
    names = connection.execute(f"SELECT name FROM {database}.sqlite_master WHERE type = 'table' ORDER BY rowid")
    return [str(n) for (n,) in names if kinds.get(n) in ("table", "virtual") and not str(n).startswith("sqlite_")]


def read_schema(
    connection: apsw.Connection, db_id: str, labels: Mapping[str, Mapping[str, str]] | None = None
) -> Schema:
    """Tables, columns, keys, row counts and two example values per column.

    `labels` gives words for names: {table: {column: words, "": words for the table}}; the others are split into words.
    A foreign key whose target does not exist is left out. The columns of a composite foreign key appear one by one.
    """
    labels = labels or {}
    names = table_names(connection)
    primary = {name: _primary_key(connection, name) for name in names}
    tables = []
    for name in names:
        known = labels.get(name, {})
        columns = []
        for _, column, kind, not_null, _, position, hidden in _table_info(connection, name):
            if hidden == 1:  # hidden column of a virtual table
                continue
            columns.append(
                Column(
                    name=column,
                    type=(kind or "").upper(),
                    primary_key=position > 0,
                    not_null=bool(not_null),
                    label=known.get(column) or words(column),
                    examples=_examples(connection, name, column),
                )
            )
        ((rows,),) = connection.execute(f"SELECT COUNT(*) FROM {quote(name)}").fetchall()
        tables.append(
            Table(
                name=name,
                label=known.get("") or words(name),
                rows=rows,
                columns=columns,
                foreign_keys=_foreign_keys(connection, name, {n.lower(): n for n in names}, primary),
            )
        )
    return Schema(db_id=db_id, tables=tables)


def _table_info(connection: apsw.Connection, table: str) -> list[tuple[Any, ...]]:
    return connection.execute(f"PRAGMA table_xinfo({quote(table)})").fetchall()


def _primary_key(connection: apsw.Connection, table: str) -> list[str]:
    query = f"SELECT name FROM pragma_table_xinfo({quote(table)}) WHERE pk > 0 ORDER BY pk"
    return [str(name) for (name,) in connection.execute(query)]


def _foreign_keys(
    connection: apsw.Connection, table: str, names: Mapping[str, str], primary: Mapping[str, list[str]]
) -> list[ForeignKey]:
    keys = []
    # Newest first in the pragma's answer: sorted by id descending gives the order of declaration.
    rows: list[tuple[Any, ...]] = connection.execute(f"PRAGMA foreign_key_list({quote(table)})").fetchall()
    rows.sort(key=lambda r: (-r[0], r[1]))
    for _, position, target, source, ref, *_ in rows:
        actual = names.get(str(target).lower())
        if actual is None:
            continue
        if ref is None:  # "REFERENCES t" means t's primary key
            ref = primary[actual][position] if position < len(primary[actual]) else None
        ref = _column_name(connection, actual, ref)
        source = _column_name(connection, table, source)
        if ref is not None and source is not None:
            keys.append(ForeignKey(column=source, ref_table=actual, ref_column=ref))
    return keys


def _column_name(connection: apsw.Connection, table: str, name: str | None) -> str | None:
    """The column's own spelling, or None when the table has no such column."""
    columns = (str(row[1]) for row in _table_info(connection, table))
    return None if name is None else next((c for c in columns if c.lower() == name.lower()), None)


def _examples(connection: apsw.Connection, table: str, column: str) -> list[str]:
    c = quote(column)
    rows = connection.execute(
        f"SELECT DISTINCT {c} FROM {quote(table)} WHERE typeof({c}) IN ('text', 'integer', 'real') "
        f"AND length({c}) BETWEEN 1 AND {MAX_EXAMPLE_CHARS} LIMIT 2"
    )
    return [str(value) for (value,) in rows]
