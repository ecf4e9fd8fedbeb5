"""The gym benchmark runs, and its baseline makes the same issues; nothing here looks at a clock."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import gym
from benchmarks._fresh_copies import FreshCopies
from birdrl.files import read_json
from birdrl.gym.domains import DOMAINS
from birdrl.gym.rewind.gates import Gates
from birdrl.gym.rewind.rewinder import DatabaseRewinder
from birdrl.gym.templates import TemplateStore
from birdrl.gym.verified import generate_verified
from birdrl.params import GymParams, TemplatesParams
from birdrl.sql.pool import PoolConfig, ReplicaPool
from birdrl.stages.templates import build_templates


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> TemplateStore:
    folder = tmp_path_factory.mktemp("templates")
    others = [db_id for db_id in DOMAINS if db_id != "museum"]
    build_templates(folder, TemplatesParams(scale=0.2, skip=others), seed=1)
    return TemplateStore(folder)


def test_the_naive_build_makes_the_same_issues(store: TemplateStore) -> None:
    params = GymParams(train_instances=8, eval_instances=0)
    verified = generate_verified(store, "museum", 1, 40)
    made = []
    with ReplicaPool(PoolConfig(workers=1, statement_timeout_s=30, max_rows=5000)) as pool:
        naive = FreshCopies(pool.config)
        for one in (pool, naive.as_pool()):
            gates = Gates(store, one)
            rewinder = DatabaseRewinder(gates, gates.view("museum"), verified, params, 3)
            made.append(rewinder.extend({"query": 5, "management": 2, "personalization": 1}).accepted)
            gates.close()
        assert naive.leases > 8
        naive.close()
    assert made[0] == made[1]
    assert len(made[0]) == 8


def test_it_runs_and_writes_its_figures(tmp_path: Path) -> None:
    assert gym.main(["--quick", "--sizes", "28", "--no-plot", "--out", str(tmp_path)]) == 0
    result = read_json(tmp_path / "gym.json")
    [build] = result["builds"]
    assert (build["issues"], result["databases"]) == (28, len(DOMAINS))
    assert all(value > 0 for value in result["stages"].values())
    assert build["rate_naive"] > 0
    assert "| issues | 2 processes |" in (tmp_path / "gym.md").read_text()
