"""The named comparison modes.

What every mode does with a value:

| value                    | bird, spider        | multiset, ordered, critic_strict | critic_compat        |
|--------------------------|---------------------|----------------------------------|----------------------|
| 1, 1.0 (and True)        | equal (spider:      | equal                            | equal                |
|                          | see below)          |                                  |                      |
| 1 and '1', x'31' and '1' | different           | different                        | different            |
| float                    | exact               | rounded to 10 decimals           | rounded to 2         |
| -0.0 and 0.0             | equal               | equal                            | equal                |
| inf, -inf                | equal to themselves | equal to themselves              | equal to themselves  |
| NaN                      | SQLite gives NULL   | is NULL                          | SQLite gives NULL    |
| NULL                     | equals NULL only    | equals NULL only                 | equals NULL only     |
| text, also dates in text | exact               | exact                            | exact                |

and with a table (names of columns are ignored everywhere, their order counts everywhere but in spider):

| mode          | rows compare as                       | both without rows   | text that runs            | statements |
|---------------|---------------------------------------|---------------------|---------------------------|------------|
| bird          | set                                   | equal               | as written                | one        |
| multiset      | multiset                              | equal, if as wide   | as written                | all        |
| ordered       | list if the gold orders, else multiset| equal, if as wide   | as written                | all        |
| spider        | list if the gold says "order by"      | equal               | without DISTINCT          | the first  |
|               | anywhere, else multiset               |                     |                           |            |
| critic_compat | set; list if the conditions say order | different           | raw text cut: comments,   | one in a   |
|               |                                       |                     | DISTINCT, ROUND           | text       |
| critic_strict | multiset; set if a side is DISTINCT;  | different, unless   | without ROUND in output   | all        |
|               | list if the conditions say order      | `empty_matches`     | columns                   |            |

`bird` is EX of BIRD and its mini-dev; "all" statements: the last result table counts, and the state after them if any
of them writes. `spider` first compares rows sorted by the text of their values, as published: (1, 10) is not (1.0, 10).
Bytes in a text that are not UTF-8 count as U+FFFD (the published evaluators of BIRD fail on them, gold or not).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from birdrl.compare import critic_text, spider
from birdrl.compare.syntax import first_statement, orders_rows, selects_distinct, without_output_rounds
from birdrl.compare.table import ResultTable
from birdrl.errors import InputError
from birdrl.sql.results import PolicySqlError

# Cutting ROUND off the raw text takes quadratic time; longer texts than these are nobody's answer.
MAX_COMPAT_CHARS = 50_000
MAX_COMPAT_ROUNDS = 200


@dataclass(frozen=True)
class Criteria:
    """How two tables compare, as the SQL of both sides and the instance's conditions decide."""

    ordered: bool = False
    as_set: bool = False
    empty_matches: bool = False


@dataclass(frozen=True)
class Mode:
    """One way to compare a prediction with the gold.

    `prepare` turns the SQL of either side into what is executed; it raises PolicySqlError for text it refuses.
    `criteria` reads what is to count off both texts. `difference` says why two tables differ, empty if they do not.
    `statements` says which statements of a read-only prediction count: all of them, all with each in a text of its own,
    one alone, or the first.
    """

    name: str
    meaning: str
    difference: Callable[[ResultTable, ResultTable, Criteria], str]
    criteria: Callable[[Sequence[str], Sequence[str], Mapping[str, Any]], Criteria] = field(
        default=lambda pred, gold, conditions: Criteria()
    )
    prepare: Callable[[Sequence[str]], list[str]] = field(default=list)
    statements: Literal["all", "each", "one", "first"] = "all"

    def equal(self, pred: ResultTable, gold: ResultTable, criteria: Criteria | None = None) -> bool:
        """Whether the prediction's table counts as the gold's."""
        return not self.difference(pred, gold, criteria or Criteria())


def _shape_difference(pred: ResultTable, gold: ResultTable) -> str:
    if pred.width != gold.width:
        return f"{pred.width} columns instead of {gold.width}"
    if len(pred.rows) != len(gold.rows):
        return f"{len(pred.rows)} rows instead of {len(gold.rows)}"
    return ""


def _bird(pred: ResultTable, gold: ResultTable, criteria: Criteria) -> str:
    if set(pred.rows) == set(gold.rows):
        return ""
    return _shape_difference(pred, gold) or "other rows"


def _typed(pred: ResultTable, gold: ResultTable, criteria: Criteria) -> str:
    if difference := _shape_difference(pred, gold):
        return difference
    a, b = pred.canonical_rows(), gold.canonical_rows()
    if criteria.ordered:
        return "" if a == b else "another order of rows" if Counter(a) == Counter(b) else "other rows"
    return "" if Counter(a) == Counter(b) else "other rows"


