"""Confidence intervals of success rates."""

from __future__ import annotations

import math

Z_95 = 1.959963984540054


def wilson(successes: int, trials: int, z: float = Z_95) -> tuple[float, float]:
    """Wilson score interval of a share, by default 95 %.

    Unlike the normal approximation it is usable near 0 and 1 and for small samples. Without trials nothing is
    known: (0, 1). Raises ValueError for counts that cannot be.
    """
    if trials < 0 or not 0 <= successes <= trials:
        raise ValueError(f"{successes} successes of {trials} trials")
    if trials == 0:
        return 0.0, 1.0
    share = successes / trials
    scale = 1 + z * z / trials
    centre = (share + z * z / (2 * trials)) / scale
    half = z * math.sqrt(share * (1 - share) / trials + z * z / (4 * trials * trials)) / scale
    return max(0.0, centre - half), min(1.0, centre + half)
