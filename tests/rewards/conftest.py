"""A fake template store over one small database, and a scorer on it."""

from __future__ import annotations

from collections.abc import Iterator

import apsw
import pytest
from shop import OneTemplate

from birdrl.rewards import ExecutionScorer
from birdrl.sql import PoolConfig, ReplicaPool

SCHEMA = """
CREATE TABLE item (id INTEGER PRIMARY KEY, name TEXT NOT NULL, price REAL, stock INTEGER);
INSERT INTO item VALUES (1, 'bolt', 0.5, 100), (2, 'nut', 0.25, 0), (3, 'saw', 19.9, 7), (4, 'tape', NULL, 7);
"""


@pytest.fixture(scope="session")
def templates(tmp_path_factory: pytest.TempPathFactory) -> OneTemplate:
    path = tmp_path_factory.mktemp("templates") / "shop.sqlite"
    connection = apsw.Connection(str(path))
    connection.execute(SCHEMA)
    connection.close()
    return OneTemplate(path)


@pytest.fixture(scope="module")
def pool() -> Iterator[ReplicaPool]:
    with ReplicaPool(PoolConfig(workers=1, statement_timeout_s=0.5, acquire_timeout_s=10.0)) as pool:
        yield pool


@pytest.fixture(scope="module")
def scorer(templates: OneTemplate, pool: ReplicaPool) -> ExecutionScorer:
    return ExecutionScorer(templates, pool)
