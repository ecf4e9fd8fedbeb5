"""Edit sentences: short, unambiguous, and enough to rebuild the solution from the issue alone."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from birdrl.distill.edits import ThoughtError, apply_edits, write_edits
from birdrl.distill.tokens import tokenize

CASES = [
    (
        "SELECT id FROM o WHERE price > 20",
        "SELECT id FROM o WHERE price >= 20",
        ["Replace `price > 20` with `price >= 20`."],
    ),
    ("SELECT COUNT(DISTINCT city) FROM t", "SELECT COUNT(city) FROM t", ["Remove `DISTINCT`."]),
    ("SELECT name, price FROM t", "SELECT name FROM t", ["Remove `, price`."]),
    ("UPDATE t SET a = 1", "UPDATE t SET a = 1 WHERE id = 3", ["Insert `WHERE id = 3` after `a = 1`."]),
    (
        "SELECT name FROM t ORDER BY price LIMIT 5",
        "SELECT name, price FROM t ORDER BY price DESC LIMIT 5",
        ["Insert `, price` after `name`.", "Insert `DESC` after `price`."],
    ),
    (
        "INSERT INTO t VALUES (1)",
        "INSERT INTO t VALUES (1);\nDROP TABLE u",
        ["Insert `;\nDROP TABLE u` after `VALUES (1)`."],
    ),
]


@pytest.mark.parametrize(("issue", "solution", "sentences"), CASES)
def test_the_sentences_that_people_would_write(issue: str, solution: str, sentences: list[str]):
    assert write_edits(issue, solution) == sentences
    assert apply_edits(issue, "The cause is this. " + " ".join(sentences)) == solution


def test_a_repeated_piece_gets_as_much_context_as_it_needs():
    issue = "SELECT a FROM t WHERE a > 1 AND b > 1"
    solution = "SELECT a FROM t WHERE a > 1 AND b > 2"
    (sentence,) = write_edits(issue, solution)
    assert sentence == "Replace `b > 1` with `b > 2`."
    assert apply_edits(issue, sentence) == solution


def test_very_different_scripts_are_written_out():
    issue, solution = "SELECT a, b FROM t WHERE c = 1 ORDER BY d", "DELETE FROM u WHERE x IN (SELECT y FROM z)"
    assert write_edits(issue, solution) == [f"Write `{solution}`."]
    assert apply_edits(issue, f"All wrong. Write `{solution}`.") == solution


_words = st.sampled_from(
    [
        "SELECT",
        "a",
        "b",
        "c",
        "d",
        "FROM",
        "t",
        "WHERE",
        "=",
        ">",
        "(",
        ")",
        ",",
        ";",
        "1",
        "'x",
        "y'",
        '"q"',
        "AND",
        "OR",
        ".",
        "COUNT",
    ]
)
_scripts = st.lists(_words, min_size=1, max_size=14)


@given(_scripts, _scripts, st.data())
def test_every_difference_can_be_said_and_applied(words: list[str], other: list[str], data: st.DataObject):
    cut = data.draw(st.integers(0, len(words)))
    end = data.draw(st.integers(cut, len(words)))
    issue, solution = " ".join(words), " ".join(words[:cut] + other[: data.draw(st.integers(0, 4))] + words[end:])
    assume([t.text for t in tokenize(issue)] != [t.text for t in tokenize(solution)])
    assume(solution.strip())
    rebuilt = apply_edits(issue, " ".join(write_edits(issue, solution)))
    assert [t.text for t in tokenize(rebuilt)] == [t.text for t in tokenize(solution)]


@pytest.mark.parametrize(
    ("thought", "reason"),
    [
        ("The filter is wrong.", "names no edit"),
        ("Replace `a > 2` with `a > 3`.", "occurs 0 times"),
        ("Replace `a` with `b`.", "occurs 2 times"),
        ("Replace `a > 1` with `a > 2`. Remove `WHERE a`.", "overlap"),
        ("Write `SELECT 1`. Remove `WHERE`.", "other edits too"),
    ],
)
def test_a_thought_that_does_not_carry_the_repair_is_refused(thought: str, reason: str):
    with pytest.raises(ThoughtError, match=reason):
        apply_edits("SELECT a FROM t WHERE a > 1", thought)


def test_there_must_be_something_to_say_and_quotes_must_be_free():
    with pytest.raises(ThoughtError, match="same SQL"):
        write_edits("SELECT  1", "SELECT 1")
    with pytest.raises(ThoughtError, match="backticks"):
        write_edits("SELECT `a` FROM t", "SELECT `b` FROM t")


@given(st.text())
def test_tokenizing_any_text_keeps_all_but_white_space(text: str):
    assert "".join("".join(t.text for t in tokenize(text)).split()) == "".join(text.split())
