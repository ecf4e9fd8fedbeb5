"""Whether a difference may be chance: bootstrap intervals, McNemar's exact test. (Wilson: `evaluation.intervals`.)"""

from __future__ import annotations

from collections.abc import Sequence
from math import comb

_CHUNK = 1_000_000  # values drawn at a time


def bootstrap_interval(
    values: Sequence[float], *, seed: int = 0, resamples: int = 10_000, level: float = 0.95
) -> tuple[float, float]:
    """Percentile interval of the mean: for scores that are not shares, such as soft-F1 or a mean pass rate.

    Deterministic by `seed`. Raises ValueError without values.
    """
    if not values:
        raise ValueError("no values")
    import numpy as np  # the command line starts without it

    sample = np.asarray(values, dtype=float)
    rng = np.random.default_rng(seed)
    chunk = max(1, _CHUNK // sample.size)
    means = np.concatenate(
        [
            rng.choice(sample, (min(chunk, resamples - start), sample.size)).mean(axis=1)
            for start in range(0, resamples, chunk)
        ]
    )
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def mcnemar_exact(only_first: int, only_second: int) -> float:
    """Two-sided p-value for two systems on the same instances, from those that only one of them solves.

    The chance, if both were equally good, of a split at least as uneven; 1 when there is no such instance.
    """
    if only_first < 0 or only_second < 0:
        raise ValueError(f"counts cannot be negative: {only_first}, {only_second}")
    n = only_first + only_second
    tail = sum(comb(n, i) for i in range(min(only_first, only_second) + 1))
    chance: float = 2 * tail / 2**n
    return min(1.0, chance)
