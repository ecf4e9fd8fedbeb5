"""A real template store, pool and scorer over the toy shop."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from toy_shop import build_store

from birdrl.gym.templates import TemplateStore
from birdrl.rewards.execution import ExecutionScorer
from birdrl.sql.pool import PoolConfig, ReplicaPool


@pytest.fixture(scope="session")
def store(tmp_path_factory: pytest.TempPathFactory) -> TemplateStore:
    return build_store(tmp_path_factory.mktemp("templates"))


@pytest.fixture(scope="session")
def pool() -> Iterator[ReplicaPool]:
    with ReplicaPool(PoolConfig(workers=2)) as pool:
        yield pool


@pytest.fixture(scope="session")
def scorer(store: TemplateStore, pool: ReplicaPool) -> ExecutionScorer:
    return ExecutionScorer(store, pool)
