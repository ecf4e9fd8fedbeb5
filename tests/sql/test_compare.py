"""When two result tables are equal."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from birdrl.sql import StatementResult, tables_equal

Rows = list[tuple[Any, ...]]


def table(rows: Rows, columns: int | None = None, **fields: Any) -> StatementResult:
    width = columns if columns is not None else len(rows[0])
    return StatementResult("", "ok", tuple(f"c{i}" for i in range(width)), tuple(rows), **fields)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ([(1,)], [(1.0,)]),
        ([(0.1 + 0.2,)], [(0.3,)]),
        ([(0.0,)], [(-0.0,)]),
        ([(None,)], [(None,)]),
        ([(float("inf"),)], [(float("inf"),)]),
        ([(float("nan"),)], [(None,)]),
        ([(b"x",)], [(b"x",)]),
        ([(2**60,)], [(2**60,)]),
        ([(1,), (2,)], [(2,), (1,)]),
    ],
)
def test_equal_as_multisets(a: Rows, b: Rows) -> None:
    assert tables_equal(table(a), table(b), ordered=False)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ([(1,)], [("1",)]),
        ([("x",)], [(b"x",)]),
        ([(0,)], [(None,)]),
        ([("",)], [(None,)]),
        ([(1,), (1,)], [(1,)]),
        ([(1,), (1,), (2,)], [(1,), (2,), (2,)]),
        ([(1, 2)], [(2, 1)]),
        ([(1,)], [(1, 1)]),
        ([(float("inf"),)], [(-float("inf"),)]),
        ([(0.123456789,)], [(0.12345678,)]),
        ([(2**60,)], [(2**60 + 1,)]),
        ([("a",)], [("A",)]),
    ],
)
def test_different(a: Rows, b: Rows) -> None:
    assert not tables_equal(table(a), table(b), ordered=False)
    assert not tables_equal(table(a), table(b), ordered=True)


def test_order_counts_on_demand() -> None:
    a, b = table([(1,), (2,)]), table([(2,), (1,)])
    assert not tables_equal(a, b, ordered=True)
    assert tables_equal(a, a, ordered=True)


def test_tables_without_rows_are_equal_only_with_as_many_columns() -> None:
    assert tables_equal(table([], 2), table([], 2), ordered=True)
    assert not tables_equal(table([], 2), table([], 1), ordered=False)


def test_what_is_not_a_complete_table_equals_nothing() -> None:
    full = table([(1,)])
    others = [
        StatementResult("", "error", message="no such table: t"),
        StatementResult("", "ok"),
        table([(1,)], truncated=True),
    ]
    for other in others:
        assert not tables_equal(full, other, ordered=False)
        assert not tables_equal(other, other, ordered=False)


VALUES = st.none() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | st.text() | st.binary()


@settings(deadline=None)
@given(st.lists(st.tuples(VALUES, VALUES), min_size=1), st.randoms(use_true_random=False))
def test_any_order_of_the_same_rows_is_equal(rows: Rows, rng: Any) -> None:
    shuffled = list(rows)
    rng.shuffle(shuffled)
    assert tables_equal(table(rows), table(shuffled), ordered=False)
    assert not tables_equal(table(rows), table([*shuffled, rows[0]]), ordered=False)
