"""Where one statement of a script ends and the next begins."""

from __future__ import annotations

from collections.abc import Iterator

import apsw


def split_statements(script: str) -> Iterator[str]:
    """The statements of a script, comments included, by SQLite's own test of completeness.

    Semicolons inside strings, comments and trigger bodies do not split. What follows the last complete
    statement is yielded as it is.
    """
    start = 0
    end = script.find(";")
    while end >= 0:
        piece = script[start : end + 1]
        if apsw.complete(piece):
            yield piece
            start = end + 1
        end = script.find(";", end + 1)
    if script[start:].strip():
        yield script[start:]


def without_comments_before(sql: str) -> str:
    """The text from its first token on."""
    text = sql.lstrip()
    while text.startswith(("--", "/*")):
        closing = "\n" if text.startswith("--") else "*/"
        text = text.partition(closing)[2].lstrip()
    return text
