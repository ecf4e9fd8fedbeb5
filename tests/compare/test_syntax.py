"""Reading and rewriting SQL by its tokens: strings, comments, names and inner queries stay what they are."""

from __future__ import annotations

import sqlite3
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from birdrl.compare.lexer import tokens
from birdrl.compare.syntax import first_statement, selects_distinct, uses, without_distinct, without_output_rounds


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT ROUND(a, 2) FROM t", "SELECT (a) FROM t"),
        ("SELECT round ( a ) AS x FROM t", "SELECT  ( a ) AS x FROM t"),
        ("SELECT ROUND(ROUND(a, 2) + b, ROUND(1)) FROM t", "SELECT ((a) + b) FROM t"),
        (
            "SELECT 100.0 * ROUND(SUM(a) / COUNT(*), 1) FROM t GROUP BY b",
            "SELECT 100.0 * (SUM(a) / COUNT(*)) FROM t GROUP BY b",
        ),
        ("SELECT a FROM t WHERE ROUND(a, 1) > 2 ORDER BY ROUND(a)", None),
        ("SELECT ROUND(a, 0), COUNT(*) FROM t GROUP BY 1", None),
        ("SELECT (SELECT ROUND(a) FROM t LIMIT 1)", None),
        ("WITH q AS (SELECT ROUND(a) AS r FROM t) SELECT r FROM q", None),
        ("WITH q AS (SELECT a FROM t) SELECT ROUND(a) FROM q", "WITH q AS (SELECT a FROM t) SELECT (a) FROM q"),
        ("INSERT INTO t SELECT ROUND(a, 1) FROM u", None),
        ("UPDATE t SET a = ROUND(a, 1)", None),
        ("SELECT BACKGROUND(a, 1), 'ROUND(a, 1)', \"ROUND\"(a) /* ROUND(a) */ FROM t", None),
        (
            "SELECT ROUND(a, 1) FROM t UNION ALL SELECT ROUND(b, 2) FROM u",
            "SELECT (a) FROM t UNION ALL SELECT (b) FROM u",
        ),
        ("SELECT ROUND(a, 1", None),
        ("SELECT ROUND(a) IS DISTINCT FROM b, ROUND(c, 1) FROM t", "SELECT (a) IS DISTINCT FROM b, (c) FROM t"),
        ("SELECT ROUND(max(a, b), 1) FROM t", "SELECT (max(a, b)) FROM t"),
        ("", None),
    ],
)
def test_rounds_of_the_output_go(sql: str, expected: str | None) -> None:
    assert without_output_rounds(sql) == (sql if expected is None else expected)


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT\nDISTINCT a", "SELECT\n a"),
        ("SELECT COUNT(DISTINCT a)", "SELECT COUNT( a)"),
        ("SELECT a IS DISTINCT FROM 2", None),
        ("SELECT a IS NOT DISTINCT FROM 2", None),
        ("SELECT 'a distinct b', \"distinct\", [DISTINCT] -- distinct", None),
    ],
)
def test_distinct_goes_where_it_is_a_keyword(sql: str, expected: str | None) -> None:
    assert without_distinct(sql) == (sql if expected is None else expected)


@pytest.mark.parametrize(
    ("sql", "wanted", "found"),
    [
        ("SELECT SUM(a) FROM t", "sum", True),
        ("SELECT summary FROM t -- SUM", "SUM", False),
        ("SELECT 'SUM(a)'", "SUM", False),
        ("SELECT a FROM t GROUP  BY\na", "group by", True),
        ("SELECT a FROM t LEFT JOIN u", "left join", True),
        ("SELECT strftime('%Y-%m', a)", "'%Y-%m'", True),
        ("SELECT count(*)", "COUNT(", True),
        ("SELECT 1", "", False),
    ],
)
def test_what_a_text_uses(sql: str, wanted: str, found: bool) -> None:
    assert uses(sql, wanted) is found


@pytest.mark.parametrize(
    ("sql", "kinds"),
    [
        ("x'00' 'it''s' \"a\"\"b\" `c` [d e]", ["string", "string", "quoted", "quoted", "quoted"]),
        ("1 1.5 .5 1e3 0x1F 1_000 1.", ["number"] * 7),
        ("a->>'$.x' || b", ["word", "symbol", "string", "symbol", "word"]),
        ("-- all\n/* of */ it", ["word"]),
        ("'open", ["string"]),
        ("/* open", []),
        ("ß_1 $x ?1", ["word", "symbol", "word", "symbol", "number"]),
    ],
)
def test_tokens(sql: str, kinds: list[str]) -> None:
    assert [token.kind for token in tokens(sql)] == kinds


@settings(deadline=None, max_examples=100)
@given(st.text(alphabet="ab'\"`[]()-*/;., \n1ROUNDx", max_size=40))
def test_tokens_and_gaps_make_up_the_text(sql: str) -> None:
    position = 0
    for token in tokens(sql):
        assert token.start >= position
        assert sql[token.start : token.end].upper() == token.text.upper()
        position = token.end
    assert position <= len(sql)
    statement, rest = first_statement(sql)
    assert statement in sql
    assert sql.endswith(rest)
    assert statement or not rest
    for rewrite in (without_output_rounds, without_distinct):
        assert len(rewrite(sql)) <= len(sql)


@settings(deadline=None, max_examples=100)
@given(
    st.recursive(
        st.sampled_from(["a", "b", "1.234", "'ROUND(1)'", "NULL"]),
        lambda inner: st.one_of(
            st.builds("ROUND({}, 1)".format, inner),
            st.builds("ROUND({})".format, inner),
            st.builds("({} + {})".format, inner, inner),
            st.builds("coalesce({}, {})".format, inner, inner),
        ),
        max_leaves=6,
    )
)
def test_rewritten_queries_run_and_lose_every_round(expression: str) -> None:
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE TABLE t AS SELECT 1.239 AS a, -2.55 AS b")
    sql = without_output_rounds(f"SELECT {expression} FROM t")
    connection.execute(sql).fetchall()
    assert not any(token.text == "ROUND" for token in tokens(sql))


@pytest.mark.parametrize(
    "bomb",
    ["ROUND(" * 8_000, "SELECT " + "ROUND(a," * 6_000, "'" * 50_000, "/*" * 25_000, "(" * 50_000, "a;" * 25_000],
)
def test_degenerate_texts_take_linear_time(bomb: str) -> None:
    start = time.process_time()
    without_output_rounds(bomb), without_distinct(bomb), selects_distinct(bomb), first_statement(bomb)
    assert time.process_time() - start < 5  # quadratic work would take minutes
