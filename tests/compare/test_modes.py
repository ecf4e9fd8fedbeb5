"""What each comparison mode says about values, rows, columns, order and empty tables."""

from __future__ import annotations

import math
import sqlite3
from datetime import date, datetime
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from birdrl.compare import MODES, Criteria, ResultTable, counted_statements, mode_named
from birdrl.errors import InputError
from birdrl.sql.results import PolicySqlError, StatementResult

TYPED = ("multiset", "ordered", "critic_strict")
EXACT = ("bird", "spider")
ALL = tuple(MODES)


def table(*rows: tuple[object, ...], width: int = 1) -> ResultTable:
    return ResultTable.from_rows(rows, None if rows else [f"c{i}" for i in range(width)])


def says(mode: str, pred: ResultTable, gold: ResultTable, **criteria: bool) -> bool:
    return mode_named(mode).equal(pred, gold, Criteria(**criteria))


@pytest.mark.parametrize("mode", ALL)
@pytest.mark.parametrize(
    ("a", "b"),
    [(1, 1.0), (True, 1), (0.0, -0.0), (math.inf, math.inf), (None, None), (b"x", b"x"), (2**60, 2**60), ("é", "é")],
)
def test_equal_in_every_mode(mode: str, a: object, b: object) -> None:
    assert says(mode, table((a,)), table((b,)))


@pytest.mark.parametrize("mode", ALL)
@pytest.mark.parametrize(
    ("a", "b"),
    [(1, "1"), ("x", b"x"), (0, None), ("", None), (math.inf, -math.inf), ("a", "A"), (2**60, 2**60 + 1), ("a", "a ")],
)
def test_different_in_every_mode(mode: str, a: object, b: object) -> None:
    assert not says(mode, table((a,)), table((b,)))


@pytest.mark.parametrize(
    ("a", "b", "equal_in"),
    [
        (0.1 + 0.2, 0.3, {*TYPED, "critic_compat"}),
        (0.004, 0.0, {"critic_compat"}),
        (1 / 3, 0.33, {"critic_compat"}),
        (0.12345678901, 0.12345678902, {*TYPED, "critic_compat"}),
        (1.0000001, 1.0, {"critic_compat"}),
    ],
)
def test_floats(a: float, b: float, equal_in: set[str]) -> None:
    assert {mode for mode in ALL if says(mode, table((a,)), table((b,)))} == equal_in


def test_values_of_other_origin_take_sqlites_types() -> None:
    made = table((date(2024, 2, 3), datetime(2024, 2, 3, 4, 5), Decimal("1.5"), True, bytearray(b"x")))
    assert made.rows == (("2024-02-03", "2024-02-03 04:05:00", 1.5, 1, b"x"),)
    assert type(made.rows[0][3]) is int
    with pytest.raises(TypeError, match="list"):
        table(([1],))
    with pytest.raises(ValueError, match="row 2 has 1 values"):
        table((1, 2), (1,))


A1, A2, B1 = ("a", 1), ("a", 2), ("b", 1)


@pytest.mark.parametrize(
    ("pred", "gold", "equal_in"),
    [
        (table(A1, B1), table(B1, A1), set(ALL)),
        (table(A1, A1, B1), table(A1, B1), {"bird", "critic_compat"}),
        (table(A1, A1, B1), table(A1, B1, B1), {"bird", "critic_compat"}),
        (table((1,), (1,)), table((1,)), {"bird", "critic_compat"}),
        (table((1, "a")), table(("a", 1)), {"spider"}),
        (table(A1), table(("a", 1, 1)), set()),
        (table(A1), table(A1, B1), set()),
        (table(("a", 2), ("b", 1)), table(("a", 1), ("b", 2)), set()),
        (table(), table(), {"bird", "spider", "multiset", "ordered"}),
        (table(width=2), table(width=3), {"bird", "spider"}),
        (table(), table((None,)), set()),
        (table((None,)), table((1,)), set()),
    ],
)
def test_rows_and_columns(pred: ResultTable, gold: ResultTable, equal_in: set[str]) -> None:
    assert {mode for mode in ALL if says(mode, pred, gold)} == equal_in


def test_a_list_where_order_counts() -> None:
    ascending, descending = table((1,), (2,)), table((2,), (1,))
    assert all(says(mode, descending, ascending) for mode in ALL)
    for mode in ("ordered", "spider", "critic_compat", "critic_strict"):
        assert not says(mode, descending, ascending, ordered=True)
        assert says(mode, ascending, ascending, ordered=True)
    assert says("bird", descending, ascending, ordered=True)


def test_the_difference_is_told() -> None:
    gold = table(A1, B1)
    told = {name: mode.difference(table(A1), gold, Criteria()) for name, mode in MODES.items()}
    assert set(told.values()) == {"1 rows instead of 2"}
    assert MODES["ordered"].difference(table((2,), (1,)), table((1,), (2,)), Criteria(ordered=True)) == (
        "another order of rows"
    )


