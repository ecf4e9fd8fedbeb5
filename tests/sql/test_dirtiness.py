"""When a session calls itself pristine: never after anything that changed its replica or its connection."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest
import yaml

from birdrl.files import sha256_file
from birdrl.sql.copies import CopyStorage
from birdrl.sql.session import Session
from birdrl.sql.storage import Template

FIXTURE = yaml.safe_load(Path(__file__).with_name("dirtiness.yaml").read_text(encoding="utf-8"))
CASES = [*FIXTURE["measured"], *FIXTURE["more"]]
PRAGMAS = [
    *("analysis_limit", "automatic_index", "busy_timeout", "cache_size", "cache_spill", "case_sensitive_like"),
    *("cell_size_check", "defer_foreign_keys", "foreign_keys", "hard_heap_limit", "ignore_check_constraints"),
    *("journal_size_limit", "legacy_alter_table", "locking_mode", "max_page_count", "mmap_size", "query_only"),
    *("read_uncommitted", "recursive_triggers", "reverse_unordered_selects", "secure_delete", "soft_heap_limit"),
    *("synchronous", "temp_store", "threads", "trusted_schema", "wal_autocheckpoint", "writable_schema"),
]


@pytest.fixture(scope="module")
def shop(make_template: Callable[..., Path]) -> Path:
    return make_template(FIXTURE["schema"])


@pytest.fixture(params=["overlay", "copy"])
def session(request: pytest.FixtureRequest, shop: Path, tmp_path: Path) -> Iterator[Session]:
    template, storage = Template(shop), None
    if request.param == "copy":
        storage = CopyStorage(template, 16 << 20, os.open(tmp_path / "copy", os.O_RDWR | os.O_CREAT))
        storage.reset()
    session = Session(template, 16 << 20, storage)
    yield session
    session.close()


@pytest.fixture(autouse=True)
def heap_limits() -> Iterator[None]:
    yield
    apsw.hard_heap_limit(0)
    apsw.soft_heap_limit(0)


def connection_state(connection: apsw.Connection) -> dict[str, Any]:
    """Everything of a connection that a later user of it could notice."""
    connection.authorizer = None
    state: dict[str, Any] = {name: connection.execute(f"PRAGMA {name}").fetchall() for name in PRAGMAS}
    state["like"] = connection.execute("SELECT 'a' LIKE 'A'").fetchall()
    state["databases"] = [row[1] for row in connection.execute("PRAGMA database_list")]
    state["temp"] = []  # asking would open the temporary database
    if "temp" in state["databases"]:
        state["temp"] = connection.execute("SELECT name, sql FROM sqlite_temp_schema").fetchall()
    state["rowid"] = connection.execute("SELECT last_insert_rowid(), changes(), total_changes()").fetchall()
    state["transaction"] = connection.in_transaction
    return state


def difference(before: dict[str, Any], after: dict[str, Any]) -> set[str]:
    return {name for name in before if before[name] != after[name]}


def replica_bytes(session: Session) -> bytes:
    session.connection.authorizer = None
    return session.connection.serialize("main")


def statements(case: dict[str, Any], folder: object = "{folder}") -> list[str]:
    sql = case["sql"] if isinstance(case["sql"], list) else [case["sql"]]
    return [one.replace("{folder}", str(folder)) for one in sql]


def run(session: Session, case: dict[str, Any]) -> None:
    for sql in statements(case, "/nowhere"):
        list(session.execute(sql, 5.0, 5.0, 1000))


named = pytest.mark.parametrize("case", CASES, ids=[case["case"] for case in CASES])


@named
def test_the_record_tells_what_a_plain_connection_suffers(case: dict[str, Any], shop: Path, tmp_path: Path) -> None:
    """So that no case is harmless by a mistake in the fixture."""
    path = tmp_path / "plain.sqlite"
    shutil.copyfile(shop, path)
    before = sha256_file(path)
    connection = apsw.Connection(str(path))
    state = connection_state(connection)
    for sql in statements(case, tmp_path):
        try:
            connection.execute(sql).fetchall()
        except apsw.Error:
            continue  # several cases are statements that fail
    changed = difference(state, connection_state(connection))
    connection.close()
    outside = {path.name for path in tmp_path.iterdir()} - {"plain.sqlite", "plain.sqlite-wal", "plain.sqlite-shm"}
    assert {
        "file": sha256_file(path) != before,
        "connection": sorted(changed),
        "outside": sorted(outside),
    } == {"connection": [], "outside": [], **case["plain"]}


@named
def test_a_session_is_pristine_or_dirty_as_recorded_and_renewed_in_any_case(
    case: dict[str, Any], session: Session
) -> None:
    original, state = replica_bytes(session), connection_state(session.connection)
    session.policy.rearm(session.connection)  # looking at its state took the authorizer away
    run(session, case)
    dirty = session.dirty
    assert dirty == (case["session"] == "dirty")
    changed = difference(state, connection_state(session.connection))
    if replica_bytes(session) != original or changed:
        assert dirty, changed
    assert session.renew() == dirty
    session.load_schema()
    assert not session.dirty
    assert replica_bytes(session) == original
    assert difference(state, connection_state(session.connection)) == set()


@named
def test_the_next_lease_notices_it_again(case: dict[str, Any], session: Session) -> None:
    """A statement from the connection's cache does not call the authorizer by itself."""
    for _ in range(2):
        run(session, case)
        assert session.dirty == (case["session"] == "dirty")
        session.renew()


def test_dirty_without_a_change_only_where_the_measurements_say_so(session: Session) -> None:
    """A needless reset costs 0.2 ms, so few kinds of statement may cause one."""
    original, state = replica_bytes(session), connection_state(session.connection)
    needless = set()
    for case in FIXTURE["measured"]:
        session.renew()
        session.policy.rearm(session.connection)  # looking at its state took the authorizer away
        run(session, case)
        dirty = session.dirty
        changed = replica_bytes(session) != original or difference(state, connection_state(session.connection))
        if dirty and not changed:
            needless.add(case["case"])
    assert needless == set(FIXTURE["needless"])


def test_a_cached_statement_is_seen_again_after_rearming(session: Session) -> None:
    for _ in range(3):
        list(session.execute("BEGIN; ROLLBACK", 5.0, 5.0, 10))
        assert session.dirty
        session.policy.rearm(session.connection)
        assert not session.policy.dirty
