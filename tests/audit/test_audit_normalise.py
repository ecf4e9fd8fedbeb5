from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from birdrl.audit.normalise import fingerprint, normalise_sql, normalise_text, strip_comments


@given(st.text())
def test_text_normalisation_is_stable(text: str) -> None:
    once = normalise_text(text)
    assert normalise_text(once) == once


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("Total  SALES\n per\tyear", "total sales per year"),
        ("ﬁle № 5", "file no 5"),  # ligature and numero sign: NFKC
        ("Straße", "STRASSE"),  # case folding, not lower()
        ("\uff26\uff55\uff4c\uff4c width", "full width"),
        ("cafe\u0301", "caf\u00e9"),
    ],
)
def test_texts_that_read_the_same_normalise_alike(left: str, right: str) -> None:
    assert normalise_text(left) == normalise_text(right)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (["SELECT a FROM t;"], ["select  a\nfrom t"]),
        (["SELECT a -- the key\nFROM t"], ["select a from t"]),
        (["SELECT /* two\nlines */ a FROM t"], ["select a from t"]),
        (["SELECT a FROM t /* never closed"], ["select a from t"]),
        (["SELECT 1;", "-- nothing here", "SELECT 2"], ["select 1", "select 2;"]),
    ],
)
def test_sql_that_differs_only_in_form_normalises_alike(left: list[str], right: list[str]) -> None:
    assert normalise_sql(left) == normalise_sql(right)


@pytest.mark.parametrize(
    "sql", ["SELECT '--x' FROM t", "SELECT '/*' || '*/'", 'SELECT "a--b"', "SELECT [a--b]", "SELECT 'it''s -- one'"]
)
def test_comment_signs_inside_quotes_are_no_comments(sql: str) -> None:
    assert strip_comments(sql) == sql


def test_statement_boundaries_matter() -> None:
    assert normalise_sql(["SELECT 1", "SELECT 2"]) != normalise_sql(["SELECT 1 SELECT 2"])
    assert fingerprint("a") != fingerprint("b")
