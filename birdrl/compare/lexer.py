"""SQLite's lexical rules: where tokens begin and end. Linear in the length of the text, whatever it holds."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

# An unterminated string, name or comment reaches to the end, as in SQLite's own tokenizer.
_TOKEN = re.compile(
    r"""
    (?P<space>   [ \t\n\f\r]+ | --[^\n]* | /\*.*?(?:\*/|\Z) )
  | (?P<string>  [xX]?'(?:[^']|'')*(?:'|\Z) )
  | (?P<quoted>  "(?:[^"]|"")*(?:"|\Z) | `(?:[^`]|``)*(?:`|\Z) | \[[^\]]*(?:\]|\Z) )
  | (?P<number>  (?:\d[\d_]*(?:\.[\d_]*)?|\.\d[\d_]*)(?:[eE][+-]?\d[\d_]*)?(?:(?<=0)[xX][\da-fA-F_]+)? )
  | (?P<word>    [A-Za-z_\x80-\U0010ffff][\w$\x80-\U0010ffff]* )
  | (?P<symbol>  ->> | -> | \|\| | << | >> | <= | >= | <> | != | == | . )
    """,
    re.VERBOSE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Token:
    """`kind`: string, quoted (an identifier in quotes), number, word or symbol. `depth`: open parentheses around it.

    `text` is as written, except that words are upper case.
    """

    kind: str
    text: str
    start: int
    end: int
    depth: int


def tokens(sql: str) -> Iterator[Token]:
    """The tokens of an SQL text without white space and comments."""
    depth = 0
    for match in _TOKEN.finditer(sql):
        kind = match.lastgroup or "symbol"
        if kind == "space":
            continue
        text = match.group()
        if text == ")":
            depth = max(0, depth - 1)
        yield Token(kind, text.upper() if kind == "word" else text, match.start(), match.end(), depth)
        if text == "(":
            depth += 1
