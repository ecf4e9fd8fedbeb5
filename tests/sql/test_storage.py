"""Either strategy: a replica behaves like a private copy of the template, and the template never changes."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest
from series import series

from birdrl.errors import InputError
from birdrl.files import sha256_file
from birdrl.sql.copies import Copy, CopyStorage
from birdrl.sql.overlay import OverlayStorage
from birdrl.sql.storage import ReplicaStorage, Template

STRATEGIES = ["overlay", "copy"]


def open_storage(strategy: str, path: Path, quota: int = 32 << 20) -> ReplicaStorage:
    """A pristine replica of the template at `path`."""
    if strategy == "overlay":
        return OverlayStorage(Template(path), quota)
    copy = Copy(path.parent)
    storage = CopyStorage(Template(path), quota, os.dup(copy.file.fileno()))
    storage.reset()
    copy.close()
    return storage


@pytest.fixture(params=STRATEGIES)
def strategy(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


def outcome(connection: apsw.Connection, sql: str) -> object:
    try:
        return connection.execute(sql).fetchall()
    except apsw.Error as error:
        return f"{type(error).__name__}: {error}"


def test_two_replicas_of_one_template_do_not_see_each_other(strategy: str, template: Path) -> None:
    before = sha256_file(template)
    replicas = [open_storage(strategy, template) for _ in range(2)]
    a, b = (replica.connect() for replica in replicas)
    a.execute("DELETE FROM item")
    b.execute("UPDATE item SET name = 'b'")
    assert outcome(a, "SELECT count(*) FROM item") == [(0,)]
    assert outcome(b, "SELECT count(*), max(name) FROM item") == [(4, "b")]
    assert sha256_file(template) == before


def test_a_reset_brings_back_the_template(strategy: str, template: Path) -> None:
    replica = open_storage(strategy, template)
    for change in ("DELETE FROM item", f"CREATE TABLE big AS SELECT hex(zeroblob(2000)) FROM {series(300)}", "VACUUM"):
        connection = replica.connect()
        writes = replica.writes
        connection.execute(f"{change}; PRAGMA page_size = 1024; VACUUM").fetchall()
        assert replica.writes > writes
        assert replica.held_bytes > 0
        connection.close()
        replica.reset()
        assert replica.held_bytes == 0
        connection = replica.connect()
        assert connection.serialize("main") == template.read_bytes()
        connection.close()
    replica.close()


def test_beyond_the_quota_the_statement_fails_and_the_rest_stays(strategy: str, template: Path) -> None:
    replica = open_storage(strategy, template, 256 << 10)
    connection = replica.connect()
    connection.execute("CREATE TABLE big (x)")
    connection.execute("INSERT INTO big VALUES (1)")
    fill = f"INSERT INTO big SELECT hex(zeroblob(900)) FROM {series(5000)}"
    with pytest.raises(apsw.FullError, match="database or disk is full"):
        connection.execute(fill)
    assert outcome(connection, "SELECT * FROM big") == [(1,)]
    assert outcome(connection, "PRAGMA integrity_check") == [("ok",)]
    assert replica.held_bytes <= 256 << 10
    assert replica.failure == "", "the quota is the policy's own affair"


def test_a_statement_cut_off_by_the_quota_is_rolled_back_by_whoever_comes_next(strategy: str, template: Path) -> None:
    """With a tiny cache, pages of the failing statement are in the file already; its journal brings them back."""
    replica = open_storage(strategy, template, 256 << 10)
    connection = replica.connect()
    connection.execute(f"CREATE TABLE big AS SELECT value AS n, hex(zeroblob(200)) AS x FROM {series(200)}")
    connection.execute("PRAGMA cache_size = 1")
    with pytest.raises(apsw.FullError):
        connection.execute(f"UPDATE big SET n = -n; INSERT INTO big SELECT value, zeroblob(900) FROM {series(900)}")
    connection.execute("UPDATE big SET n = -n")
    with pytest.raises(apsw.FullError):
        connection.execute("UPDATE big SET n = 0, x = hex(zeroblob(4000))")
    connection.close()
    again = replica.connect()
    assert outcome(again, "SELECT min(n), max(n), count(*), max(length(x)) FROM big") == [(1, 200, 200, 400)]
    assert outcome(again, "PRAGMA integrity_check") == [("ok",)]
    assert not replica.failure


def test_quota_comes_back_with_temporary_files(strategy: str, template: Path) -> None:
    replica = open_storage(strategy, template)
    connection = replica.connect()
    connection.execute("PRAGMA temp_store = FILE; PRAGMA cache_size = 2").fetchall()
    rows = f"SELECT x FROM (SELECT hex(randomblob(400)) AS x FROM {series(9000)}) ORDER BY x"
    held = 0
    for _ in connection.execute(rows):
        held = max(held, replica.held_bytes)
    assert held > 1 << 20
    assert replica.held_bytes == 0


def test_a_template_left_in_wal_mode_opens_as_any_other(strategy: str, tmp_path: Path) -> None:
    path = tmp_path / "wal.sqlite"
    connection = apsw.Connection(str(path))
    connection.execute("PRAGMA journal_mode = WAL; CREATE TABLE t (a); INSERT INTO t VALUES (1)").fetchall()
    connection.close()
    before = path.read_bytes()
    replica = open_storage(strategy, path)
    for _ in range(2):
        connection = replica.connect()
        connection.execute("INSERT INTO t VALUES (2)")
        assert outcome(connection, "SELECT * FROM t") == [(1,), (2,)]
        connection.close()
        replica.reset()
    assert path.read_bytes() == before


def test_the_version_for_reading_decides_what_a_wal_file_is(strategy: str, template: Path, tmp_path: Path) -> None:
    path = tmp_path / "mixed.sqlite"
    content = bytearray(template.read_bytes())
    content[18:20] = b"\1\2"
    path.write_bytes(content)
    replica = open_storage(strategy, path)
    connection = replica.connect()
    connection.execute("DELETE FROM item WHERE id > 1")
    assert outcome(connection, "SELECT count(*) FROM item") == [(1,)]
    connection.close()
    assert path.read_bytes() == content


@pytest.mark.parametrize("header", [b"", b"\0" * 28])
def test_the_journal_of_a_finished_write_does_no_harm(header: bytes, template: Path, tmp_path: Path) -> None:
    path = tmp_path / "done.sqlite"
    path.write_bytes(template.read_bytes())
    (tmp_path / "done.sqlite-journal").write_bytes(header)
    Template(path).close()


def write_cut_off(path: Path) -> None:
    write_open_wal(path)
    path.with_name(path.name + "-wal").unlink()
    path.with_name(path.name + "-journal").write_bytes(bytes.fromhex("d9d505f920a163d7") + bytes(20))


def write_garbage(path: Path) -> None:
    path.write_bytes(b"not a database" * 100)


def write_open_wal(path: Path) -> None:
    connection = apsw.Connection(str(path))
    connection.execute("PRAGMA journal_mode = WAL; CREATE TABLE t (a)").fetchall()
    path.with_name("kept").write_bytes(path.with_name(path.name + "-wal").read_bytes())
    connection.close()
    path.with_name("kept").rename(path.with_name(path.name + "-wal"))


@pytest.mark.parametrize(
    ("write", "what"),
    [
        (lambda path: None, "cannot open"),
        (lambda path: path.write_bytes(b""), "0 bytes"),
        (write_garbage, "wrong header"),
        (write_open_wal, "write-ahead log"),
        (write_cut_off, "left bad.sqlite-journal"),
    ],
)
def test_unusable_templates_are_named(tmp_path: Path, write: Callable[[Path], object], what: str) -> None:
    path = tmp_path / "bad.sqlite"
    write(path)
    with pytest.raises(InputError, match=f"bad.sqlite: .*{what}"):
        Template(path)
