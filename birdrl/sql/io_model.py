"""The lifecycle I/O of replica strategies, in bytes (BIRD-RL, Table 3 and Appendix D.2).

What isolation costs a training run on disk, for N tasks with R rollouts each, batches of B tasks, databases of
mean size S, Q rollouts that trigger a reset (the example-effective count q = Q/R), and resets k times cheaper
than a full copy:

    strategy       online                offline
    fresh_copy     N R S                 0                     a fresh database for every rollout
    always_reset   N R S / k             D (B R / 2) S         a pool that restores at every lease (ours: the
                                                               authors' code, not a row of their table)
    dynamic_pool   (B + q/k) R S         0                     replicas made on demand, modified ones restored
    fixed_pool     q R S / k             D (B R / 2) S         replicas made beforehand, modified ones restored
    overlay        0                     0                     ours: changed pages in memory over one template

D is the number of distinct databases; the pool holds B R / 2 replicas of each, as in the paper's setting.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from birdrl.errors import InputError

IoStrategy = Literal["fresh_copy", "always_reset", "dynamic_pool", "fixed_pool", "overlay"]
IO_STRATEGIES: tuple[IoStrategy, ...] = get_args(IoStrategy)


@dataclass(frozen=True)
class LifecycleIO:
    """Bytes written: `online` while rollouts run, `offline` once before them (also the pool's storage)."""

    online: float
    offline: float


def lifecycle_io(
    strategy: IoStrategy,
    *,
    n: float,
    r: float,
    b: float,
    q: float,
    size: float,
    k: float = 1.0,
    databases: int = 1,
    replicas: float | None = None,
) -> LifecycleIO:
    """Predicted lifecycle I/O of a run.

    `n`, `r`, `b`, `q`, `k` are the paper's symbols, `size` is the mean database size in bytes. `replicas` of each
    database in a pre-made pool default to b*r/2. Raises InputError for values without a meaning: k below 1, or more
    resets than rollouts.
    """
    if strategy not in IO_STRATEGIES:
        raise InputError(f"strategy {strategy!r}: known are {', '.join(IO_STRATEGIES)}")
    values = {"n": n, "r": r, "b": b, "q": q, "size": size, "databases": databases}
    wrong = [f"{name}={value}" for name, value in values.items() if not value >= 0]
    if wrong or not k >= 1 or q > n:
        why = ", ".join(wrong) if wrong else f"k={k} is below 1" if not k >= 1 else f"q={q} exceeds n={n}"
        raise InputError(f"I/O model: {why}; counts and sizes are not negative, k >= 1, and at most n*r rollouts reset")
    pool = databases * (b * r / 2 if replicas is None else replicas) * size
    match strategy:
        case "fresh_copy":
            return LifecycleIO(n * r * size, 0.0)
        case "always_reset":
            return LifecycleIO(n * r * size / k, pool)
        case "dynamic_pool":
            return LifecycleIO((b + q / k) * r * size, 0.0)
        case "fixed_pool":
            return LifecycleIO(q * r * size / k, pool)
        case "overlay":
            return LifecycleIO(0.0, 0.0)


def reset_factor(*, fresh_copy: float, fixed_pool: float, reset_share: float) -> float:
    """k as measured: from the online I/O of both strategies and the share of rollouts that reset."""
    if fixed_pool <= 0:
        raise InputError("I/O model: a pool without any online I/O has no reset factor")
    return fresh_copy * reset_share / fixed_pool