def _spider(pred: ResultTable, gold: ResultTable, criteria: Criteria) -> str:
    if spider.same_up_to_columns(pred.rows, gold.rows, criteria.ordered):
        return ""
    return _shape_difference(pred, gold) or "other rows under every order of columns"


def _critic_compat(pred: ResultTable, gold: ResultTable, criteria: Criteria) -> str:
    limit = critic_text.MAX_ROWS
    if critic_text.results_match(pred.rows[:limit], gold.rows[:limit], criteria.ordered):
        return ""
    if not pred.rows or not gold.rows:
        return "an empty result never matches"
    return _shape_difference(pred, gold) or "other rows"


def _critic_strict(pred: ResultTable, gold: ResultTable, criteria: Criteria) -> str:
    if not gold.rows and not criteria.empty_matches:
        return "an empty result never matches"
    if not criteria.as_set or criteria.ordered:
        return _typed(pred, gold, criteria)
    if pred.width != gold.width:
        return f"{pred.width} columns instead of {gold.width}"
    return "" if set(pred.canonical_rows()) == set(gold.canonical_rows()) else "other rows"


def _ordered_criteria(pred: Sequence[str], gold: Sequence[str], conditions: Mapping[str, Any]) -> Criteria:
    return Criteria(ordered=bool(gold) and orders_rows(gold[-1]))


def _spider_criteria(pred: Sequence[str], gold: Sequence[str], conditions: Mapping[str, Any]) -> Criteria:
    return Criteria(ordered=any(map(spider.order_matters, gold)))


def _compat_criteria(pred: Sequence[str], gold: Sequence[str], conditions: Mapping[str, Any]) -> Criteria:
    return Criteria(ordered=bool(conditions.get("order", False)))


def _strict_criteria(pred: Sequence[str], gold: Sequence[str], conditions: Mapping[str, Any]) -> Criteria:
    return Criteria(
        ordered=bool(conditions.get("order", False)),
        as_set=any(selects_distinct(sqls[-1]) for sqls in (pred, gold) if sqls),
        empty_matches=bool(conditions.get("empty_matches", False)),
    )


def _prepare_spider(sqls: Sequence[str]) -> list[str]:
    return [spider.prepare(sql) for sql in sqls]


def _prepare_compat(sqls: Sequence[str]) -> list[str]:
    if sum(map(len, sqls)) > MAX_COMPAT_CHARS or sum(sql.lower().count("round") for sql in sqls) > MAX_COMPAT_ROUNDS:
        raise PolicySqlError(
            f"critic_compat cleans texts up to {MAX_COMPAT_CHARS} characters and {MAX_COMPAT_ROUNDS} ROUND calls"
        )
    return critic_text.remove_round(critic_text.remove_distinct(critic_text.remove_comments(sqls)))


def _prepare_strict(sqls: Sequence[str]) -> list[str]:
    return [*sqls[:-1], without_output_rounds(sqls[-1])] if sqls else []


MODES: dict[str, Mode] = {
    mode.name: mode
    for mode in (
        Mode("bird", "BIRD's EX: equal sets of rows, exact values", _bird, statements="one"),
        Mode("multiset", "equal rows with their numbers, in any order", _typed),
        Mode("ordered", "equal rows in equal order where the gold SQL orders them", _typed, _ordered_criteria),
        Mode(
            "spider", "Spider's execution match: columns in any order, DISTINCT dropped",
            _spider, _spider_criteria, _prepare_spider, "first",
        ),
        Mode(
            "critic_compat", "what BIRD-CRITIC's public evaluator does, defects included",
            _critic_compat, _compat_criteria, _prepare_compat, "each",
        ),
        Mode(
            "critic_strict", "BIRD-CRITIC's intention: DISTINCT and output ROUND forgiven, read off the syntax",
            _critic_strict, _strict_criteria, _prepare_strict,
        ),
    )
}  # fmt: skip


def mode_named(name: str) -> Mode:
    """Raises InputError that lists the modes."""
    if name not in MODES:
        raise InputError(f"unknown mode {name!r}; modes are: {', '.join(MODES)}")
    return MODES[name]


def counted_statements(mode: Mode, sqls: Sequence[str]) -> list[str]:
    """The statements of a read-only answer that count in a mode.

    Raises PolicySqlError where more follows than a mode takes: the evaluators of BIRD and BIRD-CRITIC hand each text to
    a driver that executes one statement, and that refuses a second semicolon, too.
    """
    if mode.statements == "all":
        return list(sqls)
    pieces = []
    for sql in sqls:
        statement, rest = first_statement(sql)
        if rest and mode.statements != "first":
            raise PolicySqlError(f"mode {mode.name} takes one statement at a time, but after it comes: {rest[:100]}")
        pieces += [statement] if statement else []
    if mode.statements == "one" and len(pieces) > 1:
        raise PolicySqlError(f"mode {mode.name} takes one statement, the prediction holds {len(pieces)}")
    return pieces if mode.statements == "each" else pieces[:1]
