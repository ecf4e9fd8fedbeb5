"""The connection that a test case gets: the interface and behaviour of the standard library's `sqlite3`, on a replica.

Transactions open by themselves before INSERT, UPDATE, DELETE and REPLACE and end with `commit`, one call executes one
statement, and errors are `sqlite3`'s classes with SQLite's messages. What would reach outside the replica (backup,
extensions, blob handles) or take away its limits (authorizer, progress handler) raises NotSupportedError.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime
from sqlite3 import dump
from typing import Any, NoReturn

import apsw

from birdrl.compare.lexer import tokens
from birdrl.sql.splitting import split_statements
from birdrl.testcases.replica import Replica
from birdrl.testcases.row import Row

_DML = frozenset(("INSERT", "UPDATE", "DELETE", "REPLACE"))
_CLASSES: dict[int, type[Exception]] = {
    2: sqlite3.InternalError, 7: MemoryError, 11: sqlite3.DatabaseError, 12: sqlite3.InternalError,
    18: sqlite3.DataError, 19: sqlite3.IntegrityError, 20: sqlite3.IntegrityError, 21: sqlite3.InterfaceError,
    25: sqlite3.InterfaceError,
    **dict.fromkeys((1, 3, 4, 5, 6, 8, 9, 10, 13, 14, 15, 16, 17), sqlite3.OperationalError),
}  # fmt: skip


def _translated(error: Exception) -> Exception:
    """The error that `sqlite3` raises where apsw raises `error`."""
    if isinstance(error, apsw.BindingsError | apsw.IncompleteExecutionError | apsw.ConnectionClosedError):
        return sqlite3.ProgrammingError(str(error))
    if isinstance(error, UnicodeDecodeError):
        return sqlite3.OperationalError(f"Could not decode to UTF-8: {error.reason}")
    if not isinstance(error, apsw.Error):
        return error
    primary, extended = getattr(error, "result", 1), getattr(error, "extendedresult", 1)
    message = "not authorized" if isinstance(error, apsw.AuthError) else str(error)
    translated = _CLASSES.get(primary, sqlite3.DatabaseError)(message)
    names = {**apsw.mapping_result_codes, **apsw.mapping_extended_result_codes}
    translated.sqlite_errorcode = extended  # type: ignore[attr-defined]
    translated.sqlite_errorname = names.get(extended, "SQLITE_ERROR")  # type: ignore[attr-defined]
    return translated


def _adapted(value: Any) -> Any:
    """What `sqlite3`'s default adapters make of a parameter."""
    if isinstance(value, datetime):
        return value.isoformat(" ")
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, bytearray | memoryview):
        return bytes(value)
    if value is None or isinstance(value, int | float | str | bytes):
        return value
    raise sqlite3.ProgrammingError(f"Error binding parameter: type '{type(value).__name__}' is not supported")


def _unsupported(what: str) -> Callable[..., NoReturn]:
    def refuse(self: object, *args: object, **kwargs: object) -> NoReturn:
        raise sqlite3.NotSupportedError(f"{what} is not available in a test case")

    return refuse


