"""What one SQL statement gave back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from birdrl.errors import BirdrlError

Status = Literal["ok", "error", "denied", "timeout", "killed"]


class PolicySqlError(BirdrlError):
    """The policy's own SQL is at fault: it does not parse, or parsing it does not end in time."""


@dataclass(frozen=True)
class StatementResult:
    """One executed statement.

    `columns` is empty for a statement without a result table. `rows` holds None, int, float, str and bytes;
    text that is not UTF-8 is decoded with replacement characters. `truncated`: more rows (or bytes) than the
    caller's limit. `message`: why it did not go well, or, with status ok, what was not done as written.
    `rows_changed` counts rows inserted, updated or deleted by the statement itself. `elapsed_s` is wall-clock seconds.
    """

    sql: str
    status: Status
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[Any, ...], ...] = ()
    truncated: bool = False
    message: str = ""
    rows_changed: int = 0
    elapsed_s: float = 0.0

    @property
    def ok(self) -> bool:
        return self.status == "ok"

    @property
    def has_table(self) -> bool:
        """Whether the statement produced a result table, possibly without rows."""
        return self.ok and bool(self.columns)
