"""What a sandbox process does for one prediction: `strict` for rewards, `compat` for published numbers.

Messages and jobs hold plain data only (marshal).
"""

from __future__ import annotations

import os
import sqlite3
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, Literal

import apsw

from birdrl.compare.lexer import tokens
from birdrl.compare.syntax import without_output_rounds
from birdrl.sql.confinement import limit_cpu, limit_memory
from birdrl.sql.results import StatementResult
from birdrl.sql.session import Session
from birdrl.testcases.confine import filter_calls
from birdrl.testcases.dbapi import Connection
from birdrl.testcases.fork import Send, supervise
from birdrl.testcases.public import PublicHelpers, run_test
from birdrl.testcases.replica import Replica, copy_of, open_session
from birdrl.testcases.strict import Rows, Side, SqlList, StrictHelpers

DB_PATH = "replica.sqlite"  # what tests see as the path of their database
_MAX_ROWS = 1_000_000
_MAX_REASON = 500
_ENDED_TESTS = {
    "timeout": "the test took more than {:g} s",
    "broken": "the test wrote something else than a verdict",
    "done": "the test wrote something else than a verdict",
}
START_S = 10.0  # for a fork to open its connection: ours, on whatever machine


@dataclass(frozen=True)
class Job:
    """`kind` "strict": `before` runs, then `pred`, then every test in a process of its own; `gold` holds the rows of
    the last statement of `sol`, as written and without ROUND in its output. `kind` "compat": everything in turn on one
    connection, `gold` is not used. Times in seconds."""

    kind: Literal["strict", "compat"]
    template: str
    before: list[str]
    pred: list[str]
    sol: list[str]
    tests: list[str]
    conditions: dict[str, Any]
    gold: tuple[Rows, Rows] | None
    statement_s: float
    script_s: float
    test_s: float
    overlay_bytes: int
    memory_bytes: int


def strict(job: Job, send: Send) -> None:
    """Send ("prepared",), ("ran", status, message), ("tests", [(passed, reason), ...]); a failure ends early."""
    limit_cpu(job.script_s * 3 + job.test_s * len(job.tests))
    session = open_session(job.template, job.overlay_bytes)
    limit_memory(job.memory_bytes + 3 * job.overlay_bytes)
    for sql in job.before:
        for result in session.execute(sql, job.script_s, job.script_s, _MAX_ROWS):
            if not result.ok:
                send("unprepared", f"{result.message}: {result.sql[:200]}")
                return
    before = copy_of(session)
    send("prepared")
    status, message, rows = _run(session, job.pred, job)
    send("ran", status, message)
    if status != "ok":
        return
    outcomes = [_isolated_test(job, source, session, before, rows) for source in job.tests]
    send("tests", outcomes)


def _run(session: Session, scripts: Sequence[str], job: Job) -> tuple[str, str, Rows]:
    """Status and message of the first statement that fails, else the rows of the last one."""
    last: StatementResult | None = None
    for sql in scripts:
        for last in session.execute(sql, job.statement_s, job.script_s, _MAX_ROWS):
            if not last.ok:
                return last.status, last.message, []
    if last is None:
        return "empty", "the prediction holds no SQL statement", []
    if last.truncated:
        return "error", "the result is too large", []
    return "ok", "", list(last.rows)


