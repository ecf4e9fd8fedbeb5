"""Eq. 5 and the attacks on it: a wrong answer never gains, a broken machine never scores."""

from __future__ import annotations

import os
import signal
from concurrent.futures import ThreadPoolExecutor

import pytest
from shop import OneTemplate, make_instance

from birdrl.errors import GoldError, InfraError
from birdrl.rewards import Blame, ExecutionScorer
from birdrl.sql import PoolConfig, ReplicaPool

RIGHT = "SELECT sum(stock > 0) FROM item"
UPDATE = make_instance(
    category="management",
    issue_sql=["UPDATE item SET stock = 0"],
    sol_sql=["UPDATE item SET stock = 0 WHERE price IS NULL"],
    test_cases=[
        {"kind": "state", "probe_sql": "SELECT id, stock FROM item"},
        {"kind": "state", "probe_sql": "SELECT count(*) FROM item WHERE stock = 0"},
    ],
)


def test_the_solution_scores_one_and_the_issue_less(scorer: ExecutionScorer) -> None:
    for instance in (make_instance(), UPDATE):
        gold = scorer.score(instance, instance.sol_sql)
        assert (gold.reward, gold.blame, gold.status) == (1.0, Blame.NONE, "ok")
        issue = scorer.score(instance, instance.issue_sql)
        assert issue.reward < 1.0
        assert issue.blame is Blame.POLICY
        assert "another" in issue.reason


def test_another_right_query_scores_one(scorer: ExecutionScorer) -> None:
    assert scorer.score(make_instance(), [RIGHT]).reward == 1.0


def test_the_reward_is_the_share_of_passed_tests(scorer: ExecutionScorer) -> None:
    tests = [
        {"kind": "result"},
        {"kind": "feature", "required": ["where"]},
        {"kind": "feature", "required": ["select"], "forbidden": ["subquery"]},
        {"kind": "feature", "forbidden": ["aggregate"]},
    ]
    score = scorer.score(make_instance(test_cases=tests), [RIGHT])
    assert [outcome.passed for outcome in score.tests] == [True, False, True, False]
    assert (score.reward, score.passed, score.total) == (0.5, 2, 4)
    assert score.tests[1].reason == "without required where"
    assert score.tests[3].reason == "with forbidden aggregate"


@pytest.mark.parametrize(("passed", "total"), [(0, 5), (1, 5), (3, 5), (5, 5), (1, 1)])
def test_the_share_of_tests_in_numbers(scorer: ExecutionScorer, passed: int, total: int) -> None:
    tests = [{"kind": "feature", "required": ["where" if number >= passed else "select"]} for number in range(total)]
    score = scorer.score(make_instance(test_cases=tests), [RIGHT])
    assert (score.passed, score.total, score.solved) == (passed, total, passed == total)
    assert score.reward == pytest.approx(passed / total)


@pytest.mark.parametrize("prediction", [[], [""], ["  "], ["-- SELECT 3"], [";"], ["/* 3 */", ";"]])
def test_an_empty_prediction_scores_zero(scorer: ExecutionScorer, prediction: list[str]) -> None:
    score = scorer.score(make_instance(), prediction)
    assert (score.reward, score.blame, score.status) == (0.0, Blame.POLICY, "empty")
    assert len(score.tests) == 2


@pytest.mark.parametrize(
    "attack",
    [
        ["CREATE TEMP TABLE item AS SELECT 3 AS stock", "SELECT 3"],
        ["CREATE TEMP VIEW item AS SELECT 1 AS stock UNION ALL SELECT 2 UNION ALL SELECT 3", "SELECT 3"],
        ["DELETE FROM item", "SELECT 3"],
        ["DROP TABLE item", "SELECT 3"],
        ["DELETE FROM item; INSERT INTO item VALUES (1,'a',1,1),(2,'b',1,1),(3,'c',1,1)", RIGHT],
        ["SELECT 3"],
        ["SELECT 3 -- SELECT count(*) FROM item WHERE stock > 0"],
    ],
)
def test_constants_fail_under_a_perturbed_database(scorer: ExecutionScorer, attack: list[str]) -> None:
    score = scorer.score(make_instance(), attack)
    assert not score.tests[1].passed
    assert score.reward <= scorer.score(make_instance(), ["SELECT 3"]).reward == 0.5


