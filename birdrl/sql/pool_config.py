"""What a pool is told, how several processes share its replicas, and what it counts."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Literal

from birdrl.errors import InputError


@dataclass(frozen=True)
class PoolConfig:
    """Sizes and limits of a pool; times in seconds."""

    workers: int = 2  # replicas, one worker process each; K of Appendix B.5
    statement_timeout_s: float = 2.0
    parse_timeout_s: float = 5.0  # for the syntax tree of one script
    acquire_timeout_s: float = 60.0  # waiting for a free replica
    lease_timeout_s: float = 300.0  # an older lease is reclaimed
    max_rows: int = 10_000  # of one statement's result
    memory_mb: int = 512  # address space of a worker beyond its start and its template; SQLite gets half
    overlay_mb: int = 64  # changed pages and temporary files of one replica, whatever the strategy
    strategy: Literal["overlay", "copy"] = "overlay"  # changed pages in memory, or a file for each replica
    reset: Literal["dirty", "always"] = "dirty"  # which replicas are reset at their next lease
    folder: Path | None = None  # where strategy `copy` keeps its (nameless) files; None: the temporary folder
    agent_workers: int = 1  # processes that share the replicas; W of Appendix B.5
    agent_worker: int = 1  # which of them this one is, from 1; told by whoever starts it


def replica_share(replicas: int, workers: int, worker: int) -> range:
    """The replicas of one of `workers` processes, numbers from 1 on: floor((w-1)K/W) < j <= floor(wK/W).

    Appendix B.5: shares are disjoint, cover all replicas, and differ by at most one. Raises InputError for a
    worker that is not among 1..`workers`.
    """
    if not 1 <= worker <= workers:
        raise InputError(f"agent worker {worker} of {workers}: workers are numbered from 1 to {workers}")
    return range((worker - 1) * replicas // workers + 1, worker * replicas // workers + 1)


@dataclass
class PoolCounters:
    """What happened so far.

    `overlay_bytes`: changed pages of all finished leases, the bytes a reset drops. `written_bytes`: bytes written
    to disk by making and resetting copies. `waits`: leases that had to queue, `wait_s` seconds together, and
    `timeouts` of them in vain. `kills`: statements that could not be interrupted. `deaths`: workers that failed.
    """

    leases: int = 0
    waits: int = 0
    wait_s: float = 0.0
    timeouts: int = 0
    resets: int = 0
    kills: int = 0
    reclaims: int = 0
    deaths: int = 0
    overlay_bytes: int = 0
    written_bytes: int = 0

    def since(self, earlier: PoolCounters) -> PoolCounters:
        """What happened between an earlier snapshot and this one."""
        return PoolCounters(*(getattr(self, f.name) - getattr(earlier, f.name) for f in fields(self)))
