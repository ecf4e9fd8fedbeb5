"""What a model sees."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from birdrl.sql import StatementResult
from birdrl.sql.observation import MIN_BYTES, ObservationBudget, cut_text, render

Rows = tuple[tuple[object, ...], ...]


def show(*results: StatementResult, rows: int = 2, size: int = 400) -> str:
    return render(results, ObservationBudget(rows, size))


def ok(columns: tuple[str, ...] = (), rows: Rows = (), **fields: object) -> StatementResult:
    return StatementResult("", "ok", columns, rows, **fields)  # type: ignore[arg-type]


def failed(message: str) -> StatementResult:
    return StatementResult("", "error", message=message)


def test_tables_show_header_rows_in_order_and_how_many_more() -> None:
    rows = ((3, "x"), (None, 2.5), (3, "x"), (4, ""))
    assert show(ok(("a", "b"), rows)) == "a | b\n3 | x\nNULL | 2.5\n(2 more rows)"
    assert show(ok(("a", "b"), rows), rows=3).endswith("\n3 | x\n(1 more row)")
    assert show(ok(("a", "b"), rows), rows=4).endswith("\n3 | x\n4 | ")
    assert show(ok(("a",), ())) == "a\n(no rows)"


def test_what_was_never_fetched_is_said_too() -> None:
    rows = ((1,), (2,), (3,))
    assert show(ok(("a",), rows, truncated=True)).endswith("\n2\n(1+ more rows)")
    assert show(ok(("a",), rows[:2], truncated=True)).endswith("\n2\n(more rows)")
    assert show(ok(("a",), (), truncated=True)) == "a\n(more rows)"


def test_blobs_and_special_numbers_have_a_form() -> None:
    row = (b"\x01\xff", b"", 2**63 - 1, float("inf"), -0.5, "\ufffd", "ü")
    assert (
        show(ok(tuple("abcdefg"), (row,)))
        == "a | b | c | d | e | f | g\nx'01ff' | x'' | 9223372036854775807 | inf | -0.5 | \ufffd | ü"
    )


def test_statements_without_a_table_tell_what_changed() -> None:
    assert show(ok(rows_changed=2)) == "OK (2 rows changed)"
    assert show(ok(rows_changed=1)) == "OK (1 row changed)"
    assert show(ok()) == "OK"
    assert show(ok(message="PRAGMA synchronous is ignored")) == "OK (PRAGMA synchronous is ignored)"


def test_failures_are_errors() -> None:
    assert show(failed("no such column: x")) == "Error: no such column: x"
    assert show(StatementResult("", "timeout", message="stopped after 2 s")) == "Error: timeout, stopped after 2 s"
    assert show(StatementResult("", "denied", message="DETACH is not allowed")) == "Error: DETACH is not allowed"
    assert show() == "Error: no SQL statement found"


def test_several_statements_follow_each_other() -> None:
    assert show(ok(rows_changed=3), ok(("n",), ((1,),))) == "OK (3 rows changed)\nn\n1"


def test_nothing_can_forge_rows_or_reach_a_terminal() -> None:
    assert show(ok(("a",), (("x\n9 | forged",),))) == "a\nx\\n9 | forged"
    assert show(ok(("a\nb",), (("\x1b[2J\0\x7f\x85\u2028",),))) == "a\\nb\n\\x1b[2J\\x00\\x7f\\x85\\u2028"
    assert show(failed('near "x\n1 | forged": syntax error')) == 'Error: near "x\\n1 | forged": syntax error'


def test_a_long_value_tells_its_length_and_leaves_room_for_others() -> None:
    text = show(ok(("a", "b"), (("y" * 10_000, b"z" * 5_000),)))
    assert text == f"a | b\n{'y' * 80}... (10000 characters) | x'{'7a' * 40}...' (5000 bytes)"


def test_beyond_the_budget_rows_are_left_out_and_counted() -> None:
    text = show(ok(("a",), tuple((f"row {i}",) for i in range(50))), rows=50, size=100)
    shown = text.count("row ")
    assert 5 < shown < 15
    assert text == "a\n" + "\n".join(f"row {i}" for i in range(shown)) + f"\n({50 - shown} more rows)"
    assert len(text) > 85  # the budget is used


def test_one_wide_row_is_shown_in_part() -> None:
    text = show(ok(tuple("abcdefghij"), (tuple("x" * 30 for _ in range(10)),) * 3), size=200)
    assert re.fullmatch(r"a \| b .* \| j\nx{30} \| x{30} .*\.\.\. \(cut\)\n\(2 more rows\)", text)
    many = show(ok(tuple(f"column_{i}" for i in range(100)), ((0,) * 100,)), size=100)
    assert re.fullmatch(r"column_0 \| column_1 .*\.\.\. \(cut\)\n\(1 more row\)", many)


def test_the_last_statement_is_shown_before_the_earlier_ones() -> None:
    script = [ok(rows_changed=1)] * 40 + [failed("no such column: price_eur")]
    text = show(*script, size=100)
    lines = text.splitlines()
    assert lines[-1] == "Error: no such column: price_eur"
    assert lines[0] == f"({40 - (len(lines) - 2)} earlier statements not shown)"
    assert lines.count("OK (1 row changed)") == len(lines) - 2


def test_calls_share_a_budget() -> None:
    budget = ObservationBudget(5, 400)
    assert budget.share(1) == budget
    assert budget.share(4) == ObservationBudget(5, 100)
    assert budget.share(9).bytes == MIN_BYTES
    for rows, size in ((0, 400), (5, MIN_BYTES - 1)):
        with pytest.raises(ValueError, match="an observation needs"):
            ObservationBudget(rows, size)


def test_texts_are_cut_between_characters() -> None:
    assert cut_text("éé", 4) == "éé"
    assert cut_text("é" * 20, 16) == "é" * 3 + "... (cut)"
    assert len(cut_text("\U0001f600" * 20, 31).encode()) <= 31
    assert cut_text("abc" * 9, 5) == "... ("


VALUES = st.none() | st.integers() | st.floats() | st.text() | st.binary(max_size=200)
TABLES = st.integers(1, 6).flatmap(
    lambda width: st.builds(
        ok,
        st.tuples(*[st.text(max_size=60)] * width),
        st.lists(st.tuples(*[VALUES] * width), max_size=8).map(tuple),
        truncated=st.booleans(),
    )
)
RESULTS = st.lists(TABLES | st.builds(failed, st.text()) | st.builds(ok, rows_changed=st.integers(0, 9)), max_size=6)


@settings(deadline=None)
@given(RESULTS, st.integers(1, 9), st.integers(MIN_BYTES, 600))
def test_the_budget_is_kept_and_every_line_is_one_of_ours(results: list[StatementResult], rows: int, size: int) -> None:
    text = show(*results, rows=rows, size=size)
    assert len(text.encode()) <= size
    assert all(line.isprintable() or "\ufffd" in line or line.strip() for line in text.split("\n"))
    assert not re.search("[\0-\t\x0b-\x1f\x7f-\x9f\u2028\u2029]", text)
    if results and results[-1].status == "error":
        assert text.split("\n")[-1].startswith("Error: ")


@pytest.mark.parametrize("rows", [0, 1, 7])
def test_rows_shown_and_rows_left_out_add_up(rows: int) -> None:
    for size in range(MIN_BYTES, 300, 7):
        text = show(ok(("value",), tuple((f"v{i}" * 9,) for i in range(rows))), rows=5, size=size)
        shown = sum(line[:1] == "v" and line[1:2].isdigit() for line in text.split("\n"))
        left_out = re.search(r"\((\d+) more rows?\)", text)
        assert shown + (int(left_out.group(1)) if left_out else 0) == rows