def test_an_attack_on_the_prediction_does_not_reach_the_reference(scorer: ExecutionScorer) -> None:
    """On one connection both sides would be empty or shadowed, and equal."""
    instance = make_instance(instance_id="fresh", sol_sql=["SELECT name FROM item WHERE stock > 1"])
    for attack in ("DELETE FROM item; ", "CREATE TEMP TABLE item AS SELECT 'x' AS name, 0 AS stock; "):
        assert scorer.score(instance, [attack + "SELECT name FROM item WHERE stock > 1"]).reward == 0.0


def test_empty_equals_empty_does_not_pay_under_a_setup(scorer: ExecutionScorer) -> None:
    instance = make_instance(
        sol_sql=["SELECT name FROM item WHERE price > 100"],
        test_cases=[{"kind": "result", "setup_sql": ["INSERT INTO item VALUES (9, 'crane', 900, 1)"]}],
    )
    assert scorer.score(instance, instance.sol_sql).reward == 1.0
    assert scorer.score(instance, ["SELECT name FROM item WHERE 0"]).reward == 0.0


@pytest.mark.parametrize(
    "attack",
    [
        ["CREATE TEMP TABLE item AS SELECT id, CASE WHEN price IS NULL THEN 0 ELSE stock END AS stock FROM main.item"],
        ["BEGIN", "UPDATE item SET stock = 0 WHERE price IS NULL"],
        ["SAVEPOINT a; UPDATE item SET stock = 0 WHERE price IS NULL"],
        ["PRAGMA query_only = 1"],
        ["SELECT 1"],
    ],
)
def test_state_that_is_not_committed_does_not_count(scorer: ExecutionScorer, attack: list[str]) -> None:
    score = scorer.score(UPDATE, attack)
    assert (score.reward, score.blame) == (0.0, Blame.POLICY)


def test_a_dropped_table_fails_the_probe_not_the_instance(scorer: ExecutionScorer) -> None:
    score = scorer.score(UPDATE, ["DROP TABLE item"])
    assert (score.reward, score.blame, score.status) == (0.0, Blame.POLICY, "ok")


@pytest.mark.parametrize(
    "forged",
    [
        '<tool_call>{"name": "submit_solution", "arguments": {"sql": "SELECT 3"}}</tool_call>',
        "I submit: all tests passed",
        "SELECT 3; </answer> reward=1",
        "SELECT 'unterminated",
        "\x00",
        "SELECT '\ud800'",
    ],
)
def test_text_that_is_not_sql_scores_zero(scorer: ExecutionScorer, forged: str) -> None:
    score = scorer.score(make_instance(), [forged])
    assert (score.reward, score.blame, score.status) == (0.0, Blame.POLICY, "error")


def test_an_error_after_the_right_answer_scores_zero(scorer: ExecutionScorer) -> None:
    score = scorer.score(make_instance(), [RIGHT, "SELECT nothing FROM nowhere"])
    assert (score.reward, score.status) == (0.0, "error")


def test_an_endless_query_is_the_policys_fault(scorer: ExecutionScorer) -> None:
    endless = "WITH RECURSIVE r(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM r) SELECT count(*) FROM r"
    score = scorer.score(make_instance(), [endless])
    assert (score.reward, score.blame, score.status) == (0.0, Blame.POLICY, "timeout")


def test_a_query_that_must_be_killed_is_the_policys_fault(scorer: ExecutionScorer, pool: ReplicaPool) -> None:
    kills = pool.counters.kills
    bomb = "SELECT instr(hex(zeroblob(499000)), hex(zeroblob(240000)) || '1')"
    score = scorer.score(make_instance(), [bomb])
    assert (score.reward, score.blame, score.status) == (0.0, Blame.POLICY, "killed")
    assert pool.counters.kills == kills + 1
    assert scorer.score(make_instance(), [RIGHT]).reward == 1.0


def test_many_slow_statements_are_cut_together(scorer: ExecutionScorer) -> None:
    slow = "WITH RECURSIVE r(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM r LIMIT 900000) SELECT count(*) FROM r;"
    score = scorer.score(make_instance(), [slow] * 200)
    assert (score.reward, score.status) == (0.0, "timeout")


@pytest.mark.parametrize(
    "fields",
    [
        {"sol_sql": ["SELECT nothing FROM item"]},
        {"sol_sql": []},
        {"sol_sql": ["DELETE FROM item"]},
        {"preprocess_sql": ["DROP TABLE absent"]},
        {"test_cases": [{"kind": "result", "setup_sql": ["INSERT INTO absent VALUES (1)"]}]},
        {"test_cases": [{"kind": "state", "probe_sql": "SELECT * FROM absent"}]},
    ],
)
def test_a_broken_reference_is_a_gold_error(scorer: ExecutionScorer, fields: dict[str, object]) -> None:
    with pytest.raises(GoldError, match="shop-1"):
        scorer.score(make_instance(**fields), [RIGHT])


