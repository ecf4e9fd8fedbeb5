"""Scripts are split where SQLite would split them."""

from __future__ import annotations

import time

import apsw
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from birdrl.sql.splitting import complete_length, split_statements, without_comments_before

TRIGGER = "CREATE TRIGGER t AFTER INSERT ON sale BEGIN UPDATE item SET stock = CASE WHEN 1 THEN 2 END; SELECT 1; END;"


@pytest.mark.parametrize(
    ("script", "pieces"),
    [
        ("SELECT 1; SELECT 2", ["SELECT 1;", "SELECT 2"]),
        ("SELECT ';' ; SELECT 2;", ["SELECT ';' ;", "SELECT 2;"]),
        ("SELECT 'it''s; one' ; SELECT 2;", ["SELECT 'it''s; one' ;", "SELECT 2;"]),
        ("SELECT 1 -- a;b\n; SELECT /* ; */ 2", ["SELECT 1 -- a;b\n;", "SELECT /* ; */ 2"]),
        (TRIGGER + "SELECT 3;", [TRIGGER, "SELECT 3;"]),
        ("EXPLAIN " + TRIGGER + "SELECT 3;", ["EXPLAIN " + TRIGGER, "SELECT 3;"]),
        (TRIGGER.replace("SELECT 1;", "SELECT '; END;' /* ; END; */;"), None),
        ('SELECT "a;b", [c;d], `e;f`;', None),
        ("SELECT 'open; SELECT 2", None),
        ("SELECT 1 /* open; SELECT 2", None),
        ("CREATE TRIGGER t AFTER INSERT ON a BEGIN SELECT 1; SELECT 2;", None),
        ("/* why */ SELECT 1; -- then\nSELECT 2 -- end", ["/* why */ SELECT 1;", "-- then\nSELECT 2 -- end"]),
        ("SELECT '\0;'; SELECT '\ud800;'", ["SELECT '\0;';", "SELECT '\ud800;'"]),
        ("SELECT 'é;\U0001f600'; SELECT é;", ["SELECT 'é;\U0001f600';", "SELECT é;"]),
        ("\x0b; \u00a0", ["\x0b;", "\u00a0"]),  # no white space to SQLite: it says so itself
    ],
)
def test_scripts_split_where_sqlite_splits(script: str, pieces: list[str] | None) -> None:
    assert list(split_statements(script)) == ([script] if pieces is None else pieces)


@pytest.mark.parametrize("script", ["", "  \n ", ";;", " ; ;\t;", "-- nothing", "/* ; */ ;", "-- a\n;-- b", "/* open"])
def test_comments_alone_are_no_statement(script: str) -> None:
    assert list(split_statements(script)) == []


PIECES = [
    *("CREATE", "TRIGGER", "TEMP", "TEMPORARY", "EXPLAIN", "BEGIN", "END", "end", "SELECT", "a", "é", "$"),
    *(";", ";", ";", "'", '"', "`", "[", "]", "--", "/*", "*/", "/", "-", "*", "\n", "\t", "\x0b"),
]
WORDS = st.sampled_from(PIECES)


@settings(deadline=None)
@given(st.lists(st.tuples(WORDS, st.sampled_from(["", " "])), max_size=40), st.sampled_from(["", "CREATE TRIGGER "]))
def test_ends_are_those_of_asking_sqlite_everywhere(words: list[tuple[str, str]], start: str) -> None:
    script = start + "".join(word + space for word, space in words)
    ends, begin = [], 0
    for at, character in enumerate(script, 1):
        if character == ";" and apsw.complete(script[begin:at]):
            ends.append(at)
            begin = at
    assert complete_length(script) == (ends[-1] if ends else 0)
    pieces = [script[a:b].strip(" \t\n\f\r") for a, b in zip([0, *ends], [*ends, len(script)], strict=True)]
    assert list(split_statements(script)) == [p for p in pieces if without_comments_before(p).strip("; \t\n\f\r")]


@pytest.mark.parametrize(
    "script",
    [
        "SELECT '" + ";" * 400_000 + "'",
        "--\n" * 150_000 + "SELECT 1",
        "--;\n" * 120_000 + "SELECT 1",
        "/*;*/" * 90_000 + "SELECT 1",
        "CREATE TRIGGER t AFTER INSERT ON a BEGIN " + "SELECT 1;" * 50_000,
        "CREATE TRIGGER t BEGIN " + ";END x;" * 60_000,
        "[;" * 200_000,
    ],
)
def test_no_form_of_text_makes_splitting_slow(script: str) -> None:
    start = time.monotonic()
    assert len(list(split_statements(script))) == 1
    assert time.monotonic() - start < 10  # about a second alone; asking SQLite at every semicolon takes many minutes
