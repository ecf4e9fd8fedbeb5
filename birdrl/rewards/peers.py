"""Rewards of other published SQL agents, to compare with. Each is a weighted sum of terms; weights are parameters.

    skyrl_sql      -1 for a broken protocol, 1 right, 0 wrong
    arctic         1 right, 0.1 executable, 0 otherwise
    sql_r1         format +-1, then execution +-2, then result +-3, then a bonus for length
    reasoning_sql  3 EX + 2 judge (only when EX = 0) + syntax + schema Jaccard + bigram Jaccard + format
    mtir_sql       format +-0.1, executable +-0.1, result +-1
    sql_trail      5 exec + 2 turns + schema Jaccard + bigram Jaccard + syntax + format
    think2sql      mean of cell precision, cell recall and cardinality + format + a quarter per tag

The forms are the peers'; the terms are read off this project's protocol (ours): `format` means that calls are well
formed and the solution was handed in once, the tags of Think2SQL are the thought, the opening and the closing of the
last call or block, and nothing after it. "Right" means that every test passes. Reasoning-SQL's weights come from a
third party's port, Think2SQL's and MTIR-SQL's from descriptions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from birdrl.sql.compare import canonical
from birdrl.sql.results import StatementResult

LONG_ANSWER = 2048  # characters of thought and answer that earn SQL-R1's whole length term


@dataclass(frozen=True)
class Facts:
    """What the forms are computed from. Overlaps, `judge` and `cells` are in [0, 1], lengths in characters."""

    formatted: bool = True
    executed: bool = False
    right: bool = False
    turns: int = 1
    max_turns: int = 1
    difficulty: str = "easy"
    schema_overlap: float = 0.0
    bigram_overlap: float = 0.0
    judge: float = 0.0
    cells: float = 0.0
    tags: int = 0
    thought_chars: int = 0
    answer_chars: int = 0
    sql_chars: int = 0


Terms = dict[str, float]


def _sign(good: bool) -> float:
    return 1.0 if good else -1.0


def skyrl_sql(facts: Facts) -> Terms:
    """A broken protocol is punished whatever the SQL gives."""
    return {"format": 0.0 if facts.formatted else -1.0, "result": float(facts.formatted and facts.right)}


def arctic(facts: Facts) -> Terms:
    """The small reward for running is not added to a right answer's."""
    return {"result": float(facts.right), "executable": float(facts.executed and not facts.right)}


def sql_r1(facts: Facts) -> Terms:
    """In layers: each counts only when the one before holds."""
    terms = {"format": _sign(facts.formatted)}
    if facts.formatted:
        terms["executable"] = _sign(facts.executed)
        if facts.executed:
            terms["result"] = _sign(facts.right)
            if facts.right:
                terms["length"] = min((facts.thought_chars + facts.answer_chars) / LONG_ANSWER, 1.0)
                terms["share"] = facts.sql_chars / facts.answer_chars if facts.answer_chars else 0.0
    return terms


def reasoning_sql(facts: Facts) -> Terms:
    """The judge is heard only where the result is wrong."""
    return {
        "result": float(facts.right),
        "judge": 0.0 if facts.right else facts.judge,
        "executable": float(facts.executed),
        "schema": facts.schema_overlap,
        "bigrams": facts.bigram_overlap,
        "format": float(facts.formatted),
    }


def mtir_sql(facts: Facts) -> Terms:
    """SQL of a broken protocol is not run, so it counts as neither executable nor right."""
    executed = facts.formatted and facts.executed
    return {
        "format": _sign(facts.formatted),
        "executable": _sign(executed),
        "result": _sign(executed and facts.right),
    }


def sql_trail(facts: Facts) -> Terms:
    """The turn term is for few turns on simple questions, and for coming to a right end on hard ones."""
    if facts.difficulty == "easy":
        in_time = facts.turns <= 2
    elif facts.difficulty == "medium":
        in_time = facts.turns <= 3
    else:
        in_time = facts.right and facts.turns < facts.max_turns
    return {
        "result": float(facts.right),
        "turns": float(in_time),
        "schema": facts.schema_overlap,
        "bigrams": facts.bigram_overlap,
        "executable": float(facts.executed),
        "format": float(facts.formatted),
    }


def think2sql(facts: Facts) -> Terms:
    """Cells instead of all or nothing."""
    return {"cells": facts.cells, "format": float(facts.formatted), "tags": facts.tags / 4}


FORMS: Mapping[str, Callable[[Facts], Terms]] = {
    form.__name__: form for form in (skyrl_sql, arctic, sql_r1, reasoning_sql, mtir_sql, sql_trail, think2sql)
}


def peer_parts(kind: str, facts: Facts, weights: Mapping[str, float]) -> dict[str, float]:
    """The weighted terms of a peer's form; their sum is the reward."""
    return {name: weights[name] * value for name, value in FORMS[kind](facts).items()}


def cell_overlap(prediction: StatementResult | None, reference: StatementResult) -> float:
    """Think2SQL's mean of cell precision, cell recall and tuple cardinality (QATCH), in [0, 1].

    Precision is the share of predicted cells whose value is in gold, recall the share of gold cells whose value is
    predicted, cardinality the smaller number of rows over the larger. Two tables without rows are equal.
    """
    if prediction is None or not prediction.has_table or prediction.truncated:
        return 0.0
    ours = [canonical(value) for row in prediction.rows for value in row]
    theirs = [canonical(value) for row in reference.rows for value in row]
    if not ours or not theirs:
        return float(not ours and not theirs)
    in_ours, in_theirs = set(ours), set(theirs)
    precision = sum(value in in_theirs for value in ours) / len(ours)
    recall = sum(value in in_ours for value in theirs) / len(theirs)
    rows = len(prediction.rows), len(reference.rows)
    return (precision + recall + min(rows) / max(rows)) / 3
