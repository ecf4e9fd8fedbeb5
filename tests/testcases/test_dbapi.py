"""The connection of a test case does what the standard library's does, call by call."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from datetime import date, datetime
from pathlib import Path
from typing import Any

import pytest

from birdrl.sql.session import Session
from birdrl.testcases.dbapi import Connection
from birdrl.testcases.replica import Replica, copy_of, open_session

SCRIPT = (
    "CREATE TABLE t (a INTEGER PRIMARY KEY, b TEXT UNIQUE, c REAL); INSERT INTO t VALUES (1, 'x', 1.5), (2, 'y', NULL)"
)


@pytest.fixture
def template(tmp_path: Path) -> Path:
    path = tmp_path / "t.sqlite"
    connection = sqlite3.connect(path)
    connection.executescript(SCRIPT)
    connection.close()
    return path


@pytest.fixture
def session(template: Path) -> Iterator[Session]:
    session = open_session(str(template), 1 << 24)
    yield session
    session.close()


@pytest.fixture
def ours(session: Session) -> Connection:
    return Connection(Replica(session, 5.0))


@pytest.fixture
def theirs(template: Path) -> sqlite3.Connection:
    return sqlite3.connect(template)


def state(connection: Any, cursor: Any) -> Any:
    return cursor.rowcount, cursor.lastrowid, cursor.description, connection.in_transaction, connection.total_changes


def attempt(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except Exception as error:  # noqa: BLE001 - errors are what is compared
        return type(error), str(error), getattr(error, "sqlite_errorname", None)


STEPS: list[tuple[str, Any]] = [
    ("SELECT a, b AS name, c FROM t ORDER BY a", ()),
    ("INSERT INTO t (b, c) VALUES (?, ?)", ("z", 2)),
    ("INSERT INTO t (b) VALUES ('z')", ()),
    ("SELECT count(*) FROM t", ()),
    ("UPDATE t SET c = :c WHERE a > :a", {"c": 7.25, "a": 1}),
    ("DELETE FROM t WHERE a = 99", ()),
    ("REPLACE INTO t VALUES (1, 'w', NULL)", ()),
    ("INSERT INTO t (b) VALUES (?)", (datetime(2024, 1, 2, 3, 4, 5),)),
    ("INSERT INTO t (b) VALUES (?)", (date(2024, 1, 2),)),
    ("INSERT INTO t (b) VALUES (?)", (bytearray(b"ab"),)),
    ("INSERT INTO t (b) VALUES (?)", (object(),)),
    ("SELECT b FROM t WHERE a = ?", ()),
    ("SELECT b FROM t WHERE a = ?", (1, 2)),
    ("INSERT INTO t (c) VALUES (3) RETURNING a, c", ()),
    ("-- nothing", ()),
    ("", ()),
    ("SELECT 1; SELECT 2", ()),
    ("SELECT 1;;", ()),
    ("SELECT 1; -- one", ()),
    ("/* first */ INSERT INTO t (b) VALUES ('commented')", ()),
    ("WITH q AS (SELECT 1 AS a) SELECT a FROM q", ()),
    ("CREATE TABLE u (a NOT NULL, CHECK (a > 0))", ()),
    ("INSERT INTO u VALUES (0)", ()),
    ("INSERT INTO u VALUES (NULL)", ()),
    ("CREATE TRIGGER r AFTER INSERT ON u BEGIN SELECT 1; SELECT 2; END", ()),
    ("SELECT nothing FROM t", ()),
    ("SELECT * FROM absent", ()),
    ("selec", ()),
    ("PRAGMA user_version", ()),
    ("BEGIN", ()),
    ("COMMIT", ()),
    ("COMMIT", ()),
    ("SAVEPOINT s", ()),
    ("RELEASE s", ()),
    ("SELECT 'a' || char(0) || 'b', x'00ff', 1e308 * 10, NULL, -0.0", ()),
]


def test_the_same_answers_errors_and_state(ours: Connection, theirs: sqlite3.Connection) -> None:
    a, b = ours.cursor(), theirs.cursor()
    for sql, parameters in STEPS:
        found = [attempt(lambda c=cursor, s=sql, p=parameters: c.execute(s, p).fetchall()) for cursor in (a, b)]
        same_kind = isinstance(found[0], tuple) == isinstance(found[1], tuple)
        assert same_kind, (sql, found)
        if isinstance(found[0], tuple):
            assert found[0][0] is found[1][0], (sql, found)
            if found[1][2] is not None:  # a message of SQLite, not of the module
                assert found[0] == found[1], sql
        else:
            assert found[0] == found[1], sql
            assert state(ours, a) == state(theirs, b), sql


def delete_and_fail(connection: Any) -> None:
    with connection:
        connection.execute("DELETE FROM t WHERE a = 1")
        connection.execute("INSERT INTO t (b) VALUES ('q')")


@pytest.mark.parametrize("level", ["", None, "IMMEDIATE"])
def test_transactions(level: Any, ours: Connection, theirs: sqlite3.Connection) -> None:
    seen = []
    for connection in (ours, theirs):
        connection.isolation_level = level
        steps = [connection.in_transaction]
        connection.execute("INSERT INTO t (b) VALUES ('p')")
        steps.append(connection.in_transaction)
        connection.rollback()
        steps.append(connection.execute("SELECT count(*) FROM t").fetchone())
        with connection:
            connection.execute("INSERT INTO t (b) VALUES ('q')")
        with pytest.raises(sqlite3.IntegrityError):
            delete_and_fail(connection)
        steps.append(connection.execute("SELECT a, b FROM t ORDER BY a").fetchall())
        connection.executescript("DELETE FROM t WHERE a > 2; INSERT INTO t (b) VALUES ('; --');")
        steps += [connection.in_transaction, connection.execute("SELECT b FROM t ORDER BY a").fetchall()]
        seen.append(steps)
    assert seen[0] == seen[1]


def test_fetching(ours: Connection, theirs: sqlite3.Connection) -> None:
    seen = []
    for connection in (ours, theirs):
        cursor = connection.cursor()
        cursor.execute("SELECT a FROM t UNION ALL SELECT 7 UNION ALL SELECT 8")
        steps: list[Any] = [cursor.fetchone(), cursor.fetchmany(1), cursor.fetchmany(), list(cursor), cursor.fetchone()]
        steps.append(cursor.executemany("INSERT INTO t (b) VALUES (?)", [("m",), ("n",)]).rowcount)
        steps.append(attempt(lambda c=cursor: c.executemany("SELECT ?", [(1,)]))[0])
        cursor.close()
        steps.append(attempt(lambda c=cursor: c.execute("SELECT 1")))
        steps.append([row for row in connection.execute("SELECT b FROM t")])
        connection.close()
        steps.append(attempt(lambda c=connection: c.execute("SELECT 1")))
        seen.append(steps)
    assert seen[0] == seen[1]


def test_rows_by_name(ours: Connection, theirs: sqlite3.Connection) -> None:
    seen = []
    for connection in (ours, theirs):
        connection.row_factory = sqlite3.Row
        row = connection.execute("SELECT a, b AS Name FROM t").fetchone()
        steps = [row["name"], row[0], row[-1], row.keys(), tuple(row), len(row), dict(row), list(row[0:1])]
        steps.append(attempt(lambda r=row: r["absent"]))
        connection.row_factory = lambda cursor, values: [cursor.description[0][0], *values]
        steps.append(connection.execute("SELECT a FROM t").fetchall())
        seen.append(steps)
    assert seen[0] == seen[1]


def test_own_functions_and_dump(ours: Connection, theirs: sqlite3.Connection) -> None:
    class Longest:
        def __init__(self) -> None:
            self.best = ""

        def step(self, value: str) -> None:
            self.best = max(self.best, value or "", key=len)

        def finalize(self) -> str:
            return self.best

    seen = []
    for connection in (ours, theirs):
        connection.create_function("twice", 1, lambda x: 2 * x, deterministic=True)
        connection.create_aggregate("longest", 1, Longest)
        connection.create_collation("reversed", lambda x, y: (x < y) - (x > y))
        query = "SELECT twice(a), longest(b) FROM t UNION ALL SELECT b, 0 FROM t ORDER BY 1 COLLATE reversed"
        seen.append([connection.execute(query).fetchall(), list(connection.iterdump())])
    assert seen[0] == seen[1]


def test_it_is_a_connection_that_refuses_what_leads_out_of_the_replica(ours: Connection) -> None:
    assert isinstance(ours, sqlite3.Connection)
    for call in (
        lambda: ours.backup(ours), ours.serialize, lambda: ours.enable_load_extension(True),
        lambda: ours.set_authorizer(None), lambda: ours.set_progress_handler(None, 0), lambda: ours.setlimit(0, 1),
    ):  # fmt: skip
        with pytest.raises(sqlite3.NotSupportedError):
            call()
    with pytest.raises(sqlite3.DatabaseError, match="not authorized"):
        ours.execute("ATTACH '/tmp/x.sqlite' AS x")


def test_a_statement_has_its_time(session: Session) -> None:
    connection = Connection(Replica(session, 0.1))
    endless = "WITH RECURSIVE r(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM r) SELECT count(*) FROM r"
    with pytest.raises(sqlite3.OperationalError, match="interrupted"):
        connection.execute(endless)
    assert connection.execute("SELECT 1").fetchone() == (1,)


def test_copies_of_a_replica_are_apart(session: Session) -> None:
    one = Connection(Replica(session, 5.0))
    one.execute("INSERT INTO t (b) VALUES ('before')")
    one.commit()
    copy = copy_of(session)
    two = Connection(Replica(copy, 5.0))
    one.executescript("DELETE FROM t; VACUUM")
    two.execute("INSERT INTO t (b) VALUES ('after')")
    assert two.execute("SELECT b FROM t ORDER BY a").fetchall() == [("x",), ("y",), ("before",), ("after",)]
    assert one.execute("SELECT b FROM t").fetchall() == []
    copy.close()
