"""Scenes around drafts: what they add, what they leave alone, and that the gates still let the drafts through."""

from __future__ import annotations

from random import Random

import pytest
from rewind_store import make_store

from birdrl.gym.instance import FeatureTest, ResultTest, StateTest
from birdrl.gym.rewind.draft import Draft
from birdrl.gym.rewind.gates import Gates
from birdrl.gym.rewind.scenes import Tally, dress, edge_rows, two_steps, work_copy
from birdrl.gym.rewind.tree import canonical
from birdrl.params import GymRates
from birdrl.sql.pool import PoolConfig, ReplicaPool


@pytest.fixture(scope="module")
def gates(tmp_path_factory):
    store = make_store(tmp_path_factory.mktemp("store"))
    with ReplicaPool(PoolConfig(workers=1)) as pool:
        yield Gates(store, pool)


@pytest.fixture(scope="module")
def view(gates):
    return gates.view("shop")


def draft(issue: str, solution: str, **changes) -> Draft:
    values = {
        "kind": "test_kind", "family": "test", "category": "query", "db_id": "shop", "source_id": "here",
        "query": "The list of product rows is wrong.", "cause": "product is wrong.", "intent": "All of product.",
        "tests": (ResultTest(),), "perturb_tables": ("product",),
    }  # fmt: skip
    return Draft(**{**values, "issue_sql": (canonical(issue),), "sol_sql": (canonical(solution),), **changes})


QUERY = draft(
    "SELECT product.product_name FROM product WHERE product.stock >= 5",
    "SELECT product.product_name FROM product WHERE product.stock > 5",
)
UPDATE = draft(
    "UPDATE product SET stock = 1", "UPDATE product SET stock = 1 WHERE weight = 400", category="management",
    tests=(StateTest(probe_sql="SELECT * FROM product"),),
)  # fmt: skip


def test_edge_rows_change_data_beforehand(gates, view):
    dressed = edge_rows(QUERY, view, Random(1))
    assert 1 <= len(dressed.preprocess_sql) <= 3
    assert all(
        sql.startswith(("UPDATE product", "DELETE FROM product", "INSERT INTO product"))
        for sql in dressed.preprocess_sql
    )
    assert (dressed.issue_sql, dressed.sol_sql) == (QUERY.issue_sql, QUERY.sol_sql)
    assert gates.check(dressed, view, Random(0)).preprocess_sql == list(dressed.preprocess_sql)


@pytest.mark.parametrize("start", [QUERY, UPDATE])
def test_a_work_copy_stands_in_for_a_table_everywhere(gates, view, start):
    dressed = work_copy(start, view, Random(1))
    [make], [drop] = dressed.preprocess_sql, dressed.clean_up_sql
    copy = drop.removeprefix("DROP TABLE IF EXISTS ")
    assert make == f"CREATE TABLE {copy} AS SELECT * FROM product"
    statements = [
        *dressed.issue_sql,
        *dressed.sol_sql,
        *(t.probe_sql for t in dressed.tests if isinstance(t, StateTest)),
    ]
    assert all(
        copy in sql and " product " not in f" {sql} " and "product." not in sql.replace(f"{copy}.", "")
        for sql in statements
    )
    assert dressed.query == f"The list of {copy} rows is wrong."
    assert gates.check(dressed, view, Random(0)).clean_up_sql == [drop]


def test_two_steps_put_rows_aside_first(gates, view):
    dressed = two_steps(QUERY, view, Random(1))
    assert [len(dressed.issue_sql), len(dressed.sol_sql)] == [2, 2]
    assert dressed.issue_sql[0] == dressed.sol_sql[0]
    assert dressed.sol_sql[0].startswith("CREATE TEMP TABLE ")
    assert len(gates.check(dressed, view, Random(0)).sol_sql) == 2


def test_two_steps_make_views_of_ctes(gates, view):
    pattern = "WITH s AS (SELECT * FROM product WHERE stock {} 5) SELECT category, COUNT(*) FROM s GROUP BY category"
    dressed = two_steps(draft(pattern.format(">="), pattern.format(">")), view, Random(1))
    assert dressed.sol_sql == (
        "CREATE TEMP VIEW s AS SELECT * FROM product WHERE stock > 5",
        "SELECT category, COUNT(*) FROM s GROUP BY category",
    )
    assert gates.check(dressed, view, Random(0)).issue_sql == list(dressed.issue_sql)


def test_scenes_leave_alone_what_they_would_break(view):
    upsert = "INSERT INTO product (product_id) VALUES (1) ON CONFLICT (product_id) DO NOTHING"
    assert work_copy(draft("DELETE FROM product", upsert), view, Random(0)) is None
    assert work_copy(draft("BEGIN", "COMMIT"), view, Random(0)) is None
    constrained = draft(QUERY.issue_sql[0], QUERY.sol_sql[0], tests=(ResultTest(), FeatureTest(required=["cte"])))
    assert two_steps(constrained, view, Random(0)) is None
    assert two_steps(UPDATE, view, Random(0)) is None


def test_a_scene_comes_only_when_something_is_lacking(view):
    enough = Tally(instances=10, preprocess=20, clean_up=20, multi_sql=10)
    rates = GymRates(preprocess=0.7, clean_up=0.2, multi_sql=0.1)
    assert dress(QUERY, view, Random(0), enough, rates) is QUERY
    assert dress(QUERY, view, Random(0), Tally(), GymRates()) is QUERY
    assert len(dress(QUERY, view, Random(0), Tally(10, 20, 20, 0), rates).sol_sql) == 2
    assert dress(QUERY, view, Random(0), Tally(10, 20, 0, 10), rates).clean_up_sql
    assert dress(QUERY, view, Random(0), Tally(10, 0, 20, 10), rates).preprocess_sql
