"""Masked SQL: what differs by constants, spelling or layout alone is one text; what differs otherwise is not."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from birdrl.audit.masking import MAX_NESTING, MAX_PARSED_CHARS, dialect_name, masked_sql, words


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("SELECT a FROM t WHERE b = 'x' AND c > 3", "select A from T where B='it''s' and C > 4.5e3;"),
        ('SELECT "a" FROM [t] WHERE `b` = 1', "SELECT a FROM t WHERE b = 2"),
        ("SELECT a FROM t WHERE b IN (1, 2, 3)", "SELECT a FROM t WHERE b IN (7)"),
        ("INSERT INTO t VALUES (1, 'x'), (2, 'y')", "INSERT INTO t VALUES (3, 'z')"),
        ("SELECT a FROM t WHERE b = -1 LIMIT 5", "SELECT a FROM t WHERE b = 1 LIMIT 9"),
        ("SELECT a -- the key\nFROM t /* all of it */", "SELECT a FROM t"),
        ("SELECT a AS x FROM t INNER JOIN u ON t.i <> u.i", "SELECT a x FROM t JOIN u ON t.i != u.i"),
        ("SELECT x'00ff', 0x1F FROM t", "SELECT x'11', 0x2 FROM t"),
        # without a tree: triggers and SQL that does not parse
        (
            "CREATE TRIGGER r AFTER INSERT ON t BEGIN UPDATE t SET a = 1; END",
            "create trigger R after insert on T begin update T set A = 2; end;",
        ),
        ("SELEC a FORM t WHERE b = 'x'", "selec  a form t where b = 'y' ;"),
    ],
)
def test_one_form(left: str, right: str) -> None:
    assert masked_sql([left]).text == masked_sql([right]).text != ""


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("SELECT a FROM t WHERE b > 1", "SELECT a FROM t WHERE b >= 1"),
        ("SELECT a FROM t WHERE b = 1", "SELECT a FROM t WHERE c = 1"),
        ("SELECT a FROM t WHERE b IN (1)", "SELECT a FROM t WHERE b NOT IN (1)"),
        ("SELECT a FROM t JOIN u USING (i)", "SELECT a FROM t LEFT JOIN u USING (i)"),
        ("DELETE FROM t WHERE a = 1", "DELETE FROM t"),
        ("SELECT DISTINCT a FROM t", "SELECT a FROM t"),
        ("SELECT a FROM t WHERE b IS NULL", "SELECT a FROM t WHERE b IS 0"),
        ("REPLACE INTO t VALUES (1)", "REPLACE INTO u VALUES (1)"),
        ("VACUUM main", "VACUUM temp"),
        ("SAVEPOINT a", "SAVEPOINT b"),
    ],
)
def test_other_forms(left: str, right: str) -> None:
    assert masked_sql([left]).text != masked_sql([right]).text


def test_statement_boundaries_and_emptiness() -> None:
    assert masked_sql(["DELETE FROM t", "DELETE FROM u"]) == masked_sql(["DELETE FROM t; DELETE FROM u;"])
    assert masked_sql(["-- nothing", "", " ; "]).text == ""
    assert masked_sql([]).text == ""


def test_names_are_words_that_every_sql_of_the_form_contains() -> None:
    masked = masked_sql(["SELECT o.\"unit price\" FROM Orders AS o WHERE city = 'Rome'"])
    assert masked.names == {"o", "unit", "price", "orders", "city"}
    assert masked.names <= set(words("select [o].[Unit Price] from ORDERS o where CITY='Oslo'"))


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT " + "(" * 400 + "{0}" + ")" * 400,
        "SELECT " + "f(" * 60 + "{0}" + ")" * 60,
        "SELECT {0} + " + " + ".join(f"column_{n}" for n in range(20_000)),
        "SELECT " + "CASE WHEN a THEN " * 300 + "{0}" + " END" * 300,
        "SELECT {0} - - - -" + " -" * 3_000 + "a",
        "SELECT {0} + 'never closed",
        'SELECT {0} + "never closed',
        "({0}" + "(" * 40,
        "SELECT {0}, \ud800 FROM t",
    ],
)
def test_degenerate_sql_gets_a_form_at_once(sql: str) -> None:
    first, second = masked_sql([sql.format(1)]), masked_sql([sql.format(234)])
    assert first.text
    assert first == second


def test_limits_are_on_the_text_so_that_equal_sql_has_equal_forms() -> None:
    nested = "SELECT " + "(" * (MAX_NESTING + 1) + "{}" + ")" * (MAX_NESTING + 1)
    assert masked_sql([nested.format(1)]) == masked_sql([nested.format(2)])
    long = "SELECT a FROM t WHERE b = '{}'"
    assert masked_sql([long.format("x" * MAX_PARSED_CHARS)]).text == "select a from t where b = ?"


def test_dialects_by_the_labels_of_data_sets() -> None:
    assert [dialect_name(label) for label in ("SQLite", "PostgreSQL", "SQL Server", "MySQL", "Oracle", "?")] == [
        "sqlite", "postgres", "tsql", "mysql", "oracle", "sqlite",
    ]  # fmt: skip
    cast = masked_sql(["SELECT a::text FROM t WHERE b = 'x'"], "postgres").text
    assert cast == masked_sql(["SELECT CAST(a AS text) FROM t WHERE b = 'y'"], "postgres").text


def test_real_gold_sql_has_trees_and_its_names() -> None:
    folder = Path(os.environ.get("BIRDRL_SHARED_DATA", Path(__file__).parents[3] / "shared" / "data"))
    file = folder / "spider" / "dev.json"
    if not file.is_file():
        pytest.skip(f"{file} is not here; set BIRDRL_SHARED_DATA to the folder of real data")
    queries = [row["query"] for row in json.loads(file.read_text())]
    for sql in queries[::5]:
        masked = masked_sql([sql])
        assert masked.names <= set(words(sql))
        assert "?" in masked.text or not any(c.isdigit() or c in "'" for c in sql) or '"' in sql or "T1" in sql.upper()
