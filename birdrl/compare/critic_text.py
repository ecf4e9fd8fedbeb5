"""The text functions of the public BIRD-CRITIC evaluator, defects included: mode `critic_compat`.

They work on raw text and are kept equal to the published behaviour, so that published success rates can be
reproduced: `remove_distinct` splits on single blanks, `remove_round` knows no word boundary and cuts inside strings,
`check_sql_function_usage` searches substrings. The mode `critic_strict` has none of this.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

MAX_ROWS = 10_000  # of a query; the rest is cut off without a word
_BLOCK_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
_LINE_COMMENT = re.compile(r"--.*?(\r\n|\r|\n)")
_BLANK_LINES = re.compile(r"\n\s*\n+")
_ROUND = re.compile(r"ROUND\s*\(", re.IGNORECASE)


def remove_comments(sqls: Iterable[str]) -> list[str]:
    """Without /* */ and, where a line end follows, without -- comments; blank lines collapse."""
    cleaned = []
    for sql in sqls:
        text = _LINE_COMMENT.sub(r"\1", _BLOCK_COMMENT.sub("", sql))
        cleaned.append(_BLANK_LINES.sub("\n", text).strip())
    return cleaned


def remove_distinct(sqls: Iterable[str]) -> list[str]:
    """Without the word DISTINCT where single blanks stand around it."""
    return [" ".join(part for part in sql.split(" ") if part.lower() != "distinct") for sql in sqls]


def remove_round(sqls: Iterable[str]) -> list[str]:
    """Every ROUND(x, ...) replaced by x, wherever these letters occur."""
    return [_remove_round(sql) for sql in sqls]


def _remove_round(sql: str) -> str:
    while (match := _ROUND.search(sql)) is not None:
        opening = match.end() - 1
        closing = _closing(sql, opening)
        if closing < 0:
            return sql
        argument = sql[opening + 1 : _argument_end(sql, opening + 1)].strip()
        sql = sql[: match.start()] + argument + sql[closing + 1 :]
    return sql


def _closing(text: str, opening: int) -> int:
    """Where the parenthesis at `opening` is closed, -1 if nowhere. Quotes do not count."""
    depth = 0
    for match in re.compile(r"[()]").finditer(text, opening):
        depth += 1 if match.group() == "(" else -1
        if depth == 0:
            return match.start()
    return -1


def _argument_end(text: str, start: int) -> int:
    depth = 0
    for match in re.compile(r"[(),]").finditer(text, start):
        if match.group() == "(":
            depth += 1
        elif depth == 0:
            return match.start()
        elif match.group() == ")":
            depth -= 1
    return len(text)


def check_sql_function_usage(sqls: Sequence[str], required_keywords: Iterable[str]) -> int:
    """1 if every keyword occurs as a substring of the lower-cased SQL, else 0; 0 without SQL."""
    text = " ".join(sql.lower() for sql in sqls)
    return int(bool(sqls) and all(keyword.lower() in text for keyword in required_keywords))


def preprocess_results(results: Iterable[Iterable[Any]], decimal_places: int = 2) -> list[tuple[Any, ...]]:
    """Rows with numbers rounded, dates as YYYY-MM-DD, and lists and mappings as JSON text."""
    return [tuple(_processed(value, decimal_places) for value in row) for row in results]


def _processed(value: Any, places: int) -> Any:
    if isinstance(value, date):  # a datetime is one too; its time of day is dropped
        return value.strftime("%Y-%m-%d")
    value = _rounded(value, places)
    return json.dumps(value, sort_keys=True) if isinstance(value, dict | list) else value


def _rounded(value: Any, places: int) -> Any:
    if isinstance(value, Decimal):
        return value.quantize(Decimal(1).scaleb(-places), rounding=ROUND_HALF_UP)
    if isinstance(value, float):
        return round(value, places)
    if isinstance(value, list | tuple):
        return type(value)(_rounded(item, places) for item in value)
    if isinstance(value, Mapping):
        return {key: _rounded(item, places) for key, item in value.items()}
    return value


def results_match(predicted: Sequence[Iterable[Any]], gold: Sequence[Iterable[Any]], ordered: bool) -> bool:
    """The comparison inside `ex_base`: an empty result on either side never matches."""
    left, right = preprocess_results(predicted), preprocess_results(gold)
    if not left or not right:
        return False
    return left == right if ordered else set(left) == set(right)
