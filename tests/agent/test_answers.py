"""Single-turn answers: the last closed fenced block is the SQL."""

from __future__ import annotations

import pytest

from birdrl.agent.answers import format_answer, join_statements, parse_answer


def test_an_answer_is_a_thought_and_a_fence():
    text = format_answer(" The bound is wrong. ", ["SELECT 1;"])
    assert text == "The bound is wrong.\n```sql\nSELECT 1\n```"
    assert parse_answer(text) == ["SELECT 1"]


def test_statements_become_one_script():
    statements = ["CREATE TABLE a(x);", " ", "INSERT INTO a VALUES (1) ;"]
    assert join_statements(statements) == "CREATE TABLE a(x);\nINSERT INTO a VALUES (1)"
    assert parse_answer(format_answer("t", statements)) == ["CREATE TABLE a(x);\nINSERT INTO a VALUES (1)"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("```\nSELECT 1\n```", ["SELECT 1"]),
        ("```SQLite\nSELECT 1\n```", ["SELECT 1"]),
        ("```sql\nSELECT 1\n```\nbetter:\n```sql\nSELECT 2\n```", ["SELECT 2"]),
        ("SELECT 1", None),
        ("```sql\nSELECT 1", None),
        ("```sql\n \n```", None),
        ("```sql\nSELECT '\0'\n```", None),
        ("", None),
    ],
)
def test_which_block_counts(text: str, expected: list[str] | None):
    assert parse_answer(text) == expected
