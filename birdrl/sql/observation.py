"""What a model sees of results: compact text, cut to a budget."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from birdrl.sql.results import StatementResult

_CELL_CHARS = 80  # of one value; a single blob or document cannot use up the budget


def render(results: Sequence[StatementResult], *, max_rows: int, max_chars: int) -> str:
    """One block per statement: a header line, rows, how many more; or what changed, or the error.

    Never longer than `max_chars`: the cut is marked, and it keeps the beginning, where the columns are.
    """
    if not results:
        return "Error: no SQL statement found"
    text = "\n".join(_block(result, max_rows) for result in results)
    if len(text) <= max_chars:
        return text
    mark = "... (cut)"
    return text[: max(0, max_chars - len(mark))] + mark[:max_chars]


def _block(result: StatementResult, max_rows: int) -> str:
    if result.status in ("error", "denied"):
        return f"Error: {result.message}"
    if result.status in ("timeout", "killed"):
        return f"Error: timeout, {result.message}"
    if not result.columns:
        if result.rows_changed == 0:
            return "OK"
        return f"OK ({result.rows_changed} row{'s' if result.rows_changed != 1 else ''} changed)"
    lines = [" | ".join(map(_cell, result.columns))]
    lines += [" | ".join(map(_cell, row)) for row in result.rows[:max_rows]]
    hidden = len(result.rows) - max_rows
    if hidden > 0 or result.truncated:
        count = f"{max(hidden, 0)}+" if result.truncated else str(hidden)
        lines.append(f"({count} more rows)" if count != "1" else "(1 more row)")
    elif not result.rows:
        lines.append("(no rows)")
    return "\n".join(lines)


def _cell(value: Any) -> str:
    if value is None:
        return "NULL"
    text = f"x'{value[:_CELL_CHARS].hex()}'" if isinstance(value, bytes) else str(value)
    text = text.replace("\r", "\\r").replace("\n", "\\n")  # a value cannot look like further rows
    return text if len(text) <= _CELL_CHARS else text[: _CELL_CHARS - 3] + "..."
