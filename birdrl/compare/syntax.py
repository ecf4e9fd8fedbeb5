"""What the outermost query of a statement says about its result: order, DISTINCT, ROUND in its output columns.

Read off the tokens in one pass, never off the raw text, so that strings, quoted names, comments and inner queries do
not count, and no input takes more than linear time.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from birdrl.compare.lexer import Token, tokens

_AFTER_OUTPUT = frozenset(("FROM", "WHERE", "GROUP", "HAVING", "WINDOW", "ORDER", "LIMIT"))
_COMPOUND = frozenset(("UNION", "INTERSECT", "EXCEPT"))
_STATEMENTS = frozenset(("SELECT", "VALUES", "INSERT", "REPLACE", "UPDATE", "DELETE"))
_DATE_FUNCTIONS = frozenset(("DATE", "TIME", "DATETIME", "JULIANDAY", "UNIXEPOCH"))
_AGGREGATES = frozenset(("AVG", "COUNT", "GROUP_CONCAT", "MAX", "MIN", "SUM", "TOTAL"))


def orders_rows(sql: str) -> bool:
    """Whether the last statement has an ORDER BY of its own, outside of inner queries, windows and aggregates."""
    return any(a.text == "ORDER" and b.text == "BY" for a, b in pairwise(_outer(_last_statement(list(tokens(sql))))))


def selects_distinct(sql: str) -> bool:
    """Whether an outermost SELECT of the last statement is a SELECT DISTINCT, or a UNION, INTERSECT or EXCEPT
    removes duplicates."""
    return any(
        (a.text == "SELECT" and b.text == "DISTINCT") or (a.text in _COMPOUND and b.text != "ALL")
        for a, b in pairwise(_outer(_last_statement(list(tokens(sql)))))
    )


def without_output_rounds(sql: str) -> str:
    """The text with ROUND(x) and ROUND(x, n) replaced by (x) in the output columns of a closing query.

    Elsewhere (conditions, inner queries, INSERT ... SELECT) rounding is part of the meaning and stays; so does that
    of a grouping query's output unless an aggregate is rounded, since the rounded value may be what is grouped by.
    """
    found = _last_statement(list(tokens(sql)))
    if not _is_query(found):
        return sql
    grouped = any(a.text == "GROUP" and b.text == "BY" for a, b in pairwise(_outer(found)))
    spans: list[tuple[int, int]] = []
    opened: list[_Call] = []  # the open parentheses around the current token
    in_output = False
    for index, token in enumerate(found):
        before = found[index - 1] if index else None
        if token.text == "(":
            called = before.text if before is not None and before.kind == "word" else ""
            query = (bool(opened) and opened[-1].query) or _starts_query(found, index)
            opened.append(_Call(before if called == "ROUND" and in_output and not query else None, query))
            opened[-1].aggregates = called in _AGGREGATES
        elif token.text == ")" and opened:
            call = opened.pop()
            if opened:
                opened[-1].aggregates |= call.aggregates and not call.query
            if call.name is not None and (call.aggregates or not grouped):
                spans.append((call.name.start, call.name.end))
                if call.comma is not None:
                    spans.append((call.comma.start, token.start))
        elif token.text == "," and opened and opened[-1].comma is None:
            opened[-1].comma = token
        elif token.kind == "word" and token.depth == 0 and not _is_distinct_from(found, index):
            in_output = token.text == "SELECT" or (in_output and token.text not in _AFTER_OUTPUT | _COMPOUND)
    return _cut(sql, spans)


def first_statement(sql: str) -> tuple[str, str]:
    """The first statement of a text without trigger bodies, and what follows it, empty if only comments do.

    Semicolons before it count for nothing, any after its own counts as something that follows.
    """
    start: int | None = None
    end = 0
    for token in tokens(sql):
        if end:
            return sql[start:end], sql[token.start :]
        if token.kind == "symbol" and token.text == ";":
            end = 0 if start is None else token.end
        elif start is None:
            start = token.start
    return "" if start is None else sql[start : end or None], ""


def without_distinct(sql: str) -> str:
    """The text without the keyword DISTINCT, except in IS [NOT] DISTINCT FROM: mode `spider`."""
    found = list(tokens(sql))
    spans = [
        (token.start, token.end)
        for index, token in enumerate(found)
        if token.kind == "word" and token.text == "DISTINCT" and not _is_distinct_from(found, index + 1)
    ]
    return _cut(sql, spans)


def uses(sql: str, wanted: str) -> bool:
    """Whether the tokens of `wanted` (a function, a keyword, a phrase) follow one another in the SQL text.

    Unlike a search in the text, SUM is not found in `summary`, in a comment or in a string.
    """
    needle = [(token.kind, token.text.lower()) for token in tokens(wanted)]
    hay = [(token.kind, token.text.lower()) for token in tokens(sql)]
    return bool(needle) and any(hay[i : i + len(needle)] == needle for i in range(len(hay) - len(needle) + 1))


def depends_on_clock(sql: str) -> bool:
    """Whether a text reads the current date or time: CURRENT_..., 'now', or a date function without arguments."""
    found = list(tokens(sql))
    for index, token in enumerate(found):
        if token.kind == "string" and token.text.lower() == "'now'":
            return True
        if token.kind == "word" and token.text in ("CURRENT_DATE", "CURRENT_TIME", "CURRENT_TIMESTAMP"):
            return True
        empty_call = [t.text for t in found[index + 1 : index + 3]] == ["(", ")"]
        if token.kind == "word" and token.text in _DATE_FUNCTIONS and empty_call:
            return True
    return False


class _Call:
    """An open parenthesis: `name` is the ROUND before it if it may go, `query` whether an inner query is around,
    `aggregates` whether it belongs to an aggregate or holds one, `comma` the first of its own."""

    __slots__ = ("aggregates", "comma", "name", "query")

    def __init__(self, name: Token | None, query: bool) -> None:
        self.name, self.query = name, query
        self.comma: Token | None = None
        self.aggregates = False


def _last_statement(found: list[Token]) -> list[Token]:
    """The tokens after the last semicolon that something follows."""
    end = len(found)
    while end and found[end - 1].text == ";":
        end -= 1
    start = end
    while start and found[start - 1].text != ";":
        start -= 1
    return found[start:end]


def _outer(found: Sequence[Token]) -> list[Token]:
    return [token for token in found if token.depth == 0]


def _is_query(found: Sequence[Token]) -> bool:
    first = next((t.text for t in found if t.kind == "word" and t.depth == 0 and t.text in _STATEMENTS), "")
    return first == "SELECT" and found[0].text in ("SELECT", "WITH")


def _starts_query(found: Sequence[Token], index: int) -> bool:
    return any(t.kind == "word" and t.text in ("SELECT", "WITH", "VALUES") for t in found[index + 1 : index + 2])


def _is_distinct_from(found: Sequence[Token], index: int) -> bool:
    """Whether the FROM at `index` ends IS [NOT] DISTINCT FROM."""
    words = [token.text for token in found[max(0, index - 2) : index + 1]]
    return len(words) == 3 and words[1:] == ["DISTINCT", "FROM"] and words[0] in ("IS", "NOT")


def _cut(sql: str, spans: list[tuple[int, int]]) -> str:
    kept = []
    position = 0
    for start, end in sorted(spans):
        if start >= position:  # else it lies inside a span that is cut already
            kept.append(sql[position:start])
            position = end
    return "".join([*kept, sql[position:]])
