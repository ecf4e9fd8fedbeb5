"""The column-set matching reward, CSMR (SQL-ASTRA 2.2.1, Algorithm 1).

With N_G and N_P the numbers of columns of gold and prediction and M the number of gold columns whose set of values
is that of a predicted column,

    R = 1                        if the rows are the same,
    R = alpha * M^2 / (N_G N_P)  otherwise: column recall times column precision, capped at alpha.

Dense over columns, not over rows: one missing row empties a column's match. What the paper leaves open (how often
equal columns count, results without rows, comparison over several databases) is ours and a parameter.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from birdrl.gym.instance import Instance
from birdrl.params import CsmrParams
from birdrl.rewards.execution import ExecutionScore, share_passed
from birdrl.sql.compare import canonical
from birdrl.sql.results import StatementResult

Row = tuple[Hashable, ...]


@dataclass(frozen=True)
class CsmrScore:
    """`reward` in [0, alpha] or 1; `matched`, `predicted`, `gold` are M, N_P and N_G."""

    reward: float
    perfect: bool
    matched: int
    predicted: int
    gold: int


def csmr(
    prediction: StatementResult | None, reference: StatementResult, params: CsmrParams, *, ordered: bool = False
) -> CsmrScore:
    """Compare two result tables. A prediction that failed, has no table or was cut off earns 0.

    `ordered`: the reference has a top-level ORDER BY; it counts with `params.perfect` "ordered" only.
    Raises ValueError when the reference is no complete table.
    """
    if not reference.has_table or reference.truncated:
        raise ValueError("the reference is no complete result table; such an instance is not to be scored")
    gold_width = len(reference.columns)
    if prediction is None or not prediction.has_table or prediction.truncated:
        return CsmrScore(0.0, False, 0, 0, gold_width)
    width = len(prediction.columns)
    if not prediction.rows or not reference.rows:
        same_shape = params.bird_compat or width == gold_width
        perfect = not prediction.rows and not reference.rows and same_shape
        return CsmrScore(float(perfect), perfect, 0, width, gold_width)
    if width == gold_width and _same_rows(prediction, reference, params, ordered):
        return CsmrScore(1.0, True, width, width, gold_width)
    ours, theirs = _column_sets(prediction), _column_sets(reference)
    if params.dedup_columns:
        ours, theirs = Counter(set(ours)), Counter(set(theirs))
    matched = sum((ours & theirs).values())
    reward = params.alpha * matched**2 / (ours.total() * theirs.total())
    return CsmrScore(reward, False, matched, width, gold_width)


def query_value(
    instance: Instance, score: ExecutionScore, params: CsmrParams, *, every_database: bool = False
) -> float:
    """The dense value Phi of one SQL in [0, 1], from its execution score on the instance.

    By default the paper's comparison, on the first database. With `every_database` (ours) it is 1 exactly when all
    tests pass, and else the least CSMR over the databases of the tests, at most alpha: a constant that hits one
    database earns nothing. Where results are not what counts (state tests, a solution without a result table) it is
    the share of tests passed.
    """
    if score.status != "ok" or not score.results:
        return 0.0
    references = [pair.reference for pair in score.results]
    if any(test.kind == "state" for test in score.tests) or None in references:
        return share_passed(instance, score, every_database=every_database)
    ordered = any(getattr(test, "ordered", False) for test in instance.test_cases)
    values = [
        csmr(pair.prediction, pair.reference, params, ordered=ordered).reward
        for pair in score.results
        if pair.reference is not None
    ]
    if not every_database:
        return values[0]
    return 1.0 if score.solved else min(*values, params.alpha)


def _same_rows(a: StatementResult, b: StatementResult, params: CsmrParams, ordered: bool) -> bool:
    rows_a, rows_b = _rows(a.rows), _rows(b.rows)
    if params.perfect == "bird":
        return set(rows_a) == set(rows_b)
    if params.perfect == "ordered" and ordered:
        return rows_a == rows_b
    return Counter(rows_a) == Counter(rows_b)


def _rows(rows: Sequence[tuple[object, ...]]) -> list[Row]:
    return [tuple(map(canonical, row)) for row in rows]


def _column_sets(table: StatementResult) -> Counter[frozenset[Hashable]]:
    """Each column's set of values, with how many columns have it."""
    # Equal values have equal canonical forms, so repetitions go first: most columns repeat few values.
    return Counter(frozenset(map(canonical, set(column))) for column in zip(*table.rows, strict=True))
