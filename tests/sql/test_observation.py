"""What a model sees."""

from __future__ import annotations

from birdrl.sql import StatementResult, render


def show(*results: StatementResult, rows: int = 2, chars: int = 400) -> str:
    return render(results, max_rows=rows, max_chars=chars)


def ok(columns: tuple[str, ...] = (), rows: tuple[tuple[object, ...], ...] = (), **fields: object) -> StatementResult:
    return StatementResult("", "ok", columns, rows, **fields)  # type: ignore[arg-type]


def test_tables_show_header_rows_and_how_many_more() -> None:
    rows = ((1, "x"), (None, 2.5), (3, b"\x01"), (4, ""))
    assert show(ok(("a", "b"), rows)) == "a | b\n1 | x\nNULL | 2.5\n(2 more rows)"
    assert show(ok(("a", "b"), rows), rows=3).endswith("3 | x'01'\n(1 more row)")
    assert show(ok(("a", "b"), rows), rows=4).endswith("4 | ")
    assert show(ok(("a",), ())) == "a\n(no rows)"
    assert show(ok(("a",), ((1,), (2,), (3,)), truncated=True)).endswith("(1+ more rows)")


def test_statements_without_a_table_tell_what_changed() -> None:
    assert show(ok(rows_changed=2)) == "OK (2 rows changed)"
    assert show(ok(rows_changed=1)) == "OK (1 row changed)"
    assert show(ok()) == "OK"


def test_failures_are_errors() -> None:
    assert show(StatementResult("", "error", message="no such column: x")) == "Error: no such column: x"
    assert show(StatementResult("", "timeout", message="stopped after 2 s")) == "Error: timeout, stopped after 2 s"
    assert show(StatementResult("", "denied", message="DETACH is not allowed")) == "Error: DETACH is not allowed"
    assert show() == "Error: no SQL statement found"


def test_several_statements_follow_each_other() -> None:
    assert show(ok(rows_changed=3), ok(("n",), ((1,),))) == "OK (3 rows changed)\nn\n1"


def test_a_value_cannot_forge_rows_or_fill_the_budget() -> None:
    assert show(ok(("a",), (("x\n9 | forged",),))) == "a\nx\\n9 | forged"
    assert len(show(ok(("a", "b"), (("y" * 10_000, b"z" * 10_000),)))) < 200


def test_the_budget_is_kept_and_the_cut_marked() -> None:
    text = show(ok(("a",), tuple((f"row {i}",) for i in range(50))), rows=50, chars=60)
    assert len(text) == 60
    assert text.startswith("a\nrow 0\n")
    assert text.endswith("... (cut)")
