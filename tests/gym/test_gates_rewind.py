"""The gates: who gets in, who does not and why, and that machinery failures are nobody's verdict."""

from __future__ import annotations

from random import Random

import apsw
import pytest
from rewind_store import make_store

from birdrl.errors import InfraError
from birdrl.gym.instance import FeatureTest, ResultTest, StateTest
from birdrl.gym.rewind.draft import Draft
from birdrl.gym.rewind.gates import GateFailure, Gates, fingerprint
from birdrl.gym.rewind.tree import canonical
from birdrl.rewards.execution import ExecutionScorer
from birdrl.sql.pool import PoolConfig, ReplicaPool


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return make_store(tmp_path_factory.mktemp("store"))


@pytest.fixture(scope="module")
def pool():
    with ReplicaPool(PoolConfig(workers=1, statement_timeout_s=0.5)) as pool:
        yield pool


@pytest.fixture(scope="module")
def gates(store, pool):
    return Gates(store, pool)


def draft(issue: str | list[str], solution: str | list[str], **changes) -> Draft:
    issue = [issue] if isinstance(issue, str) else issue
    solution = [solution] if isinstance(solution, str) else solution
    values = {
        "kind": "test_kind", "family": "test", "category": "query", "db_id": "shop", "source_id": "here",
        "query": "The list of product rows is wrong.", "cause": "Something.", "intent": "Something else.",
        "tests": (ResultTest(),), "perturb_tables": ("product",),
    }  # fmt: skip
    issues, solutions = tuple(map(canonical, issue)), tuple(map(canonical, solution))
    return Draft(**{**values, "issue_sql": issues, "sol_sql": solutions, **changes})


def check(gates, candidate: Draft):
    return gates.check(candidate, gates.view("shop"), Random(3))


GOOD = draft("SELECT product_name FROM product WHERE stock >= 5", "SELECT product_name FROM product WHERE stock > 5")
TOUCH = (StateTest(probe_sql="SELECT * FROM product"),)


def test_a_good_draft_becomes_an_instance(gates):
    instance = check(gates, GOOD)
    assert instance.version == apsw.sqlite_lib_version()
    assert instance.bug is not None
    assert instance.bug.kind == "test_kind"
    assert instance.source == {"rewinder": "taxonomy", "verified_sql": "here"}
    assert len(instance.test_cases) == 2


@pytest.mark.parametrize(
    ("candidate", "reason"),
    [
        (draft("SELECT 1", "SELECT 1"), "same text"),
        # On whole numbers, more than 4 is at least 5: no bug on this data, however it is perturbed.
        (
            draft("SELECT product_id FROM product WHERE stock >= 5", "SELECT product_id FROM product WHERE stock > 4"),
            "gives the solution's result",
        ),
        (draft("SELECT 1", "SELECT product_name FROM product WHERE stock > 1000"), "empty"),
        (draft("SELECT 1", "SELECT MAX(price) FROM product WHERE stock > 1000"), "empty"),
        (draft("SELECT 1", "SELECT no_such_column FROM product"), "does not run"),
        (draft("SELECT 1", "SELECT product_name FROM product ORDER BY RANDOM()"), "chance"),
        (draft("SELECT 1", "SELECT product_name FROM product WHERE added_on < DATE('now')"), "clock"),
        (draft("SELECT 1", "SELECT sale_id FROM sale"), "neither the issue SQL nor the text names"),
        (draft("SELECT 1", f"SELECT product_name FROM product WHERE category <> '{'x' * 330}'"), "longer than"),
        (draft("SELECT 2 FROM product", "SELECT 1 FROM product", query="Wrong."), "words"),
        (
            draft("SELECT stock FROM product", "SELECT price FROM product", query="Use SELECT price FROM product."),
            "gives the solution away",
        ),
        (
            draft("UPDATE product SET stock = 1", "UPDATE product SET stock = stock", tests=TOUCH),
            "changes nothing",
        ),
        (
            draft(
                "SELECT product_name FROM product ORDER BY price",
                "SELECT product_name FROM product ORDER BY price DESC",
                tests=(ResultTest(ordered=True), FeatureTest(required=["window"])),
            ),
            "the solution fails on the first run",
        ),
        (
            draft(
                "SELECT stock + 0 FROM product",
                "SELECT stock FROM product",
                tests=(ResultTest(), FeatureTest(required=["select"])),
            ),
            "the issue passes all tests",
        ),
        (
            draft(
                "SELECT 1",
                "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c) SELECT COUNT(*) FROM c",
            ),
            "more than 20,000,000 steps",
        ),
    ],
)  # fmt: skip
def test_a_bad_draft_is_refused_with_its_reason(gates, candidate, reason):
    with pytest.raises(GateFailure, match=reason):
        check(gates, candidate)


def test_a_constant_answer_fails_the_perturbed_test(gates, store, pool):
    instance = check(gates, GOOD)
    with pool.acquire("constant", store.path("shop")) as lease:
        rows = lease.execute(instance.sol_sql[0])[0].rows
    constant = "VALUES " + ", ".join("('" + row[0] + "')" for row in rows)
    score = ExecutionScorer(store, pool).score(instance, [constant])
    assert (score.passed, score.total) == (1, 2)


def test_state_tests_see_committed_changes_only(gates):
    update = "UPDATE product SET stock = 1 WHERE category = 'Garden'"
    instance = check(
        gates, draft(["BEGIN", update], ["BEGIN", update, "COMMIT"], tests=TOUCH, query="The change is not kept.")
    )  # fmt: skip
    assert {test.kind for test in instance.test_cases} == {"state"}


def test_preprocess_sql_makes_the_work_table(gates):
    copy = "INSERT INTO archive SELECT product_id FROM product"
    candidate = draft(
        copy, f"{copy} WHERE stock = 0", query="The archive should only take product with stock 0.",
        tests=(StateTest(probe_sql="SELECT * FROM archive"),), preprocess_sql=("CREATE TABLE archive (product_id)",),
        clean_up_sql=("DROP TABLE archive",),
    )  # fmt: skip
    assert check(gates, candidate).clean_up_sql == ["DROP TABLE archive"]


def test_fingerprint_tells_duplicates_from_others():
    assert fingerprint(GOOD) == fingerprint(
        draft(list(GOOD.issue_sql), list(GOOD.sol_sql), query="Other words, same bug.")
    )
    assert fingerprint(GOOD) != fingerprint(draft("SELECT 1", list(GOOD.sol_sql)))


def test_failing_machinery_is_not_a_verdict(store):
    pool = ReplicaPool(PoolConfig(workers=1))
    gates = Gates(store, pool)
    view = gates.view("shop")
    pool.close()
    with pytest.raises(InfraError):
        gates.check(GOOD, view, Random(0))