class Cursor:
    """`sqlite3.Cursor`."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.arraysize = 1
        self.row_factory = connection.row_factory
        self.description: tuple[tuple[Any, ...], ...] | None = None
        self.rowcount = -1
        self.lastrowid: int | None = None
        self._running: apsw.Cursor | None = None
        self._next: tuple[Any, ...] | None = None
        self._changes_before: int | None = None  # of a running INSERT, UPDATE, DELETE or REPLACE
        self._closed = False

    def execute(self, sql: str, parameters: Sequence[Any] | Mapping[str, Any] = (), /) -> Cursor:
        self._check_open()
        if not isinstance(sql, str):
            raise TypeError(f"execute() argument 1 must be str, not {type(sql).__name__}")
        if "\0" in sql:
            raise sqlite3.ProgrammingError("the query contains a null character")
        statement = _single_statement(sql)
        self._reset()
        is_dml = statement.first_word in _DML
        self.connection._begin_if(is_dml)
        self._changes_before = self.connection.total_changes if is_dml else None
        self._start(statement.text, parameters)
        self.lastrowid = self.connection._db.last_insert_rowid()
        return self

    def executemany(self, sql: str, parameters: Iterable[Sequence[Any] | Mapping[str, Any]], /) -> Cursor:
        if _single_statement(sql).first_word not in _DML:
            raise sqlite3.ProgrammingError("executemany() can only execute DML statements.")
        lastrowid, total = self.lastrowid, 0
        for row in parameters:
            self.execute(sql, row)
            total += self.rowcount
        self.rowcount, self.lastrowid = total, lastrowid
        return self

    def executescript(self, script: str, /) -> Cursor:
        self._check_open()
        self.connection.commit()
        for piece in split_statements(script):
            self._reset()
            self._start(piece, ())
            self.fetchall()
        self.description, self.rowcount = None, -1
        return self

    def fetchone(self) -> Any:
        self._check_open()
        row, self._next = self._next, None
        if row is None:
            return None
        self._advance()
        factory = self.row_factory
        if factory is None:
            return row
        return Row(self, row) if factory is sqlite3.Row else factory(self, row)

    def fetchmany(self, size: int | None = None) -> list[Any]:
        rows = []
        for _ in range(self.arraysize if size is None else size):
            if (row := self.fetchone()) is None:
                break
            rows.append(row)
        return rows

    def fetchall(self) -> list[Any]:
        return list(iter(self.fetchone, None))

    def close(self) -> None:
        self._reset()
        self._closed = True

    def setinputsizes(self, sizes: object, /) -> None: ...

    def setoutputsize(self, size: object, column: object = None, /) -> None: ...

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        row = self.fetchone()
        if row is None:
            raise StopIteration
        return row

    def _start(self, sql: str, parameters: Sequence[Any] | Mapping[str, Any]) -> None:
        def trace(cursor: apsw.Cursor, text: str, bindings: object) -> bool:
            columns = cursor.get_description()
            self.description = tuple((column[0], *[None] * 6) for column in columns) or None
            replica.policy.executing = True  # prepared: what VACUUM attaches now is its own
            return True

        replica = self.connection._replica
        bound: Any = (
            {key: _adapted(value) for key, value in parameters.items()}
            if isinstance(parameters, Mapping)
            else tuple(map(_adapted, parameters))
        )
        self._running = self.connection._db.cursor()
        self._running.exec_trace = trace
        replica.start_statement()
        try:
            self._running.execute(sql, bound)
        except (apsw.Error, UnicodeDecodeError) as error:
            self._reset()
            raise _translated(error) from None
        finally:
            replica.policy.executing = False
        self._advance()

    def _advance(self) -> None:
        if self._running is None:
            return
        self.connection._replica.start_statement()
        try:
            self._next = next(self._running, None)
        except (apsw.Error, UnicodeDecodeError) as error:
            self._reset()
            raise _translated(error) from None
        if self._next is None:
            self._running = None
            if self._changes_before is not None:
                changed = self.connection.total_changes != self._changes_before
                self.rowcount = self.connection._db.changes() if changed else 0

    def _reset(self) -> None:
        if self._running is not None:
            self._running.close(True)
        self._running = self._next = self.description = self._changes_before = None
        self.rowcount = -1

    def _check_open(self) -> None:
        self.connection._check_open()
        if self._closed:
            raise sqlite3.ProgrammingError("Cannot operate on a closed cursor.")


class Connection(sqlite3.Connection):
    """`sqlite3.Connection` on a replica; several of them may share one."""

    def __init__(self, replica: Replica) -> None:
        # Without the base's __init__: whatever is not overridden below says that it cannot be used.
        self._replica = replica
        self._db = replica.connection
        self._open = True
        self._isolation_level: str | None = ""
        self._row_factory: Any = None

    @property
    def isolation_level(self) -> Any:
        return self._isolation_level

    @isolation_level.setter
    def isolation_level(self, level: Any) -> None:
        if level is None:
            self.commit()
        elif level.upper() not in ("", "DEFERRED", "IMMEDIATE", "EXCLUSIVE"):
            raise ValueError("isolation_level string must be '', 'DEFERRED', 'IMMEDIATE', or 'EXCLUSIVE'")
        self._isolation_level = level

    @property
    def row_factory(self) -> Any:
        return self._row_factory

    @row_factory.setter
    def row_factory(self, factory: Any) -> None:
        self._row_factory = factory

    @property
    def text_factory(self) -> Any:
        return str

    @text_factory.setter
    def text_factory(self, factory: Any) -> None:
        if factory is not str:
            raise sqlite3.NotSupportedError("text_factory is not available in a test case")

    @property
    def in_transaction(self) -> bool:
        return bool(self._db.in_transaction)

    @property
    def total_changes(self) -> int:
        return int(self._db.total_changes())

    def cursor(self, factory: Any = None) -> Any:
        self._check_open()
        return Cursor(self)

    def execute(self, sql: str, parameters: Any = (), /) -> Any:
        return self.cursor().execute(sql, parameters)

    def executemany(self, sql: str, parameters: Any, /) -> Any:
        return self.cursor().executemany(sql, parameters)

    def executescript(self, script: str, /) -> Any:
        return self.cursor().executescript(script)

    def commit(self) -> None:
        self._check_open()
        if self._db.in_transaction:
            self._run("COMMIT")

    def rollback(self) -> None:
        self._check_open()
        if self._db.in_transaction:
            self._run("ROLLBACK")

    def close(self) -> None:
        """This handle ends; like `sqlite3`'s, without committing. The replica stays for other handles."""
        if self._open and self._db.in_transaction:
            self._run("ROLLBACK")
        self._open = False

    def __enter__(self) -> Any:
        return self

    def __exit__(self, kind: Any, value: Any, traceback: Any) -> Any:
        if kind is None:
            self.commit()
        else:
            self.rollback()
        return False

    def __call__(self, sql: str) -> NoReturn:
        raise sqlite3.NotSupportedError("calling a connection is not available in a test case")

    def iterdump(self) -> Generator[str, None, None]:
        yield from dump._iterdump(self)  # type: ignore[attr-defined]

    def create_function(self, name: str, narg: int, func: Any, *, deterministic: bool = False) -> None:
        self._db.create_scalar_function(name, func, narg, deterministic=deterministic)

    def create_aggregate(self, name: str, n_arg: int, aggregate_class: Any, /) -> None:
        def factory() -> Any:
            made = aggregate_class()
            return made, lambda state, *values: state.step(*values), lambda state: state.finalize()

        self._db.create_aggregate_function(name, factory, n_arg)

    def create_collation(self, name: str, callback: Any, /) -> None:
        self._db.create_collation(name, callback)

    def interrupt(self) -> None: ...

    backup = _unsupported("backup()")
    blobopen = _unsupported("blobopen()")
    create_window_function = _unsupported("create_window_function()")
    deserialize = _unsupported("deserialize()")
    enable_load_extension = _unsupported("enable_load_extension()")
    getlimit = _unsupported("getlimit()")
    load_extension = _unsupported("load_extension()")
    serialize = _unsupported("serialize()")
    set_authorizer = _unsupported("set_authorizer()")
    set_progress_handler = _unsupported("set_progress_handler()")
    set_trace_callback = _unsupported("set_trace_callback()")
    setlimit = _unsupported("setlimit()")

    def _begin_if(self, is_dml: bool) -> None:
        if is_dml and self._isolation_level is not None and not self._db.in_transaction:
            self._run(f"BEGIN {self._isolation_level}")

    def _run(self, sql: str) -> None:
        self._replica.start_statement()
        try:
            self._db.execute(sql)
        except apsw.Error as error:
            raise _translated(error) from None

    def _check_open(self) -> None:
        if not self._open:
            raise sqlite3.ProgrammingError("Cannot operate on a closed database.")


class _Statement:
    def __init__(self, text: str, first_word: str) -> None:
        self.text, self.first_word = text, first_word


def _single_statement(sql: str) -> _Statement:
    """Raises ProgrammingError, as `sqlite3` does, when anything but comments follows the first statement."""
    first = next(split_statements(sql), "")
    token = next(tokens(sql), None)
    rest = sql[sql.index(first) + len(first) :]
    if next(tokens(rest), None) is not None or (first and token is not None and token.text == ";"):
        raise sqlite3.ProgrammingError("You can only execute one statement at a time.")
    return _Statement(first, token.text if first and token is not None else "")
