"""Numbers over many verdicts: success rate, pass rate, pass@k, majority voting."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import comb
from statistics import fmean

from birdrl.compare.table import ResultTable


def success_rate(tests: Sequence[tuple[int, int]]) -> float:
    """SR: the share of instances that pass all their tests; `tests` holds (passed, total) of each."""
    return fmean(passed == total > 0 for passed, total in tests) if tests else 0.0


def mean_pass_rate(tests: Sequence[tuple[int, int]]) -> float:
    """The mean over instances of the share of tests passed (Eq. 5 of BIRD-RL as a metric)."""
    return fmean(passed / total if total else 0.0 for passed, total in tests) if tests else 0.0


def pass_at_k(n: int, c: int, k: int) -> float:
    """Unbiased estimate of the chance that one of k samples is right, from n samples of which c are.

    1 - C(n-c, k) / C(n, k). Raises ValueError unless 0 <= c <= n and 1 <= k <= n.
    """
    if not (0 <= c <= n and 1 <= k <= n):
        raise ValueError(f"pass@{k} of {c} right among {n} samples")
    return 1 - comb(n - c, k) / comb(n, k)


def majority(results: Sequence[ResultTable | None]) -> int:
    """Which sample a vote over the samples' results chooses (SQL-ASTRA's Spider 2.0 protocol; details ours).

    None is a sample that failed and has no vote. Results are the same with equal rows in any order, columns in order.
    On a tie the class of the earliest sample wins; without votes, the first sample. The earliest of the class is
    returned. Raises ValueError without samples.
    """
    if not results:
        raise ValueError("no samples to vote on")
    classes = [None if table is None else _ballot(table) for table in results]
    votes = Counter(ballot for ballot in classes if ballot is not None)
    if not votes:
        return 0
    most = max(votes.values())
    return next(i for i, ballot in enumerate(classes) if ballot is not None and votes[ballot] == most)


def _ballot(table: ResultTable) -> tuple[int, frozenset[tuple[tuple[object, ...], int]]]:
    return table.width, frozenset(Counter(table.canonical_rows()).items())
