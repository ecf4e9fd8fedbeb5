"""A replica behaves like a private copy of the template, and the template never changes."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest
from series import series

from birdrl.errors import InputError
from birdrl.files import sha256_file
from birdrl.sql.overlay import Overlay, OverlayVFS, Template

BLOCKS = [512, 1024, 4096, 16384]


def open_replica(path: Path, quota: int = 32 << 20) -> tuple[Overlay, apsw.Connection, OverlayVFS]:
    overlay = Overlay(Template(path), quota)
    vfs = OverlayVFS(overlay)  # must outlive its connections
    return overlay, vfs.connect(), vfs


def outcome(connection: apsw.Connection, sql: str) -> object:
    try:
        return connection.execute(sql).fetchall()
    except apsw.Error as error:
        return f"{type(error).__name__}: {error}"


def random_statements(rng: random.Random, count: int) -> list[str]:
    def one() -> str:
        n = rng.randrange(1, 60)
        return rng.choice(
            [
                f"INSERT INTO t VALUES ({n}, '{'x' * rng.randrange(3000)}')",
                f"INSERT OR REPLACE INTO t VALUES ({n}, hex(zeroblob({rng.randrange(2000)})))",
                f"INSERT OR ROLLBACK INTO t VALUES ({n}, 'dup')",
                f"UPDATE t SET b = b || 'y' WHERE a % {rng.randrange(1, 7)} = 0",
                f"DELETE FROM t WHERE a > {n}",
                "DELETE FROM t",
                "BEGIN",
                "COMMIT",
                "ROLLBACK",
                "SAVEPOINT s",
                "ROLLBACK TO s",
                "RELEASE s",
                f"CREATE TABLE u{n % 4} AS SELECT * FROM t",
                f"DROP TABLE u{n % 4}",
                f"CREATE INDEX i{n % 4} ON t (b)",
                f"DROP INDEX i{n % 4}",
                "ALTER TABLE t ADD COLUMN c DEFAULT 5",
                "ALTER TABLE t DROP COLUMN c",
                "VACUUM",
                "REINDEX",
                "ANALYZE",
                "PRAGMA user_version = 7",
                "PRAGMA integrity_check",
                "CREATE TEMP TABLE tmp AS SELECT * FROM t",
                "SELECT count(*), sum(length(b)) FROM t",
            ]
        )

    return [one() for _ in range(count)]


@pytest.mark.parametrize("page_size", BLOCKS)
def test_random_scripts_give_what_a_plain_file_gives(tmp_path: Path, page_size: int) -> None:
    original = tmp_path / "original.sqlite"
    connection = apsw.Connection(str(original))
    connection.execute(f"PRAGMA page_size = {page_size}; CREATE TABLE t (a INTEGER PRIMARY KEY, b TEXT)")
    connection.execute(f"INSERT INTO t SELECT value, hex(zeroblob(value * 10)) FROM {series(40)}")
    connection.close()
    before = sha256_file(original)
    for seed in range(4):
        copy = tmp_path / f"copy{seed}.sqlite"
        shutil.copyfile(original, copy)
        plain = apsw.Connection(str(copy))
        plain.execute("PRAGMA synchronous = OFF")
        _, replica, _vfs = open_replica(original)
        replica.execute("PRAGMA cache_size = 5")  # dirty pages spill into the overlay in mid-transaction
        for sql in random_statements(random.Random(seed * 100 + page_size), 60):
            assert outcome(replica, sql) == outcome(plain, sql), sql
        for connection in (plain, replica):
            if connection.in_transaction:
                connection.execute("ROLLBACK")
        dump = "SELECT type, name, sql FROM sqlite_schema ORDER BY name"
        assert outcome(replica, dump) == outcome(plain, dump)
        assert outcome(replica, "SELECT * FROM t") == outcome(plain, "SELECT * FROM t")
        assert outcome(replica, "PRAGMA integrity_check") == [("ok",)]
        replica.close()
        plain.close()
    assert sha256_file(original) == before


def test_two_replicas_of_one_template_do_not_see_each_other(template: Path) -> None:
    _, a, _vfs_a = open_replica(template)
    _, b, _vfs_b = open_replica(template)
    a.execute("DELETE FROM item")
    b.execute("UPDATE item SET name = 'b'")
    assert outcome(a, "SELECT count(*) FROM item") == [(0,)]
    assert outcome(b, "SELECT count(*), max(name) FROM item") == [(4, "b")]


def test_beyond_the_quota_the_statement_fails_and_the_rest_stays(template: Path) -> None:
    overlay, connection, _vfs = open_replica(template, 256 << 10)
    connection.execute("CREATE TABLE big (x)")
    connection.execute("INSERT INTO big VALUES (1)")
    fill = f"INSERT INTO big SELECT hex(zeroblob(900)) FROM {series(5000)}"
    with pytest.raises(apsw.FullError):
        connection.execute(fill)
    assert outcome(connection, "SELECT * FROM big") == [(1,)]
    assert outcome(connection, "PRAGMA integrity_check") == [("ok",)]
    assert len(overlay) <= 256 << 10


def test_quota_comes_back_with_temporary_files(template: Path) -> None:
    overlay, connection, _vfs = open_replica(template)
    connection.execute("PRAGMA temp_store = FILE; PRAGMA cache_size = 2").fetchall()
    rows = f"SELECT x FROM (SELECT hex(randomblob(400)) AS x FROM {series(9000)}) ORDER BY x"
    held = 0
    for _ in connection.execute(rows):
        held = max(held, len(overlay))
    assert held > 1 << 20
    assert len(overlay) == 0


def test_a_template_left_in_wal_mode_opens_as_any_other(tmp_path: Path) -> None:
    path = tmp_path / "wal.sqlite"
    connection = apsw.Connection(str(path))
    connection.execute("PRAGMA journal_mode = WAL; CREATE TABLE t (a); INSERT INTO t VALUES (1)").fetchall()
    connection.close()
    _, replica, _vfs = open_replica(path)
    replica.execute("INSERT INTO t VALUES (2)")
    assert outcome(replica, "SELECT * FROM t") == [(1,), (2,)]


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
    ],
)
def test_unusable_templates_are_named(tmp_path: Path, write: Callable[[Path], object], what: str) -> None:
    path = tmp_path / "bad.sqlite"
    write(path)
    with pytest.raises(InputError, match=f"bad.sqlite: .*{what}"):
        Template(path)
