"""SQL with its literals masked: two statements that differ by constants, spelling or layout alone become one text.

The form is that of the syntax tree (sqlglot) where there is one. Statements without a tree (triggers, transaction
control, SQL that is no SQL) are masked word by word, and so is SQL so long or so deeply nested that parsing it takes
long: these limits are on the text, not on the clock, so that equal SQL always gets an equal form.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from birdrl.compare.lexer import Token, tokens

logging.getLogger("sqlglot").setLevel(logging.ERROR)  # it warns about statements it knows only as a command

MASK = "?"
_CONSTANTS = (exp.Literal, exp.HexString, exp.BitString, exp.National, exp.RawString)
MAX_PARSED_CHARS = 8_000
MAX_NESTING = 12  # open brackets at a time; the parser's effort can double with each
DIALECTS = {"sqlite": "sqlite", "postgresql": "postgres", "mysql": "mysql", "sqlserver": "tsql", "oracle": "oracle"}

_WORD = re.compile(r"\w+")


@dataclass(frozen=True)
class MaskedSql:
    """`text`: the masked form, empty when there is nothing but comments. `names`: words that every SQL of this form
    contains (of tables, columns and aliases), folded, so that SQL without them need not be masked to be told apart.
    """

    text: str
    names: frozenset[str]


def masked_sql(statements: Sequence[str], dialect: str = "sqlite") -> MaskedSql:
    """The masked form of statements, joined by ` ; `. `dialect` is sqlglot's name of what they are written in."""
    found = set(words(" ".join(statements)))
    texts: list[str] = []
    names: set[str] = set()
    for statement in statements:
        for text, named in _forms(statement, dialect):
            texts.append(text)
            names.update(named)
    return MaskedSql(" ; ".join(texts), frozenset(names & found))


def words(sql: str) -> list[str]:
    """The words of an SQL text, folded: names, keywords and what stands in literals and comments."""
    return _WORD.findall(sql.casefold())


def dialect_name(label: str) -> str:
    """sqlglot's name for a dialect as data sets label it ("PostgreSQL", "SQL Server"); SQLite where it is unknown."""
    return DIALECTS.get("".join(label.split()).casefold(), "sqlite")


def _forms(sql: str, dialect: str) -> Iterator[tuple[str, set[str]]]:
    """(masked text, names) of each statement in `sql`."""
    lexemes = list(tokens(sql))
    while lexemes and lexemes[-1].text == ";":
        lexemes.pop()
    if not lexemes:
        return
    if len(sql) <= MAX_PARSED_CHARS and max(token.depth for token in lexemes) < MAX_NESTING:
        try:
            trees = [tree for tree in sqlglot.parse(sql, read=dialect) if isinstance(tree, exp.Expression)]
            if not any(tree.find(exp.Command) for tree in trees):
                yield from [_tree_form(tree) for tree in trees]
                return
        # The parser gives up on odd input in many ways; each means that there is no tree.
        except (SqlglotError, RecursionError, ArithmeticError, LookupError, TypeError, ValueError, AttributeError):
            pass
    yield _plain_form(lexemes)


def _plain_form(lexemes: Sequence[Token]) -> tuple[str, set[str]]:
    masked: list[str] = []
    names: set[str] = set()
    for token in lexemes:
        if token.kind in ("string", "number"):
            masked.append(MASK)
            continue
        text = token.text.casefold()
        if token.kind == "quoted":
            text = text[1:].removesuffix("]" if text[0] == "[" else text[0])
        names.update(_WORD.findall(text))
        masked.append(text)
    return " ".join(masked), names


def _tree_form(tree: exp.Expression) -> tuple[str, set[str]]:
    names: set[str] = set()
    for node in list(tree.walk()):
        if isinstance(node, _CONSTANTS):
            outer = node.parent if isinstance(node.parent, exp.Neg) else node
            if outer is tree:
                continue
            outer.replace(exp.Placeholder())
        elif isinstance(node, exp.Identifier):
            folded = node.name.casefold()
            names.update(_WORD.findall(folded))
            node.set("this", folded)
            node.set("quoted", False)
        elif isinstance(node, exp.Join) and node.args.get("kind") in ("INNER", "OUTER"):
            node.set("kind", None)  # JOIN says the same as INNER JOIN, LEFT JOIN as LEFT OUTER JOIN
    for node in list(tree.find_all(exp.In, exp.Values)):
        node.set("expressions", _without_repeats(node.expressions))
    return tree.sql(dialect="sqlite", comments=False, unsupported_level=sqlglot.ErrorLevel.IGNORE), names


def _without_repeats(items: Sequence[exp.Expression]) -> list[exp.Expression]:
    """Equal masked items once: `IN (1, 2)` is `IN (?)` whatever the number of constants, like rows of VALUES."""
    return list({item.sql(dialect="sqlite"): item for item in items}.values())
