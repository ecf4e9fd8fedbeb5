"""Small template databases and a pool shared by the tests of this folder."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import apsw
import pytest

from birdrl.sql import PoolConfig, ReplicaPool

SCHEMA = """
CREATE TABLE item (id INTEGER PRIMARY KEY, name TEXT NOT NULL, price REAL, stock INTEGER);
INSERT INTO item VALUES (1, 'bolt', 0.5, 100), (2, 'nut', 0.25, 0), (3, 'saw', 19.9, 7), (4, 'tape', NULL, 7);
CREATE TABLE sale (id INTEGER PRIMARY KEY, item_id INTEGER REFERENCES item, day TEXT, amount INTEGER);
INSERT INTO sale VALUES (1, 1, '2024-01-03', 10), (2, 1, '2024-02-01', 5), (3, 3, '2024-02-02', 1);
CREATE INDEX sale_item ON sale (item_id);
"""


def build_database(path: Path, script: str = SCHEMA) -> Path:
    connection = apsw.Connection(str(path))
    connection.execute(script).fetchall()
    connection.close()
    path.chmod(0o444)
    return path


@pytest.fixture(scope="session")
def make_template(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    def make(script: str = SCHEMA) -> Path:
        return build_database(tmp_path_factory.mktemp("templates") / "template.sqlite", script)

    return make


@pytest.fixture(scope="session")
def template(make_template: Callable[..., Path]) -> Path:
    return make_template()


@pytest.fixture(scope="module", params=["overlay", "copy"])
def pool(request: pytest.FixtureRequest) -> Iterator[ReplicaPool]:
    config = PoolConfig(workers=2, statement_timeout_s=1.0, acquire_timeout_s=20.0, strategy=request.param)
    with ReplicaPool(config) as pool:
        yield pool
