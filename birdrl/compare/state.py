"""The content of a whole database, small enough to keep and to compare.

Two databases are in the same state when they have the same tables (columns, types, keys, defaults; rows as a
multiset), views (rows), triggers and indexes. Names of indexes and triggers, the order of columns' declarations in
DDL text and the text of CHECK constraints do not count: two right answers may differ in them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

from birdrl.compare.lexer import tokens
from birdrl.errors import GoldError
from birdrl.sql.compare import canonical
from birdrl.sql.lease import Lease
from birdrl.sql.results import StatementResult

_CHUNK_ROWS = 5_000  # read at a time: one answer stays far below a session's limits
_OBJECTS = "SELECT type, name, tbl_name, sql FROM sqlite_master WHERE name NOT LIKE 'sqlite\\_%' ESCAPE '\\'"


@dataclass(frozen=True)
class DatabaseState:
    """A digest for each part of a database: (kind, name) -> hexadecimal text."""

    parts: dict[tuple[str, str], str]

    def difference(self, other: DatabaseState) -> str:
        """What differs first, in words; empty for equal states."""
        for kind, name in sorted({*self.parts, *other.parts}):
            mine, others = self.parts.get((kind, name)), other.parts.get((kind, name))
            if mine != others:
                if kind in ("rows", "columns"):
                    return f"{kind} of table {name}" if mine and others else f"table {name}"
                return f"{kind} of {name}" if kind != "view" else f"view {name}"
        return ""


def read_state(lease: Lease, timeout_s: float) -> DatabaseState:
    """Read everything that a lease's replica holds; each query may take `timeout_s` seconds.

    Raises GoldError when the database cannot be read to the end in that time.
    """
    reader = _Reader(lease, timeout_s)
    parts: dict[tuple[str, str], str] = {}
    indexed: dict[str, list[str]] = {}
    triggered: dict[str, list[str]] = {}
    for kind, name, table, sql in reader.rows(_OBJECTS):
        if kind == "table":
            parts["columns", name] = _digest(reader.rows(f"PRAGMA table_xinfo({_quoted(name)})"), ordered=True)
            keys = [row[2:7] for row in reader.rows(f"PRAGMA foreign_key_list({_quoted(name)})")]
            parts["foreign keys", name] = _digest(keys, ordered=False)
            parts["rows", name] = _digest(reader.all_rows(name), ordered=False)
            indexed[name] = [_index(reader, row) for row in reader.rows(f"PRAGMA index_list({_quoted(name)})")]
        elif kind == "view":
            parts["view", name] = _digest(reader.all_rows(name), ordered=False)
        elif kind == "trigger":
            triggered.setdefault(table, []).append(_without_name(sql))
    parts.update({("indexes", name): _text_digest(sorted(found)) for name, found in indexed.items()})
    parts.update({("triggers", name): _text_digest(sorted(found)) for name, found in triggered.items()})
    return DatabaseState(parts)


class _Reader:
    def __init__(self, lease: Lease, timeout_s: float) -> None:
        self.lease, self.timeout_s = lease, timeout_s

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        [result] = self.lease.execute(sql, timeout_s=self.timeout_s, script_timeout_s=self.timeout_s)
        if not _complete(result):
            raise GoldError(f"the state of the database cannot be read ({result.status}: {result.message}): {sql}")
        return list(result.rows)

    def all_rows(self, name: str) -> Iterator[tuple[Any, ...]]:
        """Rows of a table or view, a chunk at a time; a view that fails has one row that says so."""
        offset = 0
        while True:
            sql = f"SELECT * FROM {_quoted(name)} LIMIT {_CHUNK_ROWS} OFFSET {offset}"
            [result] = self.lease.execute(sql, timeout_s=self.timeout_s, script_timeout_s=self.timeout_s)
            if result.status == "error":
                yield ("error",)
                return
            if not _complete(result):
                raise GoldError(f"{name} cannot be read to its end ({result.status}: {result.message})")
            yield from result.rows
            if len(result.rows) < _CHUNK_ROWS:
                return
            offset += _CHUNK_ROWS


def _complete(result: StatementResult) -> bool:
    return result.ok and not result.truncated


def _index(reader: _Reader, row: Sequence[Any]) -> str:
    """An index without its name: unique, partial, and its columns with order and collation."""
    _, name, unique, origin, partial, *_ = row
    columns = [column[2:] for column in reader.rows(f"PRAGMA index_xinfo({_quoted(name)})")]
    return repr((unique, origin == "pk", partial, columns))


def _without_name(sql: str) -> str:
    """A trigger's definition as tokens, its own name and IF NOT EXISTS left out."""
    words = [token.text if token.kind != "word" else token.text.lower() for token in tokens(sql)]
    start = words.index("trigger") + 1 if "trigger" in words else 0
    if words[start : start + 3] == ["if", "not", "exists"]:
        start += 3
    return " ".join(words[start + 1 :])


def _digest(rows: Iterator[tuple[Any, ...]] | Sequence[tuple[Any, ...]], *, ordered: bool) -> str:
    """Rows as a list or as a multiset, in constant memory: the sum of their hashes does not depend on their order."""
    total = count = 0
    for row in rows:
        count += 1
        text = repr((count if ordered else 0, tuple(map(canonical, row))))
        total += int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest(), "big")
    return f"{count}:{total % (1 << 128):032x}"


def _text_digest(texts: Sequence[str]) -> str:
    return f"{len(texts)}:{blake2b(repr(texts).encode('utf-8', 'surrogatepass'), digest_size=16).hexdigest()}"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
