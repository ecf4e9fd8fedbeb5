"""The public evaluator's text functions, held against what the published code gives for the same input."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal

import pytest

from birdrl.compare import MODES, ResultTable
from birdrl.compare.critic_text import (
    check_sql_function_usage,
    preprocess_results,
    remove_comments,
    remove_distinct,
    remove_round,
)
from birdrl.sql.results import PolicySqlError


@pytest.mark.parametrize(
    ("sql", "cleaned"),
    [
        ("SELECT DISTINCT a", "SELECT a"),
        ("SELECT\nDISTINCT a", "SELECT\nDISTINCT a"),
        ("SELECT DISTINCT(a)", "SELECT DISTINCT(a)"),
        ("SELECT COUNT( DISTINCT a )", "SELECT COUNT( a )"),
        ("a IS DISTINCT FROM 2", "a IS FROM 2"),
        ("SELECT 'very distinct words'", "SELECT 'very words'"),
    ],
)
def test_remove_distinct(sql: str, cleaned: str) -> None:
    assert remove_distinct([sql]) == [cleaned]


@pytest.mark.parametrize(
    ("sql", "cleaned"),
    [
        ("SELECT ROUND(a, 2), round ( b )", "SELECT a, b"),
        ("ROUND(ROUND(price, 2), 1)", "price"),
        ("ROUND(coalesce(a, b), 1)", "coalesce(a, b)"),
        ("BACKGROUND(x,1)", "BACKGx"),
        ("GROUND (z)", "Gz"),
        ("AROUND(x,2)", "Ax"),
        ("ROUND(a, 2", "ROUND(a, 2"),
        ("RORO(1)ROUND(UND)(x)", "RORO(1)UND(x)"),
        ("ROROUND(UND)(x)", "x"),
    ],
)
def test_remove_round(sql: str, cleaned: str) -> None:
    assert remove_round([sql]) == [cleaned]


@pytest.mark.parametrize(
    ("sql", "cleaned"),
    [
        ("SELECT 1 /* one\n */ -- two\n, 3\n\n \n, 4 -- five", "SELECT 1  \n, 3\n, 4 -- five"),
        ("SELECT 'a--b'\nFROM t", "SELECT 'a\nFROM t"),
        ("SELECT 'a--b'", "SELECT 'a--b'"),
        ("-- all\r\nSELECT 1", "SELECT 1"),
    ],
)
def test_remove_comments(sql: str, cleaned: str) -> None:
    assert remove_comments([sql]) == [cleaned]


def test_check_sql_function_usage_searches_substrings() -> None:
    assert check_sql_function_usage(["SELECT summary FROM t -- avg"], ["SUM", "AVG"]) == 1
    assert check_sql_function_usage(["SELECT 1"], ["SUM"]) == 0
    assert check_sql_function_usage([], []) == 0


def test_preprocess_results() -> None:
    rows = [
        (1.005, Decimal("1.005"), date(2024, 1, 2), datetime(2024, 1, 2, 3), [1.234, {"b": 2, "a": 1.999}], "2.345")
    ]
    assert preprocess_results(rows) == [
        (1.0, Decimal("1.01"), "2024-01-02", "2024-01-02", '[1.23, {"a": 2.0, "b": 2}]', "2.345")
    ]


def test_the_mode_cleans_both_sides() -> None:
    mode = MODES["critic_compat"]
    assert mode.prepare(["SELECT DISTINCT ROUND(a, 1) -- one\nFROM t"]) == ["SELECT a \nFROM t"]
    one, none = ResultTable.from_rows([(1.004,)]), ResultTable(("a",), ())
    assert mode.equal(one, ResultTable.from_rows([(1.0,), (1.0,)]))
    assert not mode.equal(none, none)


def test_the_mode_refuses_texts_that_would_take_too_long() -> None:
    for text in ("x" * 60_000, "ROUND(" * 500):
        with pytest.raises(PolicySqlError, match="critic_compat"):
            MODES["critic_compat"].prepare([text])
