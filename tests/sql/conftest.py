"""Small template databases and a pool shared by the tests of this folder."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from databases import SCHEMA, build_database

from birdrl.sql import PoolConfig, ReplicaPool


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
