"""Where one statement of a script ends and the next begins, by SQLite's own test of completeness.

`sqlite3_complete` judges; this module only proposes places to ask it about, so that a script of any form is
split in time linear in its length.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain

import apsw

SPACE = " \t\n\f\r"  # what SQLite takes for white space; Python's idea of it is wider
_NOTHING = ";" + SPACE
_UNJUDGED = re.compile("[\0\ud800-\udfff]")  # SQLite gets no text with these; one of them ends no statement
_BEFORE = re.compile(r"(?:[ \t\n\f\r]+|--[^\n]*(?:\n|\Z)|/\*.*?(?:\*/|\Z))*+", re.DOTALL)
# Comments and white space; what can hide a semicolon; words; semicolons; anything else.
_TOKEN = re.compile(
    r"(?P<space>[ \t\n\f\r]+|--[^\n]*|/\*.*?(?:\*/|\Z))"
    r"""|(?P<quoted>'[^']*(?:'|\Z)|"[^"]*(?:"|\Z)|`[^`]*(?:`|\Z)|\[[^\]]*(?:\]|\Z))"""
    r"|(?P<word>[\w$]+)|(?P<semicolon>;)|(?P<other>[^\w$ \t\n\f\r;'\"`\[/-]+|[/-])",
    re.DOTALL,
)


def split_statements(script: str) -> Iterator[str]:
    """The statements of a script, without surrounding white space, comments included.

    Semicolons inside strings, comments and trigger bodies do not split. Pieces that hold nothing but comments are
    left out. What follows the last complete statement is yielded as it is.
    """
    start = 0
    for end in chain(_ends(script), (len(script),)):
        piece = script[start:end].strip(SPACE)
        if piece not in ("", ";") and without_comments_before(piece).strip(_NOTHING):
            yield piece
        start = end


def complete_length(script: str) -> int:
    """How much of a text that is still being typed consists of complete statements, in characters."""
    return max(_ends(script), default=0)


def without_comments_before(sql: str) -> str:
    """The text from its first token on."""
    found = _BEFORE.match(sql)
    return sql[found.end() :] if found else sql


def _ends(script: str) -> Iterator[int]:
    """The offset behind the last character of every complete statement."""
    text = script if script.isascii() and "\0" not in script else _UNJUDGED.sub("?", script)
    start = 0
    while (first := text.find(";", start)) >= 0:
        end = first + 1
        if not apsw.complete(text[start:end]):  # the first semicolon is part of something: look closely
            found = _end_of_statement(text, start)
            if found is None:
                return
            end = found
        yield end
        start = end


def _end_of_statement(text: str, start: int) -> int | None:
    """The end of the statement that begins at `start` and holds further semicolons, None if it has none."""
    before, last = "", ""  # the latest two tokens
    inside_trigger = False
    for token in _TOKEN.finditer(text, start):
        if token.lastgroup == "space":
            continue
        # A semicolon of its own that ends nothing stands in a trigger, and only `; END ;` ends that.
        if token.lastgroup == "semicolon" and (not inside_trigger or (before, last) == (";", "end")):
            if apsw.complete(text[start : token.end()]):
                return token.end()
            inside_trigger = True
        before, last = last, token.group().lower() if token.lastgroup in ("word", "semicolon") else ""
    return None
