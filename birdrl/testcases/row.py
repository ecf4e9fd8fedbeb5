"""`sqlite3.Row` for rows of a replica: the original can only be made from the standard library's own cursor."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


class Row:
    """One row, by position, by name without regard to case, and as a sequence."""

    def __init__(self, cursor: Any, values: tuple[Any, ...]) -> None:
        self._names = [column[0] for column in cursor.description or ()]
        self._values = values

    def keys(self) -> list[str]:
        return list(self._names)

    def __getitem__(self, key: int | slice | str) -> Any:
        if not isinstance(key, str):
            return self._values[key]
        for name, value in zip(self._names, self._values, strict=True):
            if name.lower() == key.lower():
                return value
        raise IndexError("No item with that key")

    def __len__(self) -> int:
        return len(self._values)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._values)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Row) and (self._names, self._values) == (other._names, other._values)

    def __hash__(self) -> int:
        return hash((tuple(self._names), self._values))
