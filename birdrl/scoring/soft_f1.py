"""Soft-F1 of BIRD's mini-dev: how much of the gold's cells a prediction has, rows held against rows.

`bird` is the published metric with its quirks: after duplicates are dropped, row i is held against row i, so the order
of rows counts, and a predicted value that the gold row holds counts as often as it is repeated. `assigned` (ours) holds
rows against each other so that most values agree, and counts a value at most as often as the gold row has it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:  # loaded where needed: scipy takes a while, and the command line starts without it
    import numpy as np

Row = tuple[Hashable, ...]
Variant = Literal["bird", "assigned"]
MAX_ASSIGNED_ROWS = 3_000  # rows of a side without an equal on the other: the assignment takes cubic time


def soft_f1(predicted: Sequence[Row], gold: Sequence[Row], variant: Variant = "bird") -> float:
    """In [0, 1]; 1 for two empty tables. Values compare as in Python.

    Raises ValueError for an assignment between more than 3,000 rows a side.
    """
    if not predicted and not gold:
        return 1.0
    pred, truth = list(dict.fromkeys(predicted)), list(dict.fromkeys(gold))
    if variant == "bird":
        matched, pred_only, truth_only = _in_order(pred, truth)
    else:
        matched, pred_only, truth_only = _assigned(pred, truth)
    precision = matched / (matched + pred_only) if matched + pred_only else 0.0
    recall = matched / (matched + truth_only) if matched + truth_only else 0.0
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


def _in_order(pred: list[Row], truth: list[Row]) -> tuple[float, float, float]:
    matched = pred_only = truth_only = 0.0
    for ours, theirs in zip(pred, truth, strict=False):
        matched += sum(value in theirs for value in ours) / len(theirs)
        pred_only += sum(value not in theirs for value in ours) / len(theirs)
        truth_only += sum(value not in ours for value in theirs) / len(theirs)
    return matched, pred_only + max(0, len(pred) - len(truth)), truth_only + max(0, len(truth) - len(pred))


def _assigned(pred: list[Row], truth: list[Row]) -> tuple[float, float, float]:
    # Rows with the same values first: no better assignment gives one of them to another row.
    pred_bags, truth_bags = ([frozenset(Counter(row).items()) for row in rows] for rows in (pred, truth))
    same = Counter(pred_bags) & Counter(truth_bags)
    rest_pred, rest_truth = _without(pred, pred_bags, same), _without(truth, truth_bags, same)
    if max(len(rest_pred), len(rest_truth)) > MAX_ASSIGNED_ROWS:
        raise ValueError(f"more than {MAX_ASSIGNED_ROWS} rows to assign")
    matched, pred_only, truth_only = float(same.total()), 0.0, 0.0
    pairs = 0
    if rest_pred and rest_truth:
        from scipy.optimize import linear_sum_assignment  # type: ignore[import-untyped]

        overlap = _overlaps(rest_pred, rest_truth)
        for i, j in zip(*linear_sum_assignment(overlap, maximize=True), strict=True):
            agreed, width = int(overlap[i, j]), len(rest_truth[j])
            matched += agreed / width
            pred_only += (len(rest_pred[i]) - agreed) / width
            truth_only += (width - agreed) / width
            pairs += 1
    return matched, pred_only + len(rest_pred) - pairs, truth_only + len(rest_truth) - pairs


def _overlaps(a: list[Row], b: list[Row]) -> np.ndarray:
    """How many values each pair of rows shares, repeated ones as often as both have them."""
    import numpy as np
    from scipy.sparse import csr_array  # type: ignore[import-untyped]

    columns: dict[tuple[Hashable, int], int] = {}

    def matrix(rows: list[Row]) -> Any:
        places = [
            (number, columns.setdefault((value, nth), len(columns)))
            for number, row in enumerate(rows)
            for value, count in Counter(row).items()
            for nth in range(count)
        ]
        ones = np.ones(len(places), dtype=np.int32)
        return csr_array(
            (ones, tuple(zip(*places, strict=True))), shape=(len(rows), sum(map(len, a)) + sum(map(len, b)))
        )

    counts: np.ndarray = (matrix(a) @ matrix(b).T).toarray()
    return counts


def _without(
    rows: list[Row], bags: list[frozenset[tuple[Hashable, int]]], same: Counter[frozenset[tuple[Hashable, int]]]
) -> list[Row]:
    left = Counter(same)
    rest = []
    for row, bag in zip(rows, bags, strict=True):
        if left[bag] > 0:
            left[bag] -= 1
        else:
            rest.append(row)
    return rest