@pytest.mark.parametrize(
    ("gold", "ordered", "spider"),
    [
        ("SELECT a FROM t ORDER BY a", True, True),
        ("SELECT a FROM t order\n by a", True, False),
        ("SELECT a FROM (SELECT a FROM t ORDER BY a)", False, True),
        ("SELECT row_number() OVER (ORDER BY a) FROM t", False, True),
        ("SELECT group_concat(a ORDER BY a) FROM t", False, True),
        ("SELECT 'x ORDER BY y' FROM t -- ORDER BY a", False, True),
        ("WITH q AS (SELECT a FROM t ORDER BY a LIMIT 3) SELECT a FROM q UNION SELECT 1 ORDER BY 1;", True, True),
        ('SELECT a AS "order", b AS by FROM t', False, False),
        ("SELECT a FROM t ORDER BY a; SELECT b FROM t", False, True),
    ],
)
def test_when_order_counts(gold: str, ordered: bool, spider: bool) -> None:
    assert MODES["ordered"].criteria([], [gold], {}).ordered is ordered
    assert MODES["spider"].criteria([], [gold], {}).ordered is spider
    for name in ("bird", "multiset", "critic_strict", "critic_compat"):
        assert not MODES[name].criteria([], [gold], {}).ordered
    for name in ("critic_strict", "critic_compat"):
        assert MODES[name].criteria([], [gold], {"order": True}).ordered


def test_strict_forgives_duplicates_only_where_a_side_is_distinct() -> None:
    strict = MODES["critic_strict"]
    plain, distinct = "SELECT a, b FROM t", "SELECT DISTINCT a, b FROM t"
    twice, once = table(A1, A1), table(A1)
    assert not strict.equal(twice, once, strict.criteria([plain], [plain], {}))
    assert strict.equal(twice, once, strict.criteria([plain], [distinct], {}))
    assert strict.equal(once, twice, strict.criteria([distinct], [plain], {}))
    inner = "SELECT COUNT(DISTINCT a), b FROM (SELECT DISTINCT a FROM t)"
    assert not strict.criteria([inner], [plain], {}).as_set
    assert strict.criteria(["SELECT a FROM t UNION SELECT a FROM u"], [plain], {}).as_set
    assert not strict.criteria(["SELECT a FROM t UNION ALL SELECT a FROM u"], [plain], {}).as_set


def test_empty_tables_match_in_strict_only_on_request() -> None:
    strict = MODES["critic_strict"]
    assert not strict.equal(table(), table(), strict.criteria([], [], {}))
    assert strict.equal(table(), table(), strict.criteria([], [], {"empty_matches": True}))
    assert not strict.equal(table(), table((1,)), strict.criteria([], [], {"empty_matches": True}))


@pytest.mark.parametrize(
    ("mode", "sql", "counted"),
    [
        ("multiset", "SELECT 1; SELECT 2", ["SELECT 1; SELECT 2"]),
        ("spider", "SELECT 1; SELECT 2", ["SELECT 1;"]),
        ("spider", "SELECT 1;; SELECT 2", ["SELECT 1;"]),
        ("critic_compat", "SELECT 1; -- done", ["SELECT 1;"]),
        ("bird", "SELECT ';' -- ;\n;", ["SELECT ';' -- ;\n;"]),
        ("bird", "; ;SELECT 1", ["SELECT 1"]),
        ("bird", "/* ; */ SELECT 1; -- done", ["SELECT 1;"]),
        ("bird", " ; -- nothing", []),
    ],
)
def test_which_statements_count(mode: str, sql: str, counted: list[str]) -> None:
    assert counted_statements(mode_named(mode), [sql]) == counted


def test_bird_takes_one_statement() -> None:
    with pytest.raises(PolicySqlError, match="holds 2"):
        counted_statements(mode_named("bird"), ["SELECT 1", "SELECT 2"])


def test_critic_compat_takes_one_statement_in_a_text() -> None:
    assert counted_statements(mode_named("critic_compat"), ["SELECT 1;", "SELECT 2"]) == ["SELECT 1;", "SELECT 2"]
    with pytest.raises(PolicySqlError, match="after it comes: SELECT 2"):
        counted_statements(mode_named("critic_compat"), ["SELECT 1; SELECT 2"])


@settings(deadline=None, max_examples=100)
@given(st.lists(st.sampled_from(["SELECT 1", "SELECT ';'", ";", ";", " ", "-- ;\n", "/* ; */", "\n"]), max_size=7))
def test_bird_refuses_what_the_standard_librarys_driver_refuses(pieces: list[str]) -> None:
    """BIRD's evaluators hand the text to `sqlite3`, which takes one statement and no second semicolon."""
    sql = "".join(pieces)
    try:
        rows: list[tuple[object, ...]] | None = sqlite3.connect(":memory:").execute(sql).fetchall()
    except sqlite3.ProgrammingError:
        rows = None
    except sqlite3.OperationalError:  # two statements without a semicolon between them
        return
    try:
        counted = counted_statements(mode_named("bird"), [sql])
    except PolicySqlError:
        assert rows is None
    else:
        assert rows is not None
        assert len(counted) == len(rows)


