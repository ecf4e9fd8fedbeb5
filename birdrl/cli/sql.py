"""`birdrl sql`: statements in a session like a rollout's."""

from __future__ import annotations

import argparse
import codecs
import json
import math
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import BufferedReader, TextIOWrapper
from pathlib import Path
from typing import Any, cast

import apsw

from birdrl.errors import BirdrlError, InputError
from birdrl.params import AgentParams
from birdrl.sql import Lease, ObservationBudget, PoolConfig, ReplicaPool, StatementResult, render
from birdrl.sql.observation import MIN_BYTES
from birdrl.sql.splitting import complete_length, split_statements

EPILOG = """\
examples:
  birdrl sql --database shop.sqlite "SELECT count(*) FROM orders"
  birdrl sql --database shop.sqlite "DELETE FROM orders; SELECT count(*) FROM orders" "PRAGMA integrity_check"
  birdrl sql --database shop.sqlite --json < attempts.sql
  birdrl sql --database shop.sqlite --timeout 0.5 "SELECT count(*) FROM orders a, orders b, orders c, orders d"

All statements run in one session on one copy-on-write replica, those after a failed one too. FILE itself is only read
and never changed; what the statements changed is gone at the end. Standard input is read when there is no STATEMENT.

--json prints one object a line and statement:
  status      ok, error (SQLite's), denied (by the policy's rules), timeout (interrupted),
              killed (did not let itself be interrupted; the session is lost)
  columns     names; empty for a statement without a result table
  rows        lists; a blob is {"blob": "hexadecimal digits"}, an infinite number {"real": "Infinity"}
  truncated   there were more rows, or more bytes, than are given
  dirty       the replica, or its connection, may differ from FILE
  elapsed_s   seconds
  message     why it did not go well; with ok, what was not done as written

exit status: 0 every statement ended as ok, 1 some did not, 2 wrong use or wrong input
"""

