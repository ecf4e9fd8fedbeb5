"""R-VES, BIRD's reward-based valid efficiency score: right answers, weighted by how fast they are."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean, pstdev

_STEPS = ((2.0, 1.25), (1.0, 1.0), (0.5, 0.75), (0.25, 0.5), (0.0, 0.25))  # time ratio from, reward
_SHORTEST_S = 1e-9  # a clock may say 0


def time_reward(gold_seconds: Sequence[float], pred_seconds: Sequence[float]) -> float:
    """Reward in {1.25, 1, 0.75, 0.5, 0.25} of a right answer from repeated timings, pairwise gold / prediction.

    Ratios outside of mean +- 3 standard deviations are left out, as published; where all ratios are equal they all
    stay (the published filter leaves none and scores 0). Raises ValueError without timings.
    """
    ratios = [
        max(gold, _SHORTEST_S) / max(pred, _SHORTEST_S) for gold, pred in zip(gold_seconds, pred_seconds, strict=True)
    ]
    if not ratios:
        raise ValueError("no timings")
    mean, deviation = fmean(ratios), pstdev(ratios)
    kept = [ratio for ratio in ratios if deviation == 0 or abs(ratio - mean) < 3 * deviation]
    ratio = fmean(kept)
    return next(reward for start, reward in _STEPS if ratio >= start)


def r_ves(rewards: Sequence[float]) -> float:
    """In percent, 0 to 111.8: the mean of the rewards' square roots; a wrong answer's reward is 0."""
    return 100 * fmean(math.sqrt(reward) for reward in rewards) if rewards else 0.0
