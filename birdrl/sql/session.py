"""The executor: one SQL session on one replica, with splitting, limits, time and results. Runs in a worker process.

Covered (each with records in `tests/sql/attacks` and `tests/sql/dirtiness.yaml`):

- the template: SQLite never opens it, it sees only a copy-on-write overlay; nothing a statement does reaches it
- other files: ATTACH, DETACH, VACUUM INTO, extensions, file functions, temporary files on disk; no path is shown
- the process: heap limits and other process-wide pragmas; the worker's own memory, CPU, file and descriptor limits
- other rollouts: one session a process; everything that may have changed the replica or its connection marks it dirty;
  a connection is kept for the next lease only where no more than rows and schema can have changed, and made like new
- endless or huge work: time per statement and per script, text, rows, bytes, nesting, the overlay's size; what does
  not let itself be interrupted (one long opcode) is killed from outside together with the session
- text of any kind: statements are split by SQLite's own test; not UTF-8, NUL, lone surrogates, control characters

Not covered:

- faults in SQLite itself: a crash of the worker is contained and counted as a failure of the machinery, but a fault
  that runs foreign code would have the rights of the worker's user; confine the user where that matters
- time below the limit: a policy may spend its whole limit on every statement; rewards and trajectory limits judge that
- what changes between two runs of the same SQL: random(), 'now', rows in no stated order, elapsed times
- secrets in the database: a session may read every row of its template
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any

import apsw

from birdrl.sql.overlay import OverlayStorage
from birdrl.sql.policy import LIMITS, Policy, Touched
from birdrl.sql.results import StatementResult, Status
from birdrl.sql.splitting import split_statements, without_comments_before
from birdrl.sql.storage import ReplicaStorage, Template

PROGRESS_OPS = 1000  # virtual-machine steps between two looks at the clock: no measurable cost
MAX_RESULT_BYTES = 16_000_000  # of one script's rows; beyond, results are marked as truncated
MAX_STATEMENTS = 2_000  # in one script
MAX_MESSAGE = 1_000  # characters of an error text, which may quote the statement


def _size(row: tuple[Any, ...]) -> int:
    return sum(16 + (len(value) if isinstance(value, str | bytes) else 0) for value in row)


class Session:
    """A connection on a pristine replica of `template`, under the policy's rules.

    `storage`: where the replica lies; unless given, an overlay of at most `overlay_bytes`. `dirty` is false only if
    nothing since the last `renew` can have changed the replica or its connection.
    """

    def __init__(self, template: Template, overlay_bytes: int, storage: ReplicaStorage | None = None) -> None:
        self.template = template
        self.storage = storage or OverlayStorage(template, overlay_bytes)
        self.policy = Policy()
        self._deadline = float("inf")  # of the running statement, for the progress handler
        self._left_out = ""  # of its result
        self._writes_at_start = self.storage.writes
        self._connect()
        self.load_schema()

    def _connect(self) -> None:
        self.connection = self.storage.connect()
        self._changes_at_start = 0
        self.connection.set_progress_handler(lambda: time.monotonic() > self._deadline, PROGRESS_OPS)
        # SQLite's own could not be set to 0 when the connection is kept for the next lease.
        self.connection.create_scalar_function(
            "total_changes", lambda *_: self._total_changes(), 0, flags=apsw.SQLITE_INNOCUOUS
        )
        self.policy.apply(self.connection)
        self._schema_loaded = False

    def load_schema(self) -> None:
        """What the first statement would have to do after a reset; the larger part of the time that a reset takes.

        Raises apsw.Error when the replica is no database.
        """
        if not self._schema_loaded:
            # Several reading statements open the temporary database, which PRAGMA database_list shows ever after: it
            # is open from the start.
            self.connection.execute("SELECT 1 FROM temp.sqlite_schema").fetchall()
            self._schema_loaded = True

    @property
    def dirty(self) -> bool:
        return (
            self.policy.dirty
            or self._total_changes() > 0
            or self.storage.writes != self._writes_at_start
            or self.connection.in_transaction
        )

    def reopen(self) -> None:
        """A new connection on the same replica: committed changes stay, everything of the old connection goes."""
        touched = Touched.ANYTHING if self.dirty and not self.policy.dirty else self.policy.touched
        self.connection.close()
        self._connect()
        self.load_schema()
        self.policy.touched = touched

    def renew(self, *, reset: bool = False) -> bool:
        """Make the replica pristine for the next lease, in any case if `reset`. Returns whether it was reset.

        A reset keeps the connection where nothing but rows or the schema can have changed, because a new one is dear;
        with a new one, the schema is left to be loaded. Raises OSError when the disk refuses; the session is over then.
        """
        if not (reset or self.dirty):
            return False  # the policy has seen nothing, and no statement is kept that it would not see again
        self._deadline = float("inf")
        keep = Touched.NOTHING < self.policy.touched < Touched.ANYTHING and self._end_transaction()
        if not keep:
            self.connection.close()
        self.storage.reset()
        self._writes_at_start = self.storage.writes
        if not (keep and self._make_like_new()):
            self.connection.close()
            if self.storage.writes != self._writes_at_start:
                self.storage.reset()
                self._writes_at_start = self.storage.writes
            self._connect()
        return True

    def _end_transaction(self) -> bool:
        """Roll back whatever is open; false where SQLite has not let go of the file for all that."""
        self.connection.authorizer = None
        try:
            if self.connection.in_transaction:
                self.connection.execute("ROLLBACK")
        except apsw.Error:
            return False
        return self.connection.txn_state() == apsw.SQLITE_TXN_NONE and not self.storage.has_journal

    def _make_like_new(self) -> bool:
        """Undo what is left in a connection of changes of rows and schema; false where it has to be replaced.

        That is pages in its cache, the parsed schema, last_insert_rowid(), changes() and total_changes(). Prepared
        statements are not kept anyhow.
        """
        connection = self.connection
        connection.file_control("main", apsw.SQLITE_FCNTL_RESET_CACHE, 0)
        try:
            if self.policy.touched == Touched.SCHEMA:
                connection.execute("PRAGMA writable_schema = RESET")
                self._schema_loaded = False
            if not self._change_of_nothing:
                return False
            if connection.changes():
                connection.execute(self._change_of_nothing)  # the only way to set changes() to 0
                self._schema_loaded = True
        except apsw.Error:  # a trigger that cannot be compiled, say
            return False
        connection.set_last_insert_rowid(0)
        self._changes_at_start = connection.total_changes()
        self.policy.rearm(connection)
        # SQLite mends a wrong page count in the header as soon as it may write.
        return self.storage.writes == self._writes_at_start

    @cached_property
    def _change_of_nothing(self) -> str:
        """A statement that changes no row; empty if there is no ordinary table, or a virtual one: a module keeps state
        of its own in the connection. The same for every lease, as the template is."""
        tables: list[Any] = self.connection.execute(
            "SELECT name, rootpage FROM main.sqlite_schema WHERE type = 'table'"
        ).fetchall()
        ordinary = [name for name, page in tables if page and not name.lower().startswith("sqlite_")]
        if not ordinary or not all(page for _, page in tables):
            return ""
        return f'DELETE FROM main."{ordinary[0].replace(chr(34), 2 * chr(34))}" WHERE 0'

    def _total_changes(self) -> int:
        """Rows changed since the lease began."""
        return self.connection.total_changes() - self._changes_at_start

    def close(self) -> None:
        self._deadline = float("inf")
        self.connection.close()
        self.storage.close()

    def execute(
        self,
        script: str,
        timeout_s: float,
        script_timeout_s: float,
        max_rows: int,
        begun: Callable[[str], None] = lambda sql: None,
    ) -> Iterator[StatementResult]:
        """Run a script statement by statement, stopping after the first that is not ok.

        Limits in seconds, per statement and for the whole script. `begun` is called before SQLite gets a
        statement. Pieces that hold nothing but comments give no result.
        """
        end = time.monotonic() + script_timeout_s
        bytes_left = MAX_RESULT_BYTES
        refusal = _refusal(script)
        self.load_schema()
        if refusal:
            yield StatementResult(script[:200], "error", message=refusal)
            return
        for number, piece in enumerate(split_statements(script)):
            if number >= MAX_STATEMENTS:
                yield StatementResult(piece, "error", message=f"more than {MAX_STATEMENTS} statements in one call")
                return
            left = end - time.monotonic()
            if left <= 0:
                yield StatementResult(piece, "timeout", message=f"the script took {script_timeout_s:.3g} s")
                return
            begun(piece)
            result = self._execute_one(piece, min(timeout_s, left), max_rows, bytes_left)
            yield result
            if not result.ok:
                return
            bytes_left -= sum(map(_size, result.rows))

    def _execute_one(self, piece: str, timeout_s: float, max_rows: int, max_bytes: int) -> StatementResult:
        self.policy.reason = self.policy.ignored = self._left_out = ""
        start = time.monotonic()
        self._deadline = start + timeout_s
        changes_before = self.connection.total_changes()
        status: Status = "error"
        try:
            columns, rows, truncated = self._fetch(piece, max_rows, max_bytes)
            # changes() keeps the value of the last statement that changed something.
            changed = self.connection.changes() if self.connection.total_changes() != changes_before else 0
            note = f"PRAGMA {self.policy.ignored} is ignored" if self.policy.ignored else self._left_out
            return StatementResult(piece, "ok", columns, rows, truncated, note, changed, time.monotonic() - start)
        except apsw.InterruptError:
            status, message = "timeout", f"stopped after {timeout_s:.3g} s"
        except UnicodeError:
            message = "the result holds text that is not valid UTF-8; select it as CAST(... AS BLOB)"
        except (apsw.Error, MemoryError) as error:
            message = str(error) or "out of memory"
            if self.policy.reason:
                status, message = "denied", self.policy.reason
        finally:
            self._deadline = float("inf")
            self.policy.executing = False
        return StatementResult(piece, status, message=message[:MAX_MESSAGE], elapsed_s=time.monotonic() - start)

    def _fetch(
        self, sql: str, max_rows: int, max_bytes: int
    ) -> tuple[tuple[str, ...], tuple[tuple[Any, ...], ...], bool]:
        started: list[tuple[tuple[str, ...], bool]] = []

        def trace(cursor: apsw.Cursor, text: str, bindings: object) -> bool:
            names = tuple(column[0] for column in cursor.get_description())
            started.append((names, cursor.is_readonly and cursor.is_explain == 0))
            self.policy.executing = True
            return len(started) == 1  # the splitter yields one statement at a time; a second one never runs

        cursor = self.connection.cursor()
        cursor.exec_trace = trace
        rows: list[tuple[Any, ...]] = []
        truncated = False
        left = max_bytes
        try:
            for row in cursor.execute(sql):
                left -= _size(row)
                if len(rows) >= max_rows or left < 0:
                    truncated = True
                    break
                rows.append(row)
        except UnicodeDecodeError:
            columns, readonly = started[0] if started else ((), False)
            cursor.close(True)
            if readonly and columns and _is_query(sql):
                # apsw has no hook for text that is not UTF-8. Reading is free of effects: ask again for the bytes.
                rows, truncated = self._fetch_bytes(sql, len(columns), max_rows, max_bytes)
            elif started:  # with RETURNING, every change has been made before the first row comes
                truncated, self._left_out = True, "rows with text that is not valid UTF-8 are left out"
            else:
                raise
        finally:
            self.policy.executing = False
            cursor.close(True)
        return started[0][0] if started else (), tuple(rows), truncated

    def _fetch_bytes(self, sql: str, width: int, max_rows: int, max_bytes: int) -> tuple[list[tuple[Any, ...]], bool]:
        names = [f"c{i}" for i in range(width)]
        values = ", ".join(
            f"typeof({n}), CASE typeof({n}) WHEN 'text' THEN CAST({n} AS BLOB) ELSE {n} END" for n in names
        )
        query = sql.removesuffix(";")
        table = self._fetch(f"WITH q({', '.join(names)}) AS (\n{query}\n) SELECT {values} FROM q", max_rows, max_bytes)
        rows = [
            tuple(
                value.decode("utf-8", "replace") if kind == "text" else value
                for kind, value in zip(row[::2], row[1::2], strict=True)
            )
            for row in table[1]
        ]
        return rows, table[2]


def _refusal(script: str) -> str:
    """Why a script is not even split, empty if it may be."""
    if len(script) > LIMITS[apsw.SQLITE_LIMIT_SQL_LENGTH]:
        return f"SQL text longer than {LIMITS[apsw.SQLITE_LIMIT_SQL_LENGTH]} characters"
    if "\0" in script:
        return "null character in the SQL text"
    return "" if script.isascii() or _encodes(script) else "SQL text that is not valid Unicode"


def _encodes(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:  # a lone surrogate, as JSON escapes can make
        return False
    return True


def _is_query(sql: str) -> bool:
    """Whether the text starts a query that can stand inside WITH."""
    text = without_comments_before(sql)
    return text[:6].lower() in ("select", "values") or text[:4].lower() == "with"
