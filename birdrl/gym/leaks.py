"""Whether an issue text gives its solution away: it quotes SQL that only the solution has, or names the edit.

Facts are no leak: which rows, figures and values are wanted is what a report is for. A constraint that the tests
check ("with a window function") is the user's own wish and may be named.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from birdrl.gym.sql_text import grams, sql_tokens, tokens

FRAGMENT = 3  # tokens of SQL in a row, one of them no word of prose, that count as quoted
_OPERATORS = frozenset(("=", "<", ">", "<=", ">=", "<>", "!=", "||", "(", ")", "->", "->>", "::", "select", "join"))
# Words of SQL that a text uses for the data or in plain English.
_PLAIN_TEXT = (
    "a add after all alter and as asc avg before between by check column count create cross current date default "
    "delete desc drop each else end first for from full group ignore in index insert integer into is key last left "
    "like limit max min natural no not null of on or order outer primary real references rename replace right row "
    "rows select set sum table text then time to total trigger unique update values view when where with"
)
_PLAIN_WORDS = frozenset(_PLAIN_TEXT.split())
_PHRASES = (
    "left join", "inner join", "outer join", "cross join", "group by", "order by", "partition by", "union all",
    "not in", "not exists", "case when", "on conflict", "do update", "or replace", "or ignore", "for each row",
)  # fmt: skip
# Words of a constraint that a test of features may put into a text.
_FEATURE_WORDS = {
    "window": {"over", "partition", "rank", "dense_rank", "row_number", "lag", "lead"},
    "cte": {"with"},
    "recursive_cte": {"with", "recursive"},
    "case": {"case", "when", "case when"},
    "left_join": {"left", "join", "left join"},
    "join": {"join", "inner join"},
    "group_by": {"group by"},
    "upsert": {"conflict", "on conflict", "do update"},
    "exists": {"exists", "not exists"},
    "in": {"in", "not in"},
}


@dataclass(frozen=True)
class Overlap:
    """How much of what only the solution has stands in the text: shares of its tokens and of its runs of three."""

    tokens: float
    runs: float


def leaks(text: str, issue_sql: Sequence[str], sol_sql: Sequence[str], features: Sequence[str] = ()) -> list[str]:
    """Reasons why the text gives the solution away, `what: detail`; empty when it does not.

    `features` are those that the instance's tests require or forbid.
    """
    issue, solution, words = sql_tokens(issue_sql), sql_tokens(sol_sql), tokens(text)
    found = []
    quoted = (grams(solution, FRAGMENT) - grams(issue, FRAGMENT)) & grams(words, FRAGMENT)
    found += [f"quotes the solution: {' '.join(run)}" for run in sorted(quoted) if _OPERATORS & set(run)]
    allowed = {word for name in features for word in (*_FEATURE_WORDS.get(name, ()), *name.split("_"))}
    return found + [f"names the edit: {word}" for word in _named(text, issue, solution) if word not in allowed]


def overlap(text: str, issue_sql: Sequence[str], sol_sql: Sequence[str]) -> Overlap:
    """Overlap of a text with what the solution has and the issue has not; 0 where the solution adds nothing."""
    issue, solution, words = sql_tokens(issue_sql), sql_tokens(sol_sql), tokens(text)
    new, said = set(solution) - set(issue), set(words)
    runs, said_runs = grams(solution, FRAGMENT) - grams(issue, FRAGMENT), grams(words, FRAGMENT)
    return Overlap(len(new & said) / len(new) if new else 0.0, len(runs & said_runs) / len(runs) if runs else 0.0)


def _named(text: str, issue: Sequence[str], solution: Sequence[str]) -> list[str]:
    """SQL words and phrases that only the solution has and the text uses as SQL."""
    lower, before, after = text.lower(), " ".join(issue), " ".join(solution)
    found = [p for p in _PHRASES if p in after and p not in before and re.search(rf"\b{p}\b", lower)]
    for word in sorted(set(solution) - set(issue) - _PLAIN_WORDS):
        if not re.fullmatch(r"[a-z][a-z_0-9]*", word) or not _is_sql_word(word, solution):
            continue
        # Upper case, a call or an underscore say that SQL is meant.
        if (
            re.search(rf"\b{word.upper()}\b", text)
            or re.search(rf"\b{word}\(", lower)
            or ("_" in word and word in lower)
        ):
            found.append(word)
    return found


_BEFORE_NAMES = frozenset(("into", "table", "on", "view", "index", "references", "update", "exists", "with"))
_KEYWORD_TEXT = (
    "case cast coalesce collate commit conflict distinct escape except exists filter glob having intersect join "
    "offset over partition pragma raise recursive returning rollback rtrim savepoint union using"
)
_KEYWORDS = frozenset(_KEYWORD_TEXT.split())


def _is_sql_word(word: str, solution: Sequence[str]) -> bool:
    """A keyword, or the name of a function that the solution calls."""
    if word in _KEYWORDS:
        return True
    before = ["", *solution]
    return any(
        word == here and following == "(" and previous not in _BEFORE_NAMES
        for previous, here, following in zip(before, solution, solution[1:], strict=False)
    )
