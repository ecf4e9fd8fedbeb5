"""What makes a query a reference: it runs, gives rows, and gives them whatever way SQLite visits the tables."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from birdrl.gym.introspect import read_schema
from birdrl.gym.mirror import reversed_copy
from birdrl.gym.select_check import SelectChecker, SelectRejected
from birdrl.gym.templates import open_template

SCRIPT = """
CREATE TABLE teams (id INTEGER PRIMARY KEY, name TEXT, city TEXT COLLATE NOCASE, motto TEXT);
INSERT INTO teams VALUES (1, 'Lions', 'Rome', NULL), (2, 'Bears', 'Oslo', NULL), (3, 'Foxes', 'oslo', NULL);
CREATE TABLE players (id INTEGER PRIMARY KEY, name TEXT, team_id INTEGER REFERENCES teams, age INTEGER);
INSERT INTO players VALUES (1, 'Ann', 1, 20), (2, 'Bob', 1, 30), (3, 'Cid', 2, 20), (4, 'Dan', NULL, 41);
CREATE INDEX players_age ON players (age);
CREATE TABLE codes (a TEXT, b INTEGER, PRIMARY KEY (a, b)) WITHOUT ROWID;
INSERT INTO codes VALUES ('x', 1), ('y', 2);
CREATE VIEW old AS SELECT name FROM players WHERE age > 25;
"""


@pytest.fixture
def database(tmp_path: Path) -> Path:
    path = tmp_path / "league.sqlite"
    with sqlite3.connect(path) as connection:
        connection.executescript(SCRIPT)
    connection.close()
    return path


@pytest.fixture
def checker(database: Path) -> Iterator[SelectChecker]:
    with open_template(database) as connection:
        schema = read_schema(connection, "league")
    checker = SelectChecker(database, schema, max_steps=2_000_000, max_rows=50)
    yield checker
    checker.close()


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT name FROM players",
        "SELECT name FROM players ORDER BY age, id",
        "SELECT name FROM players ORDER BY age DESC LIMIT 2",
        "SELECT age FROM players ORDER BY age",  # ties that look the same are no ties
        "SELECT age, COUNT(*) FROM players GROUP BY age",
        "SELECT t.name, COUNT(*) FROM teams AS t JOIN players AS p ON p.team_id = t.id GROUP BY t.id",
        "SELECT name FROM old",
        "SELECT a FROM codes ORDER BY b",
        "SELECT name, RANK() OVER (ORDER BY age) FROM players",
    ],
)
def test_a_determined_query_is_accepted(checker: SelectChecker, sql: str) -> None:
    assert checker.check(sql).rows


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("SELECT name FROM players ORDER BY age", "the order of its rows depends"),
        ("SELECT name FROM players ORDER BY age LIMIT 1", "its rows depend"),
        ("SELECT name FROM players LIMIT 2", "its rows depend"),
        ("SELECT age, name FROM players GROUP BY age", "its rows depend"),
        ("SELECT city, COUNT(*) FROM teams WHERE city = 'OSLO'", "its rows depend"),
        ("SELECT GROUP_CONCAT(name) FROM players", "its rows depend"),
        ("SELECT name, ROW_NUMBER() OVER (ORDER BY age) FROM players", "its rows depend"),
        ("SELECT name FROM players WHERE id = (SELECT id FROM players WHERE age = 20 LIMIT 1)", "its rows depend"),
        ("SELECT a FROM codes LIMIT 1", "its rows depend"),
        ("SELECT random() FROM players", "uses random"),
        ("SELECT name, CURRENT_DATE FROM players", "current"),
        ("SELECT name FROM players WHERE date('now') > '2000-01-01'", "current time"),
        ("SELECT name FROM players WHERE age > 99", "empty"),
        ("SELECT motto FROM teams", "nothing but NULL"),
        ("SELECT nmae FROM players", "does not execute: no such column: nmae"),
        ("SELECT name FROM players WHERE (age", "does not parse"),
        ("SELECT 1; SELECT 2", "not one SELECT"),
        ("DELETE FROM players", "not one SELECT"),
        ("SELECT * FROM players a, players b, players c", "more than 50 rows"),
        ("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT COUNT(*) FROM n", "2000000 steps"),
    ],
)
def test_an_undetermined_or_useless_query_is_rejected_with_its_reason(
    checker: SelectChecker, sql: str, reason: str
) -> None:
    with pytest.raises(SelectRejected, match=reason):
        checker.check(sql)


def test_the_canonical_form_keeps_quoted_columns_and_writes_quoted_text_as_text(checker: SelectChecker) -> None:
    result = checker.check('select "name", count(*) n from players where "name" = "Ann" group by "name" order by n')
    assert result.sql == 'SELECT "name", COUNT(*) AS n FROM players WHERE "name" = \'Ann\' GROUP BY "name" ORDER BY n'
    assert result.rows == (("Ann", 1),)
    assert result.ordered


def test_the_reversed_copy_holds_the_same_rows_in_reverse_order(database: Path) -> None:
    before = database.read_bytes()
    with reversed_copy(database) as mirror, open_template(database) as template:
        for table in ("teams", "players", "codes"):
            rows = template.execute(f"SELECT * FROM {table}").fetchall()
            assert mirror.execute(f"SELECT * FROM {table} NOT INDEXED").fetchall() == rows[::-1]
        assert mirror.execute("SELECT COUNT(*) FROM teams WHERE city = 'OSLO'").fetchall() == [(2,)]
        assert mirror.execute("SELECT name FROM old ORDER BY name").fetchall() == [("Bob",), ("Dan",)]
    assert database.read_bytes() == before
