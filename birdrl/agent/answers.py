"""The single-turn answer: a thought, then the SQL in a fenced block (BIRD-RL, Stage 1: y = (t, sigma))."""

from __future__ import annotations

import re
from collections.abc import Sequence

_FENCE = re.compile(r"```[ \t]*(?:sqlite|sql)?[ \t]*\r?\n(.*?)```", re.DOTALL | re.IGNORECASE)


def join_statements(statements: Sequence[str]) -> str:
    """One script from a list of statements or scripts, a statement a line, without a trailing semicolon."""
    return ";\n".join(statement.strip().rstrip(";").rstrip() for statement in statements if statement.strip())


def format_answer(thought: str, statements: Sequence[str]) -> str:
    """The assistant message of a single-turn answer."""
    return f"{thought.strip()}\n```sql\n{join_statements(statements)}\n```"


def parse_answer(text: str) -> list[str] | None:
    """The script of the last closed fenced block, as a list of one; None when there is none or it is empty.

    The script is not split into statements here: that takes SQLite's own tokenizer, which the lease has.
    """
    blocks = _FENCE.findall(text)
    if not blocks or not blocks[-1].strip() or "\0" in blocks[-1]:
        return None
    return [blocks[-1].strip()]
