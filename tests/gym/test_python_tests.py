"""Our tests as public Python: the solution passes them and the issue does not, in the sandbox that runs such tests."""

from __future__ import annotations

from random import Random

import pytest
from rewind_store import make_store

from birdrl.errors import InputError
from birdrl.formats.python_tests import with_python_tests
from birdrl.gym.instance import PythonTest, StateTest
from birdrl.gym.rewind import KINDS, apply_construction, apply_mutation
from birdrl.gym.rewind.draft import Bench
from birdrl.gym.rewind.gates import GateFailure, Gates
from birdrl.gym.rewind.scenes import two_steps
from birdrl.gym.rewind.tree import parse
from birdrl.gym.rewind.words import Words
from birdrl.rewards.execution import ExecutionScorer
from birdrl.sql.pool import PoolConfig, ReplicaPool


@pytest.fixture(scope="module")
def tools(tmp_path_factory):
    store = make_store(tmp_path_factory.mktemp("store"))
    with ReplicaPool(PoolConfig(workers=1)) as pool:
        scorer = ExecutionScorer(store, pool)
        yield Gates(store, pool), scorer
        scorer.close()


def instance(gates: Gates, kind: str, sql: str = "", scene=None):
    view = gates.view("shop")
    for seed in range(30):
        rng = Random(seed)
        bench = Bench(view, Words(view.schema, rng), rng)
        made = KINDS[kind]
        draft = apply_mutation(made, bench, parse(sql), "here") if made.mutate else apply_construction(made, bench)
        if draft is not None and scene is not None:
            draft = scene(draft, view, rng)
        if draft is None:
            continue
        try:
            return replace_id(gates.check(draft, view, Random(0)), kind)
        except GateFailure:
            continue
    raise AssertionError(f"no {kind}")


def replace_id(found, kind: str):
    return found.model_copy(update={"instance_id": kind})


CASES = [
    ("comparison_boundary", "SELECT product_name FROM product WHERE stock > 5", None),
    ("sort_direction", "SELECT product_name FROM product ORDER BY price DESC LIMIT 3", None),
    ("comparison_boundary", "SELECT product_name FROM product WHERE stock > 5", two_steps),
    ("update_all_rows", "", None),
    ("archive_after_delete", "", None),
    ("rank_ties", "", None),
    ("function_hides_index", "", None),
    ("index_column_order", "", None),
    ("trigger_all_rows", "", None),
]


@pytest.mark.parametrize(("kind", "sql", "scene"), CASES)
def test_python_judges_as_our_tests_do(tools, kind, sql, scene):
    gates, scorer = tools
    ours = instance(gates, kind, sql, scene)
    public = with_python_tests(ours, scorer.gold)
    assert public.test_cases
    assert all(isinstance(test, PythonTest) for test in public.test_cases)
    gold = scorer.score(public, public.sol_sql)
    assert (gold.reward, gold.reason) == (1.0, "")
    assert scorer.score(public, public.issue_sql).reward < 1.0


def test_python_tests_stay_as_they_are(tools):
    gates, scorer = tools
    public = with_python_tests(instance(gates, "update_all_rows"), scorer.gold)
    assert with_python_tests(public, scorer.gold).test_cases == public.test_cases


def test_an_instance_without_any_public_test_is_refused(tools):
    gates, scorer = tools
    ours = instance(gates, "update_all_rows")
    perturbed = [t for t in ours.test_cases if isinstance(t, StateTest) and t.setup_sql]
    if not perturbed:
        perturbed = [replace_setup(ours.test_cases[0])]
    with pytest.raises(InputError, match="none of its tests can be written in Python"):
        with_python_tests(ours.model_copy(update={"test_cases": perturbed}), scorer.gold)


def replace_setup(test):
    return test.model_copy(update={"setup_sql": ["SELECT 1"]})
