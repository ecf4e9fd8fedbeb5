"""SQL and prose as tokens: the common ground of lengths, edits, near-duplicates and leaks."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence

_TOKEN = re.compile(
    r"'(?:[^']|'')*'"  # a string literal
    r"|\d+(?:\.\d+)?"
    r"|\w+"
    r"|<=|>=|<>|!=|\|\||->>|->|::"
    r"|[^\w\s]"
)
_LITERAL = re.compile(r"'(?:[^']|'')*'|(?<![\w.])\d+(?:\.\d+)?(?!\w)")
_FIGURES = "average|mean|total|sum|highest|largest|maximum|lowest|smallest|minimum"
_FIGURE_TWICE = re.compile(rf"\b({_FIGURES}) (?=\1(?:\b|_))", re.IGNORECASE)
_MODEL_TOKEN = re.compile(r"[A-Za-z]+|\d+|[^\w\s]")


def count_tokens(text: str) -> int:
    """Words, numbers and symbols: a lower bound of what a model's tokenizer makes of the text."""
    return len(_MODEL_TOKEN.findall(text))


def tokens(text: str) -> list[str]:
    """Lower-case tokens of SQL or prose; a string literal is one token, an operator another."""
    return [token.lower() for token in _TOKEN.findall(text)]


def sql_tokens(statements: Iterable[str]) -> list[str]:
    """Tokens of several statements, a semicolon between them."""
    return tokens(" ; ".join(statements))


def figures_once(text: str) -> str:
    """'average of Average' for 'average Average': a column may be called what is computed from it."""
    return _FIGURE_TWICE.sub(r"\1 of ", text)


def masked(sql: str) -> str:
    """The text with its literals replaced by '?': what stays is the shape."""
    return _LITERAL.sub("?", sql)


def grams(sequence: Sequence[str], length: int) -> set[tuple[str, ...]]:
    """All runs of that many tokens."""
    return {tuple(sequence[start : start + length]) for start in range(len(sequence) - length + 1)}


def changed_tokens(before: Sequence[str], after: Sequence[str]) -> int:
    """Tokens that one side has and the other has not, as multisets: the size of an edit."""
    left, right = Counter(before), Counter(after)
    return max(sum((left - right).values()), sum((right - left).values()))
