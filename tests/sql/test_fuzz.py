"""Differential fuzzing: on a replica of either strategy every statement gives what it gives on a plain file."""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path

import apsw
import pytest
from series import series
from statements import ROWS, SCHEMA, random_script
from test_storage import STRATEGIES, open_storage, outcome

from birdrl.files import sha256_file

STATEMENTS = int(os.environ.get("BIRDRL_FUZZ_STATEMENTS", "10000"))
SCRIPT = 50
PAGE_SIZES = [512, 1024, 4096, 65536]


def build(path: Path, page_size: int) -> Path:
    connection = apsw.Connection(str(path))
    connection.execute(f"PRAGMA page_size = {page_size}; PRAGMA auto_vacuum = {page_size == 1024:d};{SCHEMA}{ROWS}")
    connection.close()
    path.chmod(0o444)
    return path


def state(connection: apsw.Connection) -> tuple[int, int, bool]:
    return connection.total_changes(), connection.last_insert_rowid(), connection.in_transaction


def test_every_statement_gives_what_a_plain_file_gives(tmp_path: Path) -> None:
    """Results, error texts, counters and, at the end of each script, the file byte for byte."""
    templates = [build(tmp_path / f"{size}.sqlite", size) for size in PAGE_SIZES]
    before = [sha256_file(template) for template in templates]
    errors = done = 0
    for seed in range(-(-STATEMENTS // SCRIPT)):
        template = templates[seed % len(templates)]
        copy = Path(shutil.copyfile(template, tmp_path / "plain.sqlite"))
        plain = apsw.Connection(str(copy))
        plain.execute("PRAGMA synchronous = OFF")
        storages = [open_storage(strategy, template) for strategy in STRATEGIES]
        replicas = [storage.connect() for storage in storages]
        for number, sql in enumerate(random_script(random.Random(seed), SCRIPT)):
            expected = outcome(plain, sql)
            for strategy, replica in zip(STRATEGIES, replicas, strict=True):
                where = f"{strategy}, script {seed}, statement {number}: {sql}"
                assert outcome(replica, sql) == expected, where
                assert state(replica) == state(plain), where
            errors += isinstance(expected, str)
            done += 1
        for connection in (plain, *replicas):
            if connection.in_transaction:
                connection.execute("ROLLBACK")
        plain.close()
        for strategy, storage, replica in zip(STRATEGIES, storages, replicas, strict=True):
            assert outcome(replica, "PRAGMA integrity_check") == [("ok",)], f"{strategy}, script {seed}"
            replica.close()
            again = storage.connect()
            assert again.serialize("main") == copy.read_bytes(), f"{strategy}, script {seed}: final content"
            again.close()
            storage.close()
        copy.unlink()
    assert done >= STATEMENTS
    assert 0.1 * done < errors < 0.6 * done, "the generator no longer mixes right and wrong statements"
    assert [sha256_file(template) for template in templates] == before


GROWING = [
    lambda rng: f"INSERT INTO t (b) SELECT hex(zeroblob(0)) || '{rng.random()}' || i FROM {series_of(rng)}",
    lambda rng: f"UPDATE t SET b = b || hex(zeroblob({rng.randrange(400)}))",
    lambda rng: f"CREATE TABLE u{rng.randrange(5)} AS SELECT * FROM t",
    lambda rng: f"CREATE INDEX i{rng.randrange(5)} ON t (b)",
    lambda rng: f"INSERT OR REPLACE INTO flat VALUES ('k{rng.randrange(9)}', zeroblob({rng.randrange(90000)}))",
    lambda rng: f"DROP TABLE IF EXISTS u{rng.randrange(5)}",
    lambda rng: f"DELETE FROM t WHERE a % {rng.randrange(2, 5)} = 0",
    lambda rng: "VACUUM",
]


def series_of(rng: random.Random) -> str:
    return f"(SELECT value AS i FROM {series(rng.randrange(1, 400))})"


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_statement_that_meets_the_quota_has_no_effect(tmp_path: Path, strategy: str) -> None:
    """Where the replica is full, the plain file skips the statement; everything else stays the same."""
    template = build(tmp_path / "template.sqlite", 4096)
    full = 0
    for seed in range(12):
        rng = random.Random(seed)
        copy = Path(shutil.copyfile(template, tmp_path / "plain.sqlite"))
        plain, storage = apsw.Connection(str(copy)), open_storage(strategy, template, 400 << 10)
        plain.execute("PRAGMA synchronous = OFF")
        replica = storage.connect()
        replica.execute(f"PRAGMA cache_size = {rng.choice([2, 200])}")
        for _ in range(40):
            sql = rng.choice(GROWING)(rng)
            found = outcome(replica, sql)
            if isinstance(found, str) and found.startswith("FullError"):
                full += 1
            else:
                assert found == outcome(plain, sql), f"script {seed}: {sql}"
            assert storage.held_bytes <= 2 * 400 << 10, "pages and, after a failure, the journal"
        assert outcome(replica, "PRAGMA integrity_check") == [("ok",)], f"script {seed}"
        for table in ("t", "flat", "sqlite_schema"):
            columns = "type, name, sql" if table == "sqlite_schema" else "*"
            query = f"SELECT {columns} FROM {table} ORDER BY 1, 2"
            assert outcome(replica, query) == outcome(plain, query), f"script {seed}: {table}"
        assert not storage.failure
        replica.close()
        plain.close()
        copy.unlink()
    assert full > 20
