"""A reset that keeps its connection leaves nothing of the earlier lease: beside it runs a session always new.

BIRDRL_KEPT_STATEMENTS sets how many random statements are compared.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest
from statements import ROWS, SCHEMA, random_lease
from test_dirtiness import connection_state, replica_bytes
from test_storage import STRATEGIES, open_storage

from birdrl.files import sha256_file
from birdrl.sql.policy import READING_PRAGMAS, Touched
from birdrl.sql.session import Session
from birdrl.sql.storage import Template

STATEMENTS = int(os.environ.get("BIRDRL_KEPT_STATEMENTS", "3000"))
LEASE = 10
COUNTERS = "SELECT last_insert_rowid(), changes(), total_changes()"
# Triggers write changes() down in the midst of a statement, where no later look can find it.
MORE = """
CREATE TABLE seen (what TEXT, n);
CREATE TRIGGER z1 AFTER INSERT ON parent BEGIN INSERT INTO seen VALUES ('first', changes()); END;
CREATE TRIGGER z2 AFTER INSERT ON parent BEGIN INSERT INTO seen VALUES ('second', changes() + total_changes()); END;
CREATE VIEW counters AS SELECT changes(), total_changes(), last_insert_rowid();
"""
TEMPLATES = {
    "small pages": ("PRAGMA page_size = 512;", ""),
    "auto-vacuum": ("PRAGMA page_size = 1024; PRAGMA auto_vacuum = 1;", ""),
    "analysed": ("", "ANALYZE;"),
    "write-ahead log": ("PRAGMA journal_mode = WAL;", ""),
}


@pytest.fixture(scope="module", params=TEMPLATES)
def template(request: pytest.FixtureRequest, make_template: Callable[..., Path]) -> Path:
    first, last = TEMPLATES[request.param]
    return make_template(first + SCHEMA + MORE + ROWS + last)


@pytest.fixture(params=STRATEGIES)
def strategy(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def open_session(strategy: str) -> Iterator[Callable[..., Session]]:
    sessions: list[Session] = []

    def make(path: Path, quota_bytes: int = 16 << 20) -> Session:
        storage = open_storage(strategy, path, quota_bytes)
        sessions.append(Session(storage.template, quota_bytes, storage))
        return sessions[-1]

    yield make
    for session in sessions:
        session.close()


def run(session: Session, sql: str) -> list[Any]:
    return [
        (r.sql, r.status, r.columns, r.rows, r.truncated, r.message, r.rows_changed)
        for r in session.execute(sql, 5.0, 5.0, 1000)
    ]


def visible(session: Session) -> list[Any]:
    """What SQL can see of the state of a session."""
    pragmas = [f"PRAGMA {name}" for name in sorted(READING_PRAGMAS | {"integrity_check", "table_list", "data_version"})]
    tables = [row[0] for row in session.connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
    reads = [f'SELECT * FROM "{table}"' for table in sorted(tables)]
    asked = (COUNTERS, "SELECT * FROM counters", "SELECT data_version FROM pragma_data_version", *pragmas, *reads)
    return [run(session, sql) for sql in asked]


def hidden(session: Session) -> list[Any]:
    """What a look from outside can see of it; the session goes on as it was."""
    touched = session.policy.touched
    state = [
        connection_state(session.connection),
        session.connection.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, -1),
        session.connection.config(apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA, -1),
        replica_bytes(session),
        session.storage.held_bytes,
        session.dirty,
    ]
    session.policy.rearm(session.connection)
    session.policy.touched = touched
    return state


def test_every_lease_gives_what_a_new_session_gives(
    template: Path, strategy: str, open_session: Callable[..., Session]
) -> None:
    """Results, error texts and, at both ends of every lease, everything visible."""
    before = sha256_file(template)
    kept, resets, done, errors = {level: 0 for level in Touched}, 0, 0, 0
    session = open_session(template)
    for seed in range(-(-STATEMENTS // (LEASE * len(TEMPLATES) * len(STRATEGIES)))):
        new = Session(Template(template), 16 << 20, open_storage(strategy, template, 16 << 20))
        assert hidden(session) == hidden(new), f"before lease {seed}"
        if seed % 3:  # the first statement of a lease is as often a random one
            assert visible(session) == visible(new), f"before lease {seed}"
        for number, sql in enumerate(random_lease(random.Random(seed), LEASE)):
            found = run(session, sql)
            assert found == run(new, sql), f"lease {seed}, statement {number}: {sql}"
            assert session.dirty == new.dirty, f"lease {seed}, statement {number}: {sql}"
            done += 1
            errors += any(result[1] != "ok" for result in found)
        assert hidden(session)[:3] == hidden(new)[:3], f"after lease {seed}"
        if seed % 5 == 1:
            session.reopen()
            new.reopen()
        if seed % 5 == 2:
            assert visible(session) == visible(new), f"after lease {seed}"
        connection, touched = session.connection, session.policy.touched
        resets += session.renew()
        session.load_schema()
        kept[touched] += session.connection is connection
        new.close()
    assert 0.02 * done < errors < 0.6 * done, "the generator no longer mixes right and wrong statements"
    assert kept[Touched.ROWS] > resets / 5, "few resets kept the connection"
    assert kept[Touched.SCHEMA] > resets / 20, "few resets after a change of the schema kept the connection"
    assert kept[Touched.ANYTHING] == 0
    assert sum(kept.values()) < resets, "no reset replaced the connection"
    assert sha256_file(template) == before


KEPT = [
    "INSERT INTO log (what) VALUES ('x')",
    "UPDATE t SET c = c + 1; DELETE FROM flat",
    "BEGIN; DELETE FROM t",
    "SAVEPOINT a; INSERT INTO auto (v) VALUES (1); ROLLBACK TO a",
    "INSERT INTO parent VALUES (1, 'twice')",
    "UPDATE sqlite_sequence SET seq = 900",
    "CREATE TABLE u0 (a); INSERT INTO u0 VALUES (1)",
    "BEGIN; DROP TABLE t; ALTER TABLE log ADD COLUMN extra",
    "DROP TABLE t; CREATE TABLE t (b, a); CREATE INDEX t_c ON t (a)",
    "CREATE INDEX i ON log (what); DROP VIEW v",
]
REPLACED = [
    "CREATE TEMP TABLE log AS SELECT 1 AS n",
    "CREATE TEMP TRIGGER g AFTER INSERT ON main.log BEGIN DELETE FROM t; END",
    "PRAGMA foreign_keys = ON; DELETE FROM t",
    "PRAGMA user_version = 3",
    "ANALYZE",
    "VACUUM",
    "CREATE VIRTUAL TABLE f USING fts5 (x); INSERT INTO f VALUES ('a')",
    "ATTACH '' AS other",
]


@pytest.mark.parametrize("script", KEPT + REPLACED)
def test_which_scripts_keep_the_connection(script: str, template: Path, open_session: Callable[..., Session]) -> None:
    session, new = open_session(template), open_session(template)
    connection = session.connection
    run(session, script)
    assert session.renew()
    session.load_schema()
    assert (session.connection is connection) == (script in KEPT)
    assert hidden(session) == hidden(new)
    assert visible(session) == visible(new)
    assert run(session, "INSERT INTO parent VALUES (99, 'x')") == run(new, "INSERT INTO parent VALUES (99, 'x')")
    assert visible(session) == visible(new)


def test_statistics_that_a_policy_changed_are_read_again(
    make_template: Callable[..., Path], open_session: Callable[..., Session]
) -> None:
    session = open_session(
        make_template(
            "CREATE TABLE s (a, b); CREATE INDEX s_a ON s (a); CREATE INDEX s_b ON s (b);"
            "INSERT INTO s VALUES (1, 1), (1, 2), (1, 3), (1, 4); ANALYZE;"
        )
    )
    plan = "EXPLAIN QUERY PLAN SELECT * FROM s WHERE a = 1 AND b = 1"
    expected = run(session, plan)
    run(
        session,
        "UPDATE sqlite_stat1 SET stat = CASE idx WHEN 's_a' THEN '4 1' ELSE '4 4' END; DELETE FROM sqlite_stat4",
    )
    session.reopen()
    assert run(session, plan) != expected
    connection = session.connection
    assert session.renew()
    assert run(session, plan) == expected
    assert session.connection is connection


def test_a_full_overlay_is_empty_again(template: Path, open_session: Callable[..., Session]) -> None:
    session, new = open_session(template, 64 << 10), open_session(template, 64 << 10)
    for script in ("UPDATE t SET b = hex(randomblob(9000))", "BEGIN; UPDATE t SET b = hex(randomblob(9000)); SELECT 1"):
        assert run(session, script)[-1][1] == "error"
        assert session.renew()
        session.load_schema()
        assert hidden(session) == hidden(new)
        assert visible(session) == visible(new)


@pytest.mark.parametrize(
    "script",
    [
        "CREATE TABLE item (a); INSERT INTO item VALUES (1); CREATE VIRTUAL TABLE f USING fts5 (x);",
        "CREATE TABLE item (a); INSERT INTO item VALUES (1);"
        "CREATE TRIGGER g BEFORE DELETE ON item BEGIN SELECT absent(); END;",
    ],
    ids=["virtual table", "trigger that cannot run"],
)
def test_templates_whose_connection_is_always_replaced(
    script: str, make_template: Callable[..., Path], open_session: Callable[..., Session]
) -> None:
    session = open_session(make_template(script))
    state = hidden(session)
    for _ in range(2):
        connection = session.connection
        run(session, "UPDATE item SET a = 5")
        assert session.renew()
        assert session.connection is not connection
        session.load_schema()
        assert hidden(session) == state


def test_a_template_whose_header_tells_a_wrong_size_stays_as_it_is(
    make_template: Callable[..., Path], open_session: Callable[..., Session]
) -> None:
    """As programs from before 2010 leave it; SQLite mends the header as soon as it may write."""
    path = make_template(SCHEMA + ROWS)
    path.chmod(0o644)
    data = bytearray(path.read_bytes())
    data[28:32] = bytes(4)
    path.write_bytes(data)
    session, new = open_session(path), open_session(path)
    for _ in range(2):
        run(session, "DELETE FROM log")
        assert session.renew()
        session.load_schema()
        assert hidden(session) == hidden(new)
        assert not session.dirty