_DEFAULTS = AgentParams.model_validate({})
_MAX_TIMEOUT_S = 86_400.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("statements", nargs="*", metavar="STATEMENT", help="one or more SQL statements")
    parser.add_argument("--database", required=True, type=Path, metavar="FILE", help="an SQLite database")
    parser.add_argument(
        "--timeout", type=_seconds, default=_DEFAULTS.statement_timeout_s, metavar="S",
        help="limit of each statement in seconds (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument("--json", action="store_true", help="one JSON object a statement instead of observations")
    parser.add_argument(
        "--rows", type=_at_least(1), default=_DEFAULTS.observation_rows, metavar="N",
        help="rows of a table in an observation (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--bytes", type=_at_least(MIN_BYTES), default=_DEFAULTS.observation_bytes, metavar="N",
        help="bytes of an observation (default: %(default)s)",
    )  # fmt: skip


def run(arguments: argparse.Namespace) -> int:
    if isinstance(sys.stdout, TextIOWrapper):  # a value may hold what the terminal's encoding does not
        sys.stdout.reconfigure(errors="backslashreplace")
    budget = ObservationBudget(arguments.rows, arguments.bytes)
    config = PoolConfig(workers=1, statement_timeout_s=arguments.timeout, lease_timeout_s=math.inf)
    outcomes = []
    try:
        with (
            _unchanging(arguments.database),
            ReplicaPool(config) as pool,
            pool.acquire("birdrl sql", arguments.database) as lease,
        ):
            scripts = arguments.statements or _standard_input()
            for statement in (one for script in scripts for one in split_statements(script)):
                for result in lease.execute(statement):
                    _print(_json(result, lease) if arguments.json else render([result], budget))
                    outcomes.append(result.ok)
    except KeyboardInterrupt:
        print("birdrl sql: interrupted", file=sys.stderr)
        return 1
    if not outcomes:
        raise InputError("no SQL statement found; give one as an argument or on standard input")
    return 0 if all(outcomes) else 1


def _print(text: str) -> None:
    """Raises BirdrlError when there is no room for it, and BrokenPipeError when nobody reads it."""
    try:
        print(text, flush=True)
    except BrokenPipeError:
        raise
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is left in the buffer would fail again
        raise BirdrlError(f"standard output: {(error.strerror or str(error)).lower()}") from error


def _standard_input() -> Iterator[str]:
    """Complete statements as they arrive, so that another program can wait for each answer; then the rest."""
    if sys.stdin is None:  # the caller has closed it
        return
    if sys.stdin.isatty():
        print("SQL statements, each ended by a semicolon; Ctrl-D ends", file=sys.stderr)
    decoder = codecs.getincrementaldecoder("utf-8-sig")(errors="surrogateescape")
    text = ""
    while chunk := cast(BufferedReader, sys.stdin.buffer).read1(1 << 16):
        text += decoder.decode(chunk)
        complete = complete_length(text)
        if complete:
            yield text[:complete]
            text = text[complete:]
    yield text + decoder.decode(b"", final=True)


@contextmanager
def _unchanging(path: Path) -> Iterator[None]:
    """Check that `path` is a database at rest, and keep others from writing to it while it is read.

    Raises InputError, and BirdrlError when it was changed nevertheless: a file in WAL mode cannot be held by a lock.
    """
    if path.exists() and not path.is_file():
        raise InputError(f"{path}: is not a file")
    try:
        with path.open("rb") as file:
            header = file.read(100)
    except OSError as error:
        raise InputError(f"{path}: {(error.strerror or str(error)).lower()}") from error
    if header[:16] != b"SQLite format 3\0":
        what = "is empty" if not header else "is not an SQLite database, or it is encrypted"
        raise InputError(f"{path}: {what}")
    log = path.with_name(path.name + "-wal")
    if log.exists() and log.stat().st_size > 0:
        raise InputError(
            f"{path}: its latest changes are still in {log.name}; close the program that writes to it, or work on a "
            f"copy: sqlite3 {path} \"VACUUM INTO 'copy.sqlite'\""
        )
    before = _identity(path)
    if header[19] == 2:
        yield
    else:
        connection = _reading(path)
        try:
            yield
        finally:
            connection.close()
    if _identity(path) != before:
        raise BirdrlError(f"{path}: another program wrote to it meanwhile; what was printed may mix old and new")


def _reading(path: Path) -> apsw.Connection:
    """A connection that holds SQLite's own read lock."""
    try:
        connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
        connection.execute("BEGIN; SELECT count(*) FROM sqlite_schema").fetchall()
    except apsw.BusyError as error:
        raise InputError(f"{path}: locked, another program is writing to it; try again when it is done") from error
    except (apsw.ReadOnlyError, apsw.CantOpenError) as error:
        raise InputError(
            f"{path}: a program ended in the middle of writing and left {path.name}-journal; open the database once "
            f"with a program that may write, for example: sqlite3 {path} .schema"
        ) from error
    except (apsw.Error, UnicodeError) as error:
        raise InputError(f"{path}: SQLite cannot read it ({error})") from error
    return connection


def _identity(path: Path) -> tuple[int, int, int]:
    status = path.stat()
    return status.st_ino, status.st_size, status.st_mtime_ns


def _json(result: StatementResult, lease: Lease) -> str:
    fields = {
        "status": result.status,
        "columns": result.columns,
        "rows": [[_json_value(value) for value in row] for row in result.rows],
        "truncated": result.truncated,
        "dirty": lease.dirty,
        "elapsed_s": round(result.elapsed_s, 6),
        "message": result.message,
    }
    return json.dumps(fields, allow_nan=False)


def _json_value(value: Any) -> Any:
    if isinstance(value, bytes):
        return {"blob": value.hex()}
    if isinstance(value, float) and math.isinf(value):
        return {"real": "Infinity" if value > 0 else "-Infinity"}
    return value


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value <= _MAX_TIMEOUT_S:
        raise argparse.ArgumentTypeError(f"{text!r}: more than 0 and at most {_MAX_TIMEOUT_S:g} seconds")
    return value


def _at_least(least: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        if not text.isdecimal() or int(text) < least:
            raise argparse.ArgumentTypeError(f"{text!r}: a whole number, at least {least}")
        return int(text)

    return parse
