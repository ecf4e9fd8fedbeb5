"""A folder with one small database, as people have it, and judges on it."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from birdrl.compare.modes import mode_named
from birdrl.files import sha256_file
from birdrl.gym.database_folder import DatabaseFolder
from birdrl.rewards.gold import GoldStore
from birdrl.scoring.judge import Judge
from birdrl.sql import PoolConfig, ReplicaPool

SCRIPT = """
CREATE TABLE maker (id INTEGER PRIMARY KEY, name TEXT);
CREATE TABLE item (
    id INTEGER PRIMARY KEY, name TEXT NOT NULL, price REAL, stock INTEGER, maker_id INTEGER REFERENCES maker(id)
);
INSERT INTO maker VALUES (1, 'Ada'), (2, 'Bo');
INSERT INTO item VALUES
    (1, 'bolt', 0.5, 100, 1), (2, 'nut', 0.25, 0, 1), (3, 'saw', 19.9, 7, 2), (4, 'tape', NULL, 7, 2),
    (5, 'glue', 3.333, 7, 1);
"""


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("databases")
    (root / "shop").mkdir()
    connection = sqlite3.connect(root / "shop" / "shop.sqlite")
    connection.executescript(SCRIPT)
    connection.close()
    return root


@pytest.fixture(scope="session", autouse=True)
def _no_byte_of_a_database_changes(folder: Path) -> Iterator[None]:
    before = sha256_file(folder / "shop" / "shop.sqlite")
    yield
    assert sha256_file(folder / "shop" / "shop.sqlite") == before
    assert [path.name for path in (folder / "shop").iterdir()] == ["shop.sqlite"]


@pytest.fixture(scope="session")
def databases(folder: Path) -> DatabaseFolder:
    return DatabaseFolder(folder)


@pytest.fixture(scope="module")
def pool() -> Iterator[ReplicaPool]:
    with ReplicaPool(PoolConfig(workers=1, statement_timeout_s=0.5, acquire_timeout_s=20.0)) as pool:
        yield pool


@pytest.fixture(scope="module")
def judge_in(databases: DatabaseFolder, pool: ReplicaPool) -> Iterator[Callable[[str], Judge]]:
    gold = GoldStore(databases, pool)
    judges: dict[str, Judge] = {}

    def get(mode: str) -> Judge:
        if mode not in judges:
            judges[mode] = Judge(mode_named(mode), databases, pool, gold)
        return judges[mode]

    yield get
    for judge in judges.values():
        judge.close()
