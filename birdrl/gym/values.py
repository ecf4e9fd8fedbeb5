"""What a template's columns hold: their kind, their spread, and sample values for literals, deterministic by seed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from random import Random
from typing import Any

import apsw

from birdrl.gym.introspect import quote
from birdrl.gym.schema import Column, Schema, Table
from birdrl.gym.templates import TemplateStore, open_template

Value = int | float | str

PROFILE_ROWS = 50_000  # rows of a table that a profile looks at
MAX_VALUES = 400  # distinct values kept per column, evenly spread over the sorted ones
_ISO_DATE = re.compile(r"\d{4}-\d{2}-\d{2}([ T]\d{2}:\d{2}(:\d{2}(\.\d+)?)?)?")
_ID_NAME = re.compile(r"(^|[_ ])(id|code|no|key)$|[a-z0-9](Id|ID)$|^(id|ID|Id)$")


class ColumnKind(StrEnum):
    KEY = "key"  # primary or foreign key, or named like one and unique
    CATEGORY = "category"  # text that repeats
    TEXT = "text"  # free text, mostly distinct
    INTEGER = "integer"
    REAL = "real"
    DATE = "date"  # ISO text, with or without a time
    OTHER = "other"  # blobs, mixed types, nothing but NULL


@dataclass(frozen=True)
class ColumnProfile:
    """One column as its data shows it. `values` are distinct, sorted, at most MAX_VALUES of them.

    `common` are the most frequent values, most frequent first. `unique`: no NULL and no value twice among all rows.
    """

    table: str
    column: str
    kind: ColumnKind
    rows: int
    nulls: int
    distinct: int
    unique: bool
    values: tuple[Value, ...]
    common: tuple[Value, ...]

    @property
    def has_time(self) -> bool:
        """A date column whose values carry a time of day."""
        return self.kind is ColumnKind.DATE and len(str(self.values[0])) > 10

    def quantile(self, share: float) -> Value:
        """The distinct value at that share (0 to 1) of the sorted ones. Raises IndexError without any value."""
        return self.values[min(len(self.values) - 1, int(share * len(self.values)))]


def literal(value: Value | bytes | None) -> str:
    """The value as an SQLite literal."""
    if value is None:
        return "NULL"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, bytes):
        return f"X'{value.hex()}'"
    return repr(value)


class DatabaseValues:
    """Profiles and sample values of one template, read on demand over a connection of its own.

    Use from one thread. Raises InputError for an unknown database, KeyError for an unknown table or column.
    """

    def __init__(self, store: TemplateStore, db_id: str) -> None:
        self.schema: Schema = store.schema(db_id)
        self._connection = open_template(store.path(db_id))
        self._profiles: dict[tuple[str, str], ColumnProfile] = {}

    def close(self) -> None:
        self._connection.close()

    def profile(self, table: str, column: str) -> ColumnProfile:
        """The profile of a column (names case-insensitive), computed once."""
        found = self.schema.table(table)
        named = found.column(column) if found else None
        if found is None or named is None:
            raise KeyError(f"{self.schema.db_id}: no column {table}.{column}")
        key = (found.name, named.name)
        if key not in self._profiles:
            self._profiles[key] = _read_profile(self._connection, self.schema, found, named)
        return self._profiles[key]

    def sample(self, table: str, column: str, rng: Random, count: int = 1) -> list[Value]:
        """Up to `count` different non-NULL values, the choice made by `rng`; fewer when the column has fewer."""
        values = self.profile(table, column).values
        return rng.sample(values, min(count, len(values)))


def _read_profile(connection: apsw.Connection, schema: Schema, table: Table, column: Column) -> ColumnProfile:
    c = quote(column.name)
    looked_at = f"(SELECT {c} FROM {quote(table.name)} LIMIT {PROFILE_ROWS})"
    counts: list[tuple[Any, ...]] = connection.execute(
        f"SELECT {c}, COUNT(*) FROM {looked_at} GROUP BY {c} COLLATE BINARY"
    ).fetchall()
    nulls = sum(n for value, n in counts if value is None)
    present = [(value, n) for value, n in counts if value is not None and not isinstance(value, bytes)]
    rows = sum(n for _, n in counts)
    mixed = len({isinstance(value, str) for value, _ in present}) != 1 or len(present) + (nulls > 0) < len(counts)
    values: list[Value] = [] if mixed else [value for value, _ in present]  # GROUP BY has sorted them
    unique = nulls == 0 and len(values) == rows == table.rows > 0
    common = [value for value, _ in sorted(present, key=lambda item: -item[1])][:50] if not mixed else []
    return ColumnProfile(
        table=table.name,
        column=column.name,
        kind=_kind(schema, table, column, values, rows - nulls, unique),
        rows=rows,
        nulls=nulls,
        distinct=len(values),
        unique=unique,
        values=tuple(values if len(values) <= MAX_VALUES else _spread(values, MAX_VALUES)),
        common=tuple(common),
    )


def _spread(values: Sequence[Value], count: int) -> list[Value]:
    return [values[i * (len(values) - 1) // (count - 1)] for i in range(count)]


def _kind(
    schema: Schema, table: Table, column: Column, values: Sequence[Value], present: int, unique: bool
) -> ColumnKind:
    if not values:
        return ColumnKind.OTHER
    refers = any(k.column == column.name for k in table.foreign_keys)
    referred = any(
        k.ref_table == table.name and k.ref_column == column.name for t in schema.tables for k in t.foreign_keys
    )
    sole_key = column.primary_key and sum(c.primary_key for c in table.columns) == 1
    if refers or referred or sole_key or (_ID_NAME.search(column.name) and (unique or column.primary_key)):
        return ColumnKind.KEY
    if isinstance(values[0], str):
        texts = [str(value) for value in values]
        if all(_ISO_DATE.fullmatch(text) for text in texts):
            return ColumnKind.DATE
        length = sum(map(len, texts)) / len(texts)
        repeats = (len(texts) <= 12 and present > len(texts)) or len(texts) <= present / 3
        return ColumnKind.CATEGORY if repeats and length <= 30 else ColumnKind.TEXT
    return ColumnKind.INTEGER if all(isinstance(value, int) for value in values) else ColumnKind.REAL
