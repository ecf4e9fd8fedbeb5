"""Column-set matching: every worked example, the properties, and what guards it against constants."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from shop import make_instance
from tables import FAILED, table

from birdrl.params import CsmrParams
from birdrl.rewards.csmr import csmr, query_value
from birdrl.rewards.execution import Blame, ExecutionScore, ResultPair, TestOutcome
from birdrl.sql.results import StatementResult

G2 = table([("a1", "b1"), ("a2", "b2")])
G3 = table([(1, "x", 10), (2, "y", 20)])


def params(**values: Any) -> CsmrParams:
    return CsmrParams.model_validate(values)


PAPER = params()


@pytest.mark.parametrize(
    ("prediction", "gold", "matched", "reward"),
    [
        ([("a1", "b1"), ("a2", "b2")], G2, 2, 1.0),
        ([("a1", "b2"), ("a2", "b1")], G2, 2, 0.8),  # the paper's pseudo-perfect match
        ([("a1", "b1"), ("a2", "b2")] * 2, G2, 2, 1.0),
        ([("b1", "a1"), ("b2", "a2")], G2, 2, 0.8),
        ([(1, "x"), (2, "y")], G3, 2, 0.8 * 4 / 6),
        ([(1, "q", 11), (2, "r", 21)], G3, 1, 0.8 / 9),
        ([(1, "x", 10, 7), (2, "y", 20, 7)], G3, 3, 0.6),
        ([(1, 9, 9, 9), (2, 9, 9, 9)], table([(1,), (2,)]), 1, 0.2),
        ([(1, 1), (2, 2)], table([(1,), (2,)]), 1, 0.4),
        ([("a1", "b1")], G2, 0, 0.0),  # one row missing empties both columns
    ],
)
def test_worked_examples(prediction: list[Any], gold: StatementResult, matched: int, reward: float) -> None:
    score = csmr(table(prediction), gold, PAPER)
    assert score.reward == pytest.approx(reward, abs=1e-6)
    assert (score.matched, score.predicted, score.gold) == (matched, len(prediction[0]), len(gold.columns))
    assert score.perfect == (reward == 1.0)


def test_published_values_to_six_places() -> None:
    assert round(csmr(table([(1, "x"), (2, "y")]), G3, PAPER).reward, 6) == 0.533333
    assert round(csmr(table([(1, "q", 11), (2, "r", 21)]), G3, PAPER).reward, 6) == 0.088889


@pytest.mark.parametrize("alpha", [0.5, 0.9])
def test_alpha_caps_the_pseudo_perfect(alpha: float) -> None:
    assert csmr(table([("a1", "b2"), ("a2", "b1")]), G2, params(alpha=alpha)).reward == alpha


@pytest.mark.parametrize("alpha", [0, 1, 1.2])
def test_alpha_lies_between_0_and_1(alpha: float) -> None:
    with pytest.raises(ValueError, match="alpha"):
        params(alpha=alpha)


def test_repeated_rows_under_multiset() -> None:
    twice = table([("a1", "b1"), ("a2", "b2")] * 2)
    assert csmr(twice, G2, params(perfect="multiset")).reward == 0.8


def test_row_order_counts_where_it_is_asked_for_and_the_reference_has_one() -> None:
    back = table([("a2", "b2"), ("a1", "b1")])
    assert csmr(back, G2, params(perfect="ordered"), ordered=True).reward == 0.8
    assert csmr(back, G2, params(perfect="ordered"), ordered=False).reward == 1.0
    assert csmr(back, G2, PAPER, ordered=True).reward == 1.0


def test_equal_columns_count_once_with_dedup() -> None:
    assert csmr(table([(1, 1), (2, 2)]), table([(1,), (2,)]), params(dedup_columns=True)).reward == 0.8


def test_tables_without_rows() -> None:
    none = table([], 2)
    assert csmr(none, G2, PAPER).reward == 0.0
    assert csmr(table([("a", "b")]), none, PAPER).reward == 0.0
    assert csmr(none, table([], 2), PAPER).reward == 1.0
    assert csmr(none, table([], 3), PAPER).reward == 0.0
    assert csmr(none, table([], 3), params(bird_compat=True)).reward == 1.0


@pytest.mark.parametrize("prediction", [None, FAILED, StatementResult("UPDATE", "ok", rows_changed=3)])
def test_no_table_earns_nothing(prediction: StatementResult | None) -> None:
    for gold in (G2, table([], 2)):
        assert csmr(prediction, gold, PAPER).reward == 0.0


def test_a_table_that_was_cut_off_is_not_compared() -> None:
    cut = StatementResult("SELECT", "ok", G2.columns, G2.rows, truncated=True)
    assert csmr(cut, G2, PAPER).reward == 0.0
    with pytest.raises(ValueError, match="no complete result table"):
        csmr(G2, cut, PAPER)
    with pytest.raises(ValueError, match="no complete result table"):
        csmr(G2, FAILED, PAPER)


def test_values_compare_by_type() -> None:
    gold = table([(1, 0.1 + 0.2, None, b"x")])
    assert csmr(table([(1.0, 0.3, None, b"x")]), gold, PAPER).reward == 1.0
    assert csmr(table([("1", "0.3", "", "x")]), gold, PAPER).reward == 0.0


# --- properties

VALUES = st.one_of(st.none(), st.integers(-3, 3), st.sampled_from([0.5, 1.0, -0.0, float("inf")]), st.text(max_size=2))


@st.composite
def tables(draw: st.DrawFn) -> StatementResult:
    width = draw(st.integers(1, 4))
    return table(draw(st.lists(st.tuples(*[VALUES] * width), max_size=5)), width)


@given(tables(), tables(), st.sampled_from(["bird", "multiset", "ordered"]), st.booleans(), st.booleans())
def test_bounds(p: StatementResult, g: StatementResult, perfect: str, dedup: bool, ordered: bool) -> None:
    score = csmr(p, g, params(perfect=perfect, dedup_columns=dedup), ordered=ordered)
    assert score.reward == 1.0 if score.perfect else 0.0 <= score.reward <= 0.8
    assert 0 <= score.matched <= min(score.predicted, score.gold)


@given(tables())
def test_the_reference_itself_is_perfect(g: StatementResult) -> None:
    assert csmr(g, g, PAPER).reward == 1.0


@given(tables(), tables(), st.randoms(use_true_random=False))
def test_rows_may_be_permuted_and_repeated(p: StatementResult, g: StatementResult, rng: random.Random) -> None:
    rows = [*p.rows, *rng.choices(p.rows, k=2)] if p.rows else []
    rng.shuffle(rows)
    assert csmr(table(rows, len(p.columns)), g, PAPER) == csmr(p, g, PAPER)


@given(tables(), tables(), st.randoms(use_true_random=False))
def test_columns_may_be_permuted_once_not_perfect(p: StatementResult, g: StatementResult, rng: random.Random) -> None:
    order = rng.sample(range(len(p.columns)), len(p.columns))
    permuted = table([[row[i] for i in order] for row in p.rows], len(p.columns))
    before, after = csmr(p, g, PAPER), csmr(permuted, g, PAPER)
    if not before.perfect and not after.perfect:
        assert after.reward == before.reward


@given(tables(), tables())
def test_a_column_that_matches_nothing_costs(p: StatementResult, g: StatementResult) -> None:
    before = csmr(p, g, PAPER)
    wider = csmr(table([(*row, "no gold column has this") for row in p.rows], len(p.columns) + 1), g, PAPER)
    if before.matched and not before.perfect:
        assert wider.matched == before.matched
        assert wider.reward < before.reward


@given(tables(), tables())
def test_matching_is_symmetric(p: StatementResult, g: StatementResult) -> None:
    assert csmr(p, g, PAPER).reward == csmr(g, p, PAPER).reward


# --- the value of a query over the databases of an instance's tests


def value(*pairs: tuple[Any, Any], passed: int = 0, status: str = "ok", kind: str = "result", every: bool) -> float:
    """Phi with one test per pair of tables, each on a database of its own, of which the first `passed` pass."""
    more = {"state": {"probe_sql": "SELECT 1"}, "feature": {"required": ["select"]}}.get(kind, {})
    setups = [{} if kind == "feature" else {"setup_sql": ["x"] * number} for number in range(len(pairs))]
    instance = make_instance(test_cases=[{"kind": kind, **more, **setup} for setup in setups])
    tests = tuple(TestOutcome(number, kind, number < passed, "") for number in range(len(pairs)))
    results = tuple(ResultPair(("x",) * number, p, g) for number, (p, g) in enumerate(pairs))
    score = ExecutionScore(passed / len(pairs), passed, len(pairs), tests, Blame.POLICY, "", status, results)
    return query_value(instance, score, PAPER, every_database=every)


SAME = (G2, G2)


def test_a_constant_earns_nothing_where_a_test_changes_the_database() -> None:
    constant = (table([(3,)]), table([(3,)])), (table([(3,)]), table([(4,)]))
    assert value(*constant, passed=1, every=True) == 0.0
    assert value(*constant, passed=1, every=False) == 1.0, "the paper's comparison looks at one database"


def test_perfect_means_that_all_tests_pass() -> None:
    assert value(SAME, SAME, passed=2, every=True) == 1.0
    assert value(SAME, SAME, passed=1, every=True) == 0.8, "same tables, but a test asks for more"
    assert value(SAME, SAME, passed=1, every=False) == 1.0
    partly = (table([("a1", "z"), ("a2", "z")]), G2)
    assert value(SAME, partly, passed=1, every=True) == pytest.approx(0.2)


def test_where_results_do_not_count_it_is_the_share_of_tests() -> None:
    nothing = (None, None)
    assert value(nothing, nothing, passed=1, kind="state", every=False) == 0.5
    assert value(nothing, nothing, passed=1, kind="state", every=True) == 0.0, "one test, tried on two databases"
    assert value(SAME, SAME, passed=1, kind="state", every=False) == 0.5
    assert value(nothing, passed=1, kind="feature", every=True) == 1.0


def test_a_query_that_does_not_run_has_no_value() -> None:
    assert value((None, G2), status="error", every=False) == 0.0
    assert value(SAME, (None, G2), passed=1, every=True) == 0.0, "it fails on the changed database"
