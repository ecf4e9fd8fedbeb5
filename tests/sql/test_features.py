"""Features are read off the syntax tree, never off the text."""

from __future__ import annotations

import pytest

from birdrl.sql import PolicySqlError, extract_features

CASES = {
    "SELECT a FROM t": {"select"},
    "SELECT DISTINCT a FROM t WHERE a IN (1, 2)": {"distinct", "in"},
    "SELECT count(DISTINCT a) FROM t": {"distinct", "aggregate", "function:count"},
    "SELECT * FROM a JOIN b USING (id)": {"join"},
    "SELECT * FROM a LEFT JOIN b ON a.x = b.x": {"join", "left_join"},
    "SELECT * FROM a CROSS JOIN b": {"join", "cross_join"},
    "SELECT a, sum(b) FROM t GROUP BY a HAVING sum(b) > 1": {"group_by", "having", "aggregate", "function:sum"},
    "SELECT a FROM t ORDER BY a LIMIT 3 OFFSET 1": {"order_by", "limit", "offset"},
    "SELECT * FROM t WHERE a = (SELECT max(b) FROM u)": {"subquery"},
    "SELECT * FROM t WHERE a = (SELECT max(b) FROM u WHERE u.c = t.c)": {"subquery", "correlated_subquery"},
    "SELECT * FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.c = t.c)": {"exists", "correlated_subquery"},
    "SELECT * FROM (SELECT a FROM t) AS s": {"subquery"},
    "WITH q AS (SELECT 1) SELECT * FROM q": {"cte"},
    "WITH RECURSIVE r(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM r WHERE i < 9) SELECT * FROM r": {
        "cte",
        "recursive_cte",
        "union",
        "union_all",
    },
    "SELECT row_number() OVER (PARTITION BY a ORDER BY b) FROM t": {"window", "function:row_number"},
    "SELECT 1 UNION SELECT 2": {"union"},
    "SELECT 1 INTERSECT SELECT 2": {"intersect"},
    "SELECT 1 EXCEPT SELECT 2": {"except"},
    "SELECT CASE WHEN a THEN 1 ELSE 2 END FROM t": {"case"},
    "SELECT a FROM t WHERE b LIKE 'x%' AND c BETWEEN 1 AND 2 AND d IS NULL": {"like", "between", "is_null"},
    "SELECT CAST(a AS INTEGER), COALESCE(b, 0) FROM t": {"cast", "coalesce"},
    "SELECT strftime('%Y', d) FROM t": {"strftime", "date_function", "function:strftime"},
    "SELECT date(d), julianday(d) FROM t": {"date_function"},
    "INSERT INTO t (a) VALUES (1) ON CONFLICT (a) DO UPDATE SET a = 2": {"insert", "upsert"},
    "INSERT OR REPLACE INTO t VALUES (1)": {"insert", "upsert", "insert_or_replace"},
    "DELETE FROM t WHERE a = 1 RETURNING a": {"delete", "returning"},
    "UPDATE t SET a = 1": {"update"},
    "CREATE TABLE t (a INTEGER)": {"create_table"},
    "CREATE UNIQUE INDEX i ON t (a)": {"create_index", "unique_index"},
    "CREATE VIEW v AS SELECT 1": {"create_view"},
    "CREATE TRIGGER g AFTER INSERT ON t BEGIN SELECT 1; END": {"create_trigger"},
    "ALTER TABLE t ADD COLUMN b TEXT": {"alter_table"},
    "DROP TABLE t": {"drop"},
    "BEGIN; COMMIT": {"transaction", "commit"},
    "SAVEPOINT s": {"transaction"},
}


@pytest.mark.parametrize(("sql", "expected"), CASES.items())
def test_each_feature_is_found(sql: str, expected: set[str]) -> None:
    assert expected <= extract_features(sql).names


@pytest.mark.parametrize(
    ("sql", "absent"),
    [
        ("SELECT 'GROUP BY x' FROM t -- HAVING", {"group_by", "having"}),
        ("SELECT sum_total AS summary FROM t", {"aggregate", "function:sum"}),
        ("SELECT a FROM t", {"subquery", "join", "distinct", "cte", "window"}),
        ("SELECT * FROM t WHERE a IN (SELECT b FROM u)", {"correlated_subquery"}),
        ("WITH RECURSIVE q AS (SELECT 1) SELECT * FROM q", {"recursive_cte"}),
        ("SELECT 1 UNION SELECT 2", {"union_all", "subquery"}),
        ("SELECT * FROM t WHERE a IS NOT 1", {"is_null"}),
    ],
)
def test_words_alone_are_no_features(sql: str, absent: set[str]) -> None:
    assert not absent & extract_features(sql).names


def test_tables_leave_out_common_table_expressions_and_aliases() -> None:
    found = extract_features("WITH q AS (SELECT * FROM Orders) SELECT * FROM q JOIN items AS i; DELETE FROM t; -- end")
    assert found.tables == {"orders", "items", "t"}
    assert found.statements == 2


@pytest.mark.parametrize("sql", ["SELECT FROM WHERE (", "<tool_call>{}", "SELECT 'open", "SELECT " + "(" * 4000])
def test_what_does_not_parse_is_the_policys_fault(sql: str) -> None:
    with pytest.raises(PolicySqlError):
        extract_features(sql)


def test_a_parser_that_breaks_is_the_policys_fault_too(monkeypatch: pytest.MonkeyPatch) -> None:
    import sqlglot

    def broken(*words: object, **options: object) -> None:
        raise KeyError("token")

    monkeypatch.setattr(sqlglot, "parse", broken)
    with pytest.raises(PolicySqlError, match="KeyError in the parser"):
        extract_features("SELECT 1")


def test_characters_that_are_no_sql_give_no_feature() -> None:
    for sql in ("\x0b", "\x0b;", ";\x1c;"):
        assert extract_features(sql).names == frozenset()