def test_an_unknown_mode_names_the_known() -> None:
    with pytest.raises(InputError, match="multiset"):
        mode_named("exact")


def test_only_complete_tables_compare() -> None:
    with pytest.raises(ValueError, match="row or byte limit"):
        ResultTable.of(StatementResult("SELECT 1", "ok", ("a",), ((1,),), truncated=True))
    with pytest.raises(ValueError, match="no table"):
        ResultTable.of(StatementResult("DELETE FROM t", "ok"))


VALUES = st.none() | st.integers(-3, 3) | st.sampled_from([0.5, -0.5, 1.0, "a", "b", b"a"])
ROWS = st.integers(1, 4).flatmap(lambda width: st.lists(st.tuples(*[VALUES] * width), min_size=1, max_size=6))


@settings(deadline=None, max_examples=100)
@given(ROWS, st.randoms(use_true_random=False))
def test_every_mode_accepts_any_order_of_rows_and_spider_of_columns(rows: list[tuple[object, ...]], rng) -> None:
    gold = table(*rows)
    shuffled = list(rows)
    rng.shuffle(shuffled)
    for mode in ALL:
        assert says(mode, table(*shuffled), gold)
    columns = list(range(gold.width))
    rng.shuffle(columns)
    assert says("spider", table(*(tuple(row[i] for i in columns) for row in shuffled)), gold)
    assert says("spider", table(*(tuple(row[i] for i in columns) for row in rows)), gold, ordered=True)


@settings(deadline=None, max_examples=100)
@given(ROWS, ROWS)
def test_modes_are_ordered_by_strictness(a: list[tuple[object, ...]], b: list[tuple[object, ...]]) -> None:
    left, right = table(*a), table(*b)
    if says("ordered", left, right, ordered=True):
        assert says("multiset", left, right)
    if says("multiset", left, right):
        assert says("spider", left, right)
        assert says("critic_strict", left, right, as_set=True)
        assert says("critic_compat", left, right)
    for mode in ALL:
        assert says(mode, left, right) == says(mode, right, left)


def brute_force(a: list[tuple[object, ...]], b: list[tuple[object, ...]], ordered: bool) -> bool:
    """Every permutation of columns, as the definition says."""
    from collections import Counter
    from itertools import permutations

    if len(a) != len(b) or len(a[0]) != len(b[0]):
        return False
    for order in permutations(range(len(b[0]))):
        rows = [tuple(row[i] for i in order) for row in b]
        if rows == a if ordered else Counter(rows) == Counter(a):
            return True
    return False


@settings(deadline=None, max_examples=100)
@given(
    st.integers(1, 4).flatmap(
        lambda w: st.tuples(*[st.lists(st.tuples(*[st.integers(0, 1)] * w), min_size=1, max_size=4)] * 2)
    ),
    st.booleans(),
)
def test_spiders_search_equals_brute_force(pair, ordered: bool) -> None:
    a, b = pair
    assert says("spider", table(*a), table(*b), ordered=ordered) == brute_force(a, b, ordered)


def published(a: list[tuple[object, ...]], b: list[tuple[object, ...]], ordered: bool) -> bool:
    """The published definition: rows sorted by the text of their values agree, and so does some order of columns."""
    if not a and not b:
        return True
    by_text = [[tuple(sorted(row, key=lambda value: str(value) + str(type(value)))) for row in rows] for rows in (a, b)]
    alike = by_text[0] == by_text[1] if ordered else set(by_text[0]) == set(by_text[1])
    return bool(a and b) and alike and brute_force(a, b, ordered)


@settings(deadline=None, max_examples=200)
@given(
    st.integers(1, 3).flatmap(
        lambda w: st.tuples(
            *[st.lists(st.tuples(*[st.sampled_from([1, 1.0, 10, "1", "10", 0.0, -0.0, None, b"1"])] * w), max_size=3)]
            * 2
        )
    ),
    st.booleans(),
    st.booleans(),
)
def test_spider_is_the_published_definition(pair, ordered: bool, derive: bool) -> None:
    a, b = pair
    if derive:  # what is equal but for types is rare among random tables
        b = [tuple(float(v) if type(v) is int else v for v in reversed(row)) for row in a]
    assert says("spider", table(*a), table(*b), ordered=ordered) == published(a, b, ordered)


def test_spider_tells_an_int_from_an_equal_float_where_rows_sort_differently() -> None:
    assert says("spider", table((1, 5)), table((1.0, 5)))
    assert not says("spider", table((1, 10)), table((1.0, 10))), "as published"


def test_spiders_search_is_quick_on_wide_tables() -> None:
    one_hot = [tuple(int(i == j) for j in range(60)) for i in range(60)]
    assert says("spider", table(*one_hot), table(*[row[::-1] for row in one_hot]))
    off = [*one_hot[:-1], (1, *one_hot[-1][1:])]
    assert not says("spider", table(*off), table(*one_hot))
