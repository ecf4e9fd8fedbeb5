"""Result tables without a database."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from birdrl.sql.results import StatementResult


def table(rows: Sequence[Sequence[Any]], width: int | None = None) -> StatementResult:
    """A complete result of these rows; `width` columns where there are none."""
    columns = len(rows[0]) if width is None else width
    return StatementResult("SELECT", "ok", tuple(f"c{i}" for i in range(columns)), tuple(tuple(row) for row in rows))


FAILED = StatementResult("SELEC", "error", message="syntax error")
