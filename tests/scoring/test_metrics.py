"""Metrics against worked examples and known values."""

from __future__ import annotations

import math
from itertools import permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from birdrl.compare import ResultTable
from birdrl.scoring.metrics import majority, mean_pass_rate, pass_at_k, success_rate
from birdrl.scoring.r_ves import r_ves, time_reward
from birdrl.scoring.significance import bootstrap_interval, mcnemar_exact
from birdrl.scoring.soft_f1 import soft_f1


def test_success_rate_and_mean_pass_rate() -> None:
    tests = [(2, 2), (1, 2), (0, 1)]
    assert success_rate(tests) == pytest.approx(1 / 3)
    assert mean_pass_rate(tests) == pytest.approx(0.5)
    assert success_rate([(0, 0)]) == 0
    assert success_rate([]) == mean_pass_rate([]) == 0


def test_pass_at_k() -> None:
    assert pass_at_k(16, 4, 4) == pytest.approx(0.728022, abs=1e-6)
    assert pass_at_k(5, 0, 3) == 0
    assert pass_at_k(5, 5, 1) == 1
    assert pass_at_k(4, 3, 2) == 1
    for wrong in ((4, 5, 1), (4, 1, 5), (4, 1, 0)):
        with pytest.raises(ValueError, match="pass@"):
            pass_at_k(*wrong)


def table(*rows: tuple[object, ...]) -> ResultTable:
    return ResultTable.from_rows(rows)


X, Y, Z = table((1, "a"), (2, "b")), table((3,)), table((4,))


@pytest.mark.parametrize(
    ("results", "chosen"),
    [
        ([X, Y, Y, None, X, Y, Z, None], 1),
        ([X, Y, X, Y], 0),
        ([None, None], 0),
        ([None, Z], 1),
        ([Y, table((2, "b"), (1, "a")), X], 1),
        ([Y, table(("a", 1), ("b", 2)), X], 0),
        ([Z, table((1.0,)), table((1,))], 1),
    ],
)
def test_majority(results: list[ResultTable | None], chosen: int) -> None:
    assert majority(results) == chosen


def test_majority_needs_samples() -> None:
    with pytest.raises(ValueError, match="no samples"):
        majority([])


FRUIT = [("Apple", 325), ("Orange", 191), ("Banana", 119)]


@pytest.mark.parametrize(
    ("pred", "gold", "bird", "assigned"),
    [
        ([(2, 1)], [(1, 2)], 1.0, 1.0),
        ([(1, 2, 3)], [(1, 2)], 0.8, 0.8),
        ([(1,)], [(1, 2)], 2 / 3, 2 / 3),
        ([(1, 2), (1, 2)], [(1, 2)], 1.0, 1.0),
        ([(3, 4), (1, 2)], [(1, 2), (3, 4)], 0.0, 1.0),
        ([(1, 1, 1, 1)], [(1, 2)], 0.888889, 1 / 3),
        ([(1, 2)], [], 0.0, 0.0),
        ([], [], 1.0, 1.0),
        ([(1,), (2,), (3,)], [(1,)], 0.5, 0.5),
        ([], [(1,)], 0.0, 0.0),
        ([FRUIT[0], ("Orange",), FRUIT[2]], FRUIT, 0.909091, 0.909091),
        ([(1, 9), (2, 8)], [(2, 8), (1, 7)], 0.0, 0.75),
    ],
)  # fmt: skip
def test_soft_f1(pred: list[tuple[object, ...]], gold: list[tuple[object, ...]], bird: float, assigned: float) -> None:
    assert soft_f1(pred, gold, "bird") == pytest.approx(bird, abs=1e-6)
    assert soft_f1(pred, gold, "assigned") == pytest.approx(assigned, abs=1e-6)


ROWS = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), min_size=1, max_size=4)


@settings(deadline=None, max_examples=100)
@given(ROWS, ROWS)
def test_assigned_is_the_best_over_all_orders(pred: list[tuple[int, int]], gold: list[tuple[int, int]]) -> None:
    """With values that do not repeat within a row, `bird` in the best order of rows is what `assigned` finds."""
    pred = [(a, 10 + b) for a, b in pred]
    gold = [(a, 10 + b) for a, b in gold]
    best = max(soft_f1(list(order), gold, "bird") for order in permutations(dict.fromkeys(pred)))
    assert soft_f1(pred, gold, "assigned") >= best - 1e-9
    assert soft_f1(pred, gold, "assigned") == soft_f1(pred[::-1], gold[::-1], "assigned")
    assert soft_f1(gold, gold, "assigned") == 1


def test_too_many_rows_to_assign_are_refused() -> None:
    with pytest.raises(ValueError, match="rows to assign"):
        soft_f1([(i,) for i in range(4000)], [(-i,) for i in range(1, 4000)], "assigned")
    assert soft_f1([(i,) for i in range(4000)], [(i,) for i in reversed(range(4000))], "assigned") == 1


@pytest.mark.parametrize(
    ("ratio", "reward"), [(4, 1.25), (2, 1.25), (1.5, 1), (1, 1), (0.7, 0.75), (0.5, 0.75), (0.3, 0.5), (0.1, 0.25)]
)
def test_time_rewards(ratio: float, reward: float) -> None:
    assert time_reward([ratio], [1.0]) == reward
    assert time_reward([ratio] * 7, [1.0] * 7) == reward  # no spread: the published filter would leave nothing


def test_outliers_do_not_count() -> None:
    assert time_reward([1.2] * 50 + [100.0], [1.0] * 51) == 1.0
    assert time_reward([0.0], [0.0]) == 1.0
    with pytest.raises(ValueError, match="no timings"):
        time_reward([], [])


def test_r_ves() -> None:
    assert r_ves([1.25, 1, 0]) == pytest.approx(70.60, abs=0.005)
    assert r_ves([1.25]) == pytest.approx(100 * math.sqrt(1.25))
    assert r_ves([]) == 0


@pytest.mark.parametrize(
    ("b", "c", "p"), [(0, 0, 1.0), (5, 5, 1.0), (10, 2, 0.038574), (1, 0, 1.0), (0, 6, 0.03125), (121, 59, 4.4e-6)]
)
def test_mcnemar(b: int, c: int, p: float) -> None:
    assert mcnemar_exact(b, c) == pytest.approx(p, rel=0.02)
    assert mcnemar_exact(c, b) == mcnemar_exact(b, c)


def test_mcnemar_refuses_negative_counts() -> None:
    with pytest.raises(ValueError, match="negative"):
        mcnemar_exact(-1, 2)


def test_bootstrap() -> None:
    low, high = bootstrap_interval([0.0, 1.0] * 50)
    assert 0.38 < low < 0.43
    assert 0.57 < high < 0.62
    assert bootstrap_interval([0.0, 1.0] * 50) == (low, high)
    assert bootstrap_interval([0.25] * 3) == (0.25, 0.25)
    with pytest.raises(ValueError, match="no values"):
        bootstrap_interval([])
