"""The content of a whole database, small enough to keep and to compare.

Two databases are in the same state when they have the same tables (columns, types, keys, defaults; rows as a
multiset), views (rows), triggers and indexes. Names of indexes and triggers, the order of columns' declarations in
DDL text and the text of CHECK constraints do not count: two right answers may differ in them.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

from birdrl.compare.lexer import tokens
from birdrl.sql.compare import canonical
from birdrl.sql.lease import Lease
from birdrl.sql.results import StatementResult

STATE_PATIENCE = 10.0  # reading a state may take this many times what the wanted one took: machines vary
_CHUNK_ROWS = 5_000  # read at a time: one answer stays far below a session's limits
_OBJECTS = "SELECT type, name, tbl_name, sql FROM sqlite_master WHERE name NOT LIKE 'sqlite\\_%' ESCAPE '\\'"


class UnreadableStateError(Exception):
    """A database cannot be read to its end, or not in time; the message says what."""


@dataclass(frozen=True)
class DatabaseState:
    """A digest for each part of a database: (kind, name) -> hexadecimal text. `seconds`: how long reading it took."""

    parts: dict[tuple[str, str], str]
    seconds: float = field(default=0.0, compare=False)

    def difference(self, other: DatabaseState) -> str:
        """What differs first, in words; empty for equal states."""
        for kind, name in sorted({*self.parts, *other.parts}):
            mine, others = self.parts.get((kind, name)), other.parts.get((kind, name))
            if mine != others:
                if kind in ("rows", "columns"):
                    return f"{kind} of table {name}" if mine and others else f"table {name}"
                return f"{kind} of {name}" if kind != "view" else f"view {name}"
        return ""


def read_state(lease: Lease, limit_s: float, like: DatabaseState | None = None) -> DatabaseState:
    """Read everything that a lease's replica holds, in at most `limit_s` seconds.

    With `like`, only as far as the two can be equal: what a prediction adds to a database, endless views say, is not
    read. Raises UnreadableStateError.
    """
    start = time.monotonic()
    reader = _Reader(lease, start + limit_s)
    known = None if like is None else like.parts
    parts: dict[tuple[str, str], str] = {}
    indexed: dict[str, list[str]] = {}
    triggered: dict[str, list[str]] = {}
    for kind, name, table, sql in reader.rows(_OBJECTS):
        part = ("rows" if kind == "table" else "view", name)
        if kind in ("table", "view") and known is not None and part not in known:
            parts[part] = ""
            continue
        most = None if known is None else _count(known.get(part, "0:"))
        if kind == "table":
            columns = reader.rows(f"PRAGMA table_xinfo({_quoted(name)})")
            parts["columns", name] = _digest(columns, ordered=True)
            keys = [row[2:7] for row in reader.rows(f"PRAGMA foreign_key_list({_quoted(name)})")]
            parts["foreign keys", name] = _digest(keys, ordered=False)
            parts[part] = _digest(reader.table(name, [str(row[1]) for row in columns]), ordered=False, most=most)
            indexed[name] = [_index(reader, row) for row in reader.rows(f"PRAGMA index_list({_quoted(name)})")]
        elif kind == "view":
            parts[part] = _digest(reader.all_rows(f"SELECT * FROM {_quoted(name)}"), ordered=False, most=most)
        elif kind == "trigger":
            triggered.setdefault(table, []).append(_without_name(sql))
    parts.update({("indexes", name): _text_digest(sorted(found)) for name, found in indexed.items()})
    parts.update({("triggers", name): _text_digest(sorted(found)) for name, found in triggered.items()})
    return DatabaseState(parts, time.monotonic() - start)


def state_difference(lease: Lease, limit_s: float, wanted: DatabaseState) -> str:
    """What differs between the state that a prediction leaves and the gold's, in words; empty for equal states.

    What the prediction made, a view say, is its own: reading it may take `limit_s` seconds, or not much longer than the
    gold's state took.
    """
    try:
        found = read_state(lease, max(limit_s, STATE_PATIENCE * wanted.seconds), wanted).difference(wanted)
    except UnreadableStateError as error:
        found = str(error)
    return f"another state afterwards: {found}" if found else ""


class _Reader:
    """Reads a replica until `deadline`, on the clock of `time.monotonic`."""

    def __init__(self, lease: Lease, deadline: float) -> None:
        self.lease, self.deadline = lease, deadline

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        result = self._ask(sql)
        if not result.ok or result.truncated:
            raise UnreadableStateError(f"the database cannot be read ({result.status}: {result.message}): {sql}")
        return list(result.rows)

    def table(self, name: str, columns: Sequence[str]) -> Iterator[tuple[Any, ...]]:
        """Rows of a table, by its row numbers where it has them: skipping rows takes time that grows with them."""
        [(*_, kind, _, without_rowid, _)] = [
            row for row in self.rows(f"PRAGMA table_list({_quoted(name)})") if row[0] == "main"
        ]
        taken = {column.lower() for column in columns}
        number = next((alias for alias in ("rowid", "_rowid_", "oid") if alias not in taken), None)
        if kind != "table" or without_rowid or number is None:
            return self.all_rows(f"SELECT * FROM {_quoted(name)}")
        return self._by_number(f"SELECT {number}, * FROM {_quoted(name)}", number)

    def _by_number(self, query: str, number: str) -> Iterator[tuple[Any, ...]]:
        after, size = "", _CHUNK_ROWS
        while True:
            result, size = self._chunk(f"{query} {after} ORDER BY {number}", "", size)
            if result.status == "error":
                yield ("error",)
                return
            yield from (row[1:] for row in result.rows)
            if len(result.rows) < size:
                return
            after = f"WHERE {number} > {result.rows[-1][0]}"

    def all_rows(self, query: str) -> Iterator[tuple[Any, ...]]:
        """Rows of a query, a chunk at a time; a view that fails has one row that says so."""
        offset, size = 0, _CHUNK_ROWS
        while True:
            result, size = self._chunk(query, f"OFFSET {offset}", size)
            if result.status == "error":
                yield ("error",)
                return
            yield from result.rows
            if len(result.rows) < size:
                return
            offset += size

    def _chunk(self, query: str, rest: str, size: int) -> tuple[StatementResult, int]:
        """At most `size` rows, fewer where these exceed a session's limit, and how many were asked for in the end."""
        result = self._ask(f"{query} LIMIT {size} {rest}")
        while result.truncated and size > 1:
            size = max(1, len(result.rows) // 2)
            result = self._ask(f"{query} LIMIT {size} {rest}")
        if result.truncated or not (result.ok or result.status == "error"):
            raise UnreadableStateError(f"the database cannot be read ({result.status}: {result.message}): {query}")
        return result, size

    def _ask(self, sql: str) -> StatementResult:
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise UnreadableStateError("the database cannot be read in time")
        [result] = self.lease.execute(sql, timeout_s=left, script_timeout_s=left)
        return result


def _count(digest: str) -> int:
    """How many rows a digest is of."""
    return int(digest.partition(":")[0])


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


def _digest(
    rows: Iterator[tuple[Any, ...]] | Sequence[tuple[Any, ...]], *, ordered: bool, most: int | None = None
) -> str:
    """Rows as a list or as a multiset, in constant memory: the sum of their hashes does not depend on their order.

    Of more than `most` rows the rest is not looked at.
    """
    total = count = 0
    for row in rows:
        count += 1
        if most is not None and count > most:
            return f"{count}:"
        text = repr((count if ordered else 0, tuple(map(canonical, row))))
        total += int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest(), "big")
    return f"{count}:{total % (1 << 128):032x}"


def _text_digest(texts: Sequence[str]) -> str:
    return f"{len(texts)}:{blake2b(repr(texts).encode('utf-8', 'surrogatepass'), digest_size=16).hexdigest()}"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
