"""What the rewinder knows about one template database: its schema, and small looks at its rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

from birdrl.gym.schema import Column, ForeignKey, Schema, Table

Rows = list[tuple[Any, ...]]

_NUMERIC = ("INT", "REAL", "FLOA", "DOUB", "NUM", "DEC", "MONEY", "BIGINT", "YEAR")


_RESERVED_WORDS = (
    "abort action add after all alter always analyze and as asc attach autoincrement before begin between by "
    "cascade case cast check collate column commit conflict constraint create cross current current_date "
    "current_time current_timestamp database default deferrable deferred delete desc detach distinct do drop each "
    "else end escape except exclude exclusive exists explain fail filter first following for foreign from full "
    "generated glob group groups having if ignore immediate in index indexed initially inner insert instead "
    "intersect into is isnull join key last left like limit match materialized natural no not nothing notnull null "
    "nulls of offset on or order others outer over partition plan pragma preceding primary query raise range "
    "recursive references regexp reindex release rename replace restrict returning right rollback row rows "
    "savepoint select set table temp temporary then ties to transaction trigger unbounded union unique update using "
    "vacuum values view virtual when where window with without date time "
)
_RESERVED = frozenset(_RESERVED_WORDS.split())


def quoted(name: str) -> str:
    """An identifier, in double quotes where SQLite or the generator needs them."""
    plain = name.isascii() and name.isidentifier() and name.lower() not in _RESERVED
    return name if plain else '"' + name.replace('"', '""') + '"'


def sql_literal(value: Any) -> str:
    """A value read from the database as an SQL literal. Raises ValueError for BLOBs."""
    if value is None:
        return "NULL"
    if isinstance(value, bool | int | float):
        return repr(value)
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    raise ValueError(f"no literal for {type(value).__name__}")


@dataclass(frozen=True)
class ValueCount:
    value: Any
    rows: int


P = ParamSpec("P")
T = TypeVar("T")


def _once(method: Callable[Concatenate[DataView, P], T]) -> Callable[Concatenate[DataView, P], T]:
    """Remember a method's answer per view and arguments: templates never change."""

    @wraps(method)
    def remembered(self: DataView, *args: P.args, **kwargs: P.kwargs) -> T:
        names = tuple(getattr(a, "name", a) for a in args)
        key = (method.__name__, *names, *sorted(kwargs.items()))
        if key not in self.memory:
            self.memory[key] = method(self, *args, **kwargs)
        found: T = self.memory[key]
        return found

    return cast("Callable[Concatenate[DataView, P], T]", remembered)


class DataView:
    """Schema and cached value statistics of one template; `query` runs a SELECT on a pristine replica."""

    def __init__(self, schema: Schema, query: Callable[[str], Rows]) -> None:
        self.schema = schema
        self.query = query
        self.memory: dict[tuple[Any, ...], Any] = {}

    @property
    def db_id(self) -> str:
        return self.schema.db_id

    @_once
    def tables(self, *, min_rows: int = 4, max_rows: int = 5000, min_columns: int = 2) -> list[Table]:
        """Tables big enough that a wrong statement shows and small enough to compare whole."""
        return [t for t in self.schema.tables if min_rows <= t.rows <= max_rows and len(t.columns) >= min_columns]

    @_once
    def values(self, table: Table, column: Column) -> list[ValueCount]:
        """Up to 40 distinct plain values with their row counts, most frequent first. Long or odd texts are left out."""
        name = quoted(column.name)
        rows = self.query(
            f"SELECT {name}, COUNT(*) FROM {quoted(table.name)} WHERE {name} IS NOT NULL "
            f"GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT 40"
        )
        return [ValueCount(v, n) for v, n in rows if _is_plain(v)]

    @_once
    def nulls(self, table: Table, column: Column) -> int:
        """Rows in which the column is NULL."""
        rows = self.query(f"SELECT COUNT(*) FROM {quoted(table.name)} WHERE {quoted(column.name)} IS NULL")
        return int(rows[0][0])

    @_once
    def is_number(self, table: Table, column: Column) -> bool:
        """Numeric by its values; by its declared type when there are none."""
        values = self.values(table, column)
        if values:
            return all(isinstance(v.value, int | float) for v in values)
        return any(mark in column.type.upper() for mark in _NUMERIC)

    @_once
    def is_key(self, table: Table, column: Column) -> bool:
        """Primary key, foreign key, or named like one."""
        foreign = {k.column.lower() for k in table.foreign_keys}
        lower = column.name.lower()
        return column.primary_key or lower in foreign or lower == "id" or lower.endswith(("_id", "id_"))

    @_once
    def measures(self, table: Table) -> list[Column]:
        """Numeric columns that are not keys and have at least three distinct values."""
        return [
            c
            for c in table.columns
            if not self.is_key(table, c) and self.is_number(table, c) and len(self.values(table, c)) >= 3
        ]

    @_once
    def groups(self, table: Table) -> list[Column]:
        """Text or number columns with few distinct, repeated values: good for GROUP BY and for filters."""
        found = []
        for column in table.columns:
            values = self.values(table, column)
            if not self.is_key(table, column) and 2 <= len(values) <= 15 and values[0].rows >= 2:
                found.append(column)
        return found

    @_once
    def text_groups(self, table: Table) -> list[Column]:
        """The grouping columns whose values are short texts."""
        return [c for c in self.groups(table) if all(isinstance(v.value, str) for v in self.values(table, c))]

    @_once
    def dates(self, table: Table) -> list[Column]:
        """Columns whose values are ISO dates or timestamps, over at least two months."""
        found = []
        for column in table.columns:
            texts = [v.value for v in self.values(table, column)]
            if len(texts) >= 3 and all(isinstance(t, str) and _is_iso_date(t) for t in texts):
                found.append(column)
        return found

    @_once
    def key(self, table: Table) -> Column | None:
        """The single-column primary key, if there is one."""
        keys = [c for c in table.columns if c.primary_key]
        return keys[0] if len(keys) == 1 else None

    @_once
    def title(self, table: Table) -> Column | None:
        """A column that names a row for people: text, mostly distinct, not a date; else the key."""
        dates = {c.name for c in self.dates(table)}
        for column in table.columns:
            values = self.values(table, column)
            texts = bool(values) and all(isinstance(v.value, str) for v in values)
            if texts and column.name not in dates and len(values) >= min(5, table.rows) and not column.primary_key:
                return column
        return self.key(table)

    @_once
    def links(self) -> list[tuple[Table, ForeignKey, Table]]:
        """(child, key, parent) for each foreign key between two different tables of usable size."""
        usable = {t.name.lower(): t for t in self.tables(min_rows=2)}
        found = []
        for child in usable.values():
            for key in child.foreign_keys:
                parent = usable.get(key.ref_table.lower())
                if parent is not None and parent.name != child.name and parent.column(key.ref_column):
                    found.append((child, key, parent))
        return found


def _is_plain(value: Any) -> bool:
    if isinstance(value, str):
        return (
            0 < len(value) <= 24
            and value.isprintable()
            and not set(value) & set("'\"%_;`\\")
            and value == value.strip()
        )
    return isinstance(value, int | float) and len(repr(value)) <= 10


def _is_iso_date(text: str) -> bool:
    return len(text) >= 10 and text[:4].isdigit() and text[4] == "-" and text[5:7].isdigit() and text[7] == "-"