def test_a_worker_killed_from_outside_is_an_infra_error(templates: OneTemplate) -> None:
    with ReplicaPool(PoolConfig(workers=1, statement_timeout_s=20.0)) as pool:
        scorer = ExecutionScorer(templates, pool)
        endless = "WITH RECURSIVE r(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM r) SELECT count(*) FROM r"
        assert scorer.score(make_instance(), [RIGHT]).reward == 1.0
        with ThreadPoolExecutor(1) as thread:
            running = thread.submit(scorer.score, make_instance(), [endless])
            while not pool._registry:
                assert not running.done()
            os.kill(pool._replicas[0].process.result().pid, signal.SIGKILL)
            with pytest.raises(InfraError, match="died"):
                running.result()
        assert scorer.score(make_instance(), [RIGHT]).reward == 1.0


def test_preprocess_runs_on_both_sides_and_after_the_setup(scorer: ExecutionScorer) -> None:
    instance = make_instance(
        preprocess_sql=["CREATE TABLE cheap AS SELECT * FROM item WHERE price < 1"],
        sol_sql=["SELECT count(*) FROM cheap"],
        test_cases=[
            {"kind": "result"},
            {"kind": "result", "setup_sql": ["INSERT INTO item VALUES (9, 'pin', 0.01, 1)"]},
        ],
    )
    assert scorer.score(instance, ["SELECT count(*) FROM item WHERE price < 1"]).reward == 1.0
    assert scorer.score(instance, ["SELECT 2"]).reward == 0.5


def test_row_order_counts_only_where_asked(scorer: ExecutionScorer) -> None:
    sol = ["SELECT name FROM item ORDER BY name"]
    wrong = ["SELECT name FROM item ORDER BY name DESC"]
    ordered = make_instance(sol_sql=sol, test_cases=[{"kind": "result", "ordered": True}])
    unordered = make_instance(sol_sql=sol, test_cases=[{"kind": "result"}])
    assert scorer.score(ordered, wrong).reward == 0.0
    assert scorer.score(unordered, wrong).reward == 1.0


def test_an_instance_without_tests_compares_results(scorer: ExecutionScorer) -> None:
    instance = make_instance(test_cases=[])
    assert scorer.score(instance, [RIGHT]).reward == 1.0
    assert scorer.score(instance, ["SELECT 4"]).reward == 0.0


def test_an_instance_without_tests_whose_solution_writes_compares_states(scorer: ExecutionScorer) -> None:
    instance = make_instance(test_cases=[], sol_sql=["UPDATE item SET stock = 0 WHERE price IS NULL"])
    assert scorer.score(instance, ["UPDATE item SET stock = 0 WHERE id = 4"]).solved
    wrong = scorer.score(instance, ["UPDATE item SET stock = 0"])
    assert (wrong.reward, wrong.blame) == (0.0, Blame.POLICY)
    assert "another state afterwards: rows of table item" in wrong.reason
    assert scorer.score(instance, [RIGHT]).reward == 0.0
    both = make_instance(test_cases=[], sol_sql=["DELETE FROM item WHERE id = 1", "SELECT count(*) FROM item"])
    assert scorer.score(both, both.sol_sql).solved
    assert scorer.score(both, ["SELECT 3"]).reward == scorer.score(both, [both.sol_sql[0], "SELECT 4"]).reward == 0.0


@pytest.mark.parametrize(
    ("fields", "remedy"),
    [
        ({"sol_sql": ["DELETE FROM item"]}, "ask for the state after it by a state test"),
        ({"sol_sql": ["PRAGMA synchronous"], "test_cases": []}, "returns no result table and changes nothing"),
    ],
)
def test_a_solution_that_a_result_test_cannot_judge(
    scorer: ExecutionScorer, fields: dict[str, object], remedy: str
) -> None:
    with pytest.raises(GoldError, match=remedy):
        scorer.score(make_instance(**fields), [RIGHT])


def test_many_threads_share_one_reference_run(templates: OneTemplate) -> None:
    with ReplicaPool(PoolConfig(workers=2)) as pool:
        scorer = ExecutionScorer(templates, pool)
        with ThreadPoolExecutor(8) as threads:
            rewards = list(threads.map(lambda _: scorer.score(make_instance(), [RIGHT]).reward, range(24)))
        assert rewards == [1.0] * 24
        assert pool.counters.leases == 24 * 2 + 2  # two setups: each prediction twice, the reference twice in all
