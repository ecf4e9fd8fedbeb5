"""Typed result tables: what the comparison modes compare.

Values are those of SQLite: None, int, float, str, bytes. Values of other origin are brought to these types when a
table is made: bool becomes int, Decimal becomes float, dates and times become ISO text, other buffers become bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time
from decimal import Decimal

from birdrl.sql.compare import canonical
from birdrl.sql.results import StatementResult

Value = None | int | float | str | bytes
Row = tuple[Value, ...]


@dataclass(frozen=True)
class ResultTable:
    """`columns`: names in order, one per column also when there are no rows; `rows`: tuples of that width."""

    columns: tuple[str, ...]
    rows: tuple[Row, ...]

    @classmethod
    def of(cls, result: StatementResult) -> ResultTable:
        """The table of an executed statement. Raises ValueError when it has none or was cut."""
        if not result.has_table or result.truncated:
            what = "was cut at the row or byte limit" if result.has_table else f"has no table ({result.status})"
            raise ValueError(f"the statement's result {what}: {result.sql[:200]}")
        return cls(result.columns, result.rows)

    @classmethod
    def from_rows(cls, rows: Iterable[Sequence[object]], columns: Sequence[str] | None = None) -> ResultTable:
        """A table of any rows; without `columns`, names are made up from the first row's width.

        Raises ValueError for rows of different widths, TypeError for values that no column of SQLite can hold.
        """
        typed = tuple(tuple(typed_value(value) for value in row) for row in rows)
        names = tuple(columns) if columns is not None else tuple(f"c{i}" for i in range(len(typed[0]) if typed else 0))
        for number, row in enumerate(typed, 1):
            if len(row) != len(names):
                raise ValueError(f"row {number} has {len(row)} values, the table has {len(names)} columns")
        return cls(names, typed)

    @property
    def width(self) -> int:
        return len(self.columns)

    def canonical_rows(self) -> list[tuple[object, ...]]:
        """Rows in the typed, hashable form of `birdrl.sql.compare.canonical`."""
        return [tuple(map(canonical, row)) for row in self.rows]


def typed_value(value: object) -> Value:
    """A value in SQLite's types. Raises TypeError for one that has no place there."""
    if isinstance(value, bool):
        return int(value)
    if value is None or isinstance(value, int | float | str | bytes):
        return value
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, datetime):
        return value.isoformat(" ")
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, bytearray | memoryview):
        return bytes(value)
    raise TypeError(f"{type(value).__name__} is not a value of a result table")
