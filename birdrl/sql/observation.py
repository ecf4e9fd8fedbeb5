"""What a model sees of results: compact text within a budget, with what was left out said."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from birdrl.sql.results import StatementResult

# A value can neither look like further rows nor reach a terminal as a control sequence.
_VISIBLE = {code: repr(chr(code))[1:-1] for code in (*range(32), *range(127, 160), 0x2028, 0x2029)}
MIN_BYTES = 80  # of an observation: less has no room for a message and what was left out


@dataclass(frozen=True)
class ObservationBudget:
    """`rows`: of each result table; `bytes`: of the whole text in UTF-8; a value gets at most a fifth of it.

    Raises ValueError when no result could be shown in it.
    """

    rows: int
    bytes: int

    def __post_init__(self) -> None:
        if self.rows < 1 or self.bytes < MIN_BYTES:
            raise ValueError(f"an observation needs a row and {MIN_BYTES} bytes, not {self.rows} and {self.bytes}")

    def share(self, calls: int) -> ObservationBudget:
        """The budget of each of several calls that share one observation."""
        return ObservationBudget(self.rows, max(MIN_BYTES, self.bytes // calls))


def render(results: Sequence[StatementResult], budget: ObservationBudget) -> str:
    """A block per statement: column names, rows in order, how many more; or what changed; or the error.

    Never more than `budget.bytes` bytes. Where they do not suffice, the last statement, which is the one that
    failed if any did, is shown before the earlier ones.
    """
    if not results:
        return "Error: no SQL statement found"
    blocks: list[str] = []
    room = budget.bytes
    for earlier in reversed(range(len(results))):
        note = _earlier(earlier)
        block = _block(results[earlier], budget, room - _size(note) - 1 if earlier else room)
        if not block:
            blocks.append(_earlier(earlier + 1))
            break
        blocks.append(block)
        room -= _size(block) + 1
    return cut_text("\n".join(reversed(blocks)), budget.bytes)


def cut_text(text: str, limit: int, mark: str = "... (cut)") -> str:
    """At most `limit` bytes of UTF-8: the beginning of a longer text, and a mark."""
    encoded = text.encode()
    if len(encoded) <= limit:
        return text
    return encoded[: max(0, limit - len(mark))].decode(errors="ignore") + mark[:limit]


def _block(result: StatementResult, budget: ObservationBudget, room: int) -> str:
    """One statement in at most `room` bytes; empty if that is too little to say anything."""
    if room < MIN_BYTES // 2:
        return ""
    if result.status != "ok":
        kind = "Error: timeout, " if result.status in ("timeout", "killed") else "Error: "
        return cut_text(kind + result.message.translate(_VISIBLE), room)
    if result.columns:
        return _table(result, budget, room)
    changed = result.rows_changed
    note = f"{changed} row{'' if changed == 1 else 's'} changed" if changed else result.message
    return f"OK ({note})" if note else "OK"


def _table(result: StatementResult, budget: ObservationBudget, room: int) -> str:
    cell = budget.bytes // 5
    lines = [_line(result.columns, cell)]
    left = room - _size(lines[0])
    for shown, row in enumerate(result.rows[: budget.rows], 1):
        line = _line(row, cell)
        usable = left - 1 - _needed(_more(result, shown))
        if _size(line) > usable:
            if shown == 1 and usable >= MIN_BYTES // 4:  # better a piece of a row than none
                lines.append(cut_text(line, usable))
                left -= usable + 1
            break
        lines.append(line)
        left -= _size(line) + 1
    more = _more(result, len(lines) - 1)
    if left < _needed(more):  # there are too many column names
        return cut_text(lines[0], room - _needed(_more(result, 0))) + f"\n{_more(result, 0)}"
    return "\n".join([*lines, more] if more else lines)


def _more(result: StatementResult, shown: int) -> str:
    """What to say about rows that are not shown."""
    if not result.rows and not result.truncated:
        return "(no rows)"
    hidden = len(result.rows) - shown
    if not hidden:
        return "(more rows)" if result.truncated else ""
    return f"({hidden}{'+' if result.truncated else ''} more row{'' if hidden == 1 and not result.truncated else 's'})"


def _earlier(count: int) -> str:
    return f"({count} earlier statement{'' if count == 1 else 's'} not shown)"


def _line(values: Sequence[Any], limit: int) -> str:
    return " | ".join(_cell(value, limit) for value in values)


def _cell(value: Any, limit: int) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bytes):
        if 2 * len(value) <= limit:
            return f"x'{value.hex()}'"
        return f"x'{value[: limit // 2].hex()}...' ({len(value)} bytes)"
    text = str(value)
    if len(text) <= limit:
        return text.translate(_VISIBLE)
    return f"{text[:limit].translate(_VISIBLE)}... ({len(text)} characters)"


def _size(text: str) -> int:
    return len(text.encode())


def _needed(note: str) -> int:
    """Bytes of a note with the line break before it."""
    return _size(note) + 1 if note else 0
