"""SQL text as tokens with positions: enough to compare two scripts and to find a quoted piece again."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

_TOKEN = re.compile(
    r"""
      '(?:[^']|'')*'                      # string
    | "(?:[^"]|"")*" | \[[^\]]*\]         # quoted name
    | --[^\n]* | /\*.*?(?:\*/|\Z)         # comment
    | \d+(?:\.\d+)?(?:[eE][+-]?\d+)? | \.\d+
    | \w+
    | <> | <= | >= | != | == | \|\| | ->> | -> | << | >>
    | \S
    """,
    re.VERBOSE | re.DOTALL,
)


@dataclass(frozen=True)
class Token:
    """One token of a script; `start` and `end` are character positions."""

    text: str
    start: int
    end: int


def tokenize(sql: str) -> list[Token]:
    """The tokens of a script. Never fails: an unclosed string falls apart into single characters."""
    return [Token(match.group(), match.start(), match.end()) for match in _TOKEN.finditer(sql)]


def occurrences(needle: Sequence[str], haystack: Sequence[str]) -> list[int]:
    """Positions at which the token texts of `needle` occur in those of `haystack`."""
    width = len(needle)
    return [i for i in range(len(haystack) - width + 1) if width and list(haystack[i : i + width]) == list(needle)]