def _isolated_test(job: Job, source: str, after: Session, before: Session, rows: Rows) -> tuple[bool, str]:
    def work(send: Send) -> None:
        after.reopen()  # temporary objects and open transactions of the prediction are gone
        replica = _enter_test(after, job)
        for sql in job.before:  # what preprocessing set for its connection holds for the test's, too
            first = next(tokens(sql), None)
            if first is not None and first.text == "PRAGMA":
                replica.connection.execute(sql)
        connection = Connection(replica)
        gold = job.gold or ([], [])
        pred = cache(lambda unrounded: _unrounded(job, before, rows) if unrounded else rows)
        runs: dict[Side, Callable[[bool], Rows]] = {"pred": pred, "sol": lambda unrounded: gold[unrounded]}
        helpers = StrictHelpers(connection, {"pred": job.pred, "sol": job.sol}, runs)
        arguments = {
            "pred_sqls": SqlList(job.pred, "pred"), "sol_sqls": SqlList(job.sol, "sol"), "db_path": DB_PATH,
            "conn": connection, "conditions": job.conditions,
        }  # fmt: skip
        send("begun")
        send(*_verdict(lambda: run_test(source, helpers.namespace(rows), arguments, separate=False)))

    messages, ending = supervise(work, [START_S, job.test_s])
    if not messages:
        raise RuntimeError(f"a test could not be started ({ending}); its traceback, if any, is above")
    if ending == "done" and is_outcome(messages[1]):
        passed, reason = messages[1]
        return passed, reason
    return False, _ENDED_TESTS.get(ending, "the test's process died").format(job.test_s)


def _unrounded(job: Job, before: Session, rows: Rows) -> Rows:
    """The prediction's rows without ROUND in its output columns, from a copy of the state before it."""
    text = without_output_rounds(job.pred[-1])
    if text == job.pred[-1]:
        return rows
    cursor: apsw.Cursor | None = None
    replica = Replica(before, job.statement_s)
    for sql in [*job.pred[:-1], text]:
        replica.start_statement()
        cursor = replica.connection.execute(sql)
    return cursor.fetchall() if cursor is not None else []


def compat(job: Job, send: Send) -> None:
    """Send ("begun",), ("ran", status, message, [(passed, reason), ...]): the published sequence, on one connection."""
    limit_cpu(job.script_s + job.test_s * len(job.tests))
    session = open_session(job.template, job.overlay_bytes)
    limit_memory(job.memory_bytes + job.overlay_bytes)
    connection = Connection(_enter_test(session, job))
    helpers = PublicHelpers(connection)
    send("begun")
    if job.before:
        helpers.execute_queries(job.before, DB_PATH, connection)
    rows, error, timeout, message = helpers.run(job.pred, DB_PATH, connection)
    if error or timeout:
        send("ran", "timeout" if timeout else "error", message.strip(), [])
        return
    outcomes = []
    for source in job.tests:
        arguments = {
            "pred_sqls": list(job.pred), "sol_sqls": list(job.sol), "db_path": DB_PATH, "conn": connection,
            "conditions": dict(job.conditions),
        }  # fmt: skip
        namespace = helpers.namespace(rows)
        outcomes.append(_verdict(partial(run_test, source, namespace, arguments, separate=True)))
    send("ran", "ok", "", outcomes)


def _enter_test(session: Session, job: Job) -> Replica:
    """From here on code of a data set runs in this process: no output, no fork, no way out, one database."""
    os.dup2(1, 2)  # standard output leads nowhere already
    filter_calls(serving=False)
    replica = Replica(session, job.statement_s)
    original = sqlite3.connect

    def connect(database: Any, *args: Any, **kwargs: Any) -> Any:
        name = os.fspath(database)
        if name == ":memory:":
            return original(name)
        if str(name).removeprefix("file:").partition("?")[0] == DB_PATH:
            return Connection(replica)
        raise sqlite3.OperationalError("unable to open database file")

    sqlite3.connect = connect
    return replica


def is_outcome(value: Any) -> bool:
    """Whether a value from a process in which a test ran is what a test sends: (passed, reason)."""
    return isinstance(value, list | tuple) and [*map(type, value)] == [bool, str]


def _verdict(test: Callable[[], None]) -> tuple[bool, str]:
    """(passed, reason): a test passes if it returns, whatever it returns."""
    try:
        test()
    except BaseException as error:  # noqa: BLE001 - whatever a test raises is its verdict
        line = next(
            (f.lineno for f in reversed(traceback.extract_tb(error.__traceback__)) if f.filename == "<test case>"), None
        )
        where = f" (line {line - 2})" if line is not None else ""
        return False, f"{type(error).__name__}{where}: {error}"[:_MAX_REASON]
    return True, ""


KINDS: dict[str, Callable[[Job, Send], None]] = {"strict": strict, "compat": compat}
