"""Memory of sessions that wait for their trajectories."""

from __future__ import annotations

import os
import time
from pathlib import Path

from benchmarks._databases import selects
from benchmarks._harness import children, memory_of, shown_bytes
from birdrl.errors import InfraError
from birdrl.sql.pool import PoolConfig, ReplicaPool
from birdrl.sql.session import Session
from birdrl.sql.storage import Template

START_S = 120.0
QUOTA_BYTES = 64 << 20


def idle_sessions(template: Path, count: int) -> dict[str, float]:
    """Memory of `count` sessions that have run their SELECTs and wait, in bytes a session.

    `worker_private`: a pool's worker process, most of it Python; `replica_private`: what its session adds to it;
    `in_process_private`: a session when all live in one process.
    """
    before = set(children())
    with ReplicaPool(PoolConfig(workers=count)) as pool:
        workers = _when_started(before, count)
        started = sum(memory_of(pid)[0] for pid in workers)
        leases = [pool.acquire(f"idle-{number}", template) for number in range(count)]
        for number, lease in enumerate(leases):
            for sql in selects(number):
                lease.execute(sql)
        private = sum(memory_of(pid)[0] for pid in workers)
        for lease in leases:
            lease.release()
    mapped = Template(template)
    before_sessions = memory_of(os.getpid())[0]
    sessions = [Session(mapped, QUOTA_BYTES) for _ in range(count)]
    for number, session in enumerate(sessions):
        for sql in selects(number):
            list(session.execute(sql, 60, 60, 10_000))
    together = memory_of(os.getpid())[0] - before_sessions
    for session in sessions:
        session.close()
    mapped.close()
    return {
        "sessions": count,
        "worker_private": private / count,
        "replica_private": (private - started) / count,
        "in_process_private": together / count,
    }


def _when_started(before: set[int], count: int) -> list[int]:
    """Process ids of a new pool's workers, when all of them wait for work."""
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline:
        workers = sorted(set(children()) - before)
        # A worker that waits for its first request sleeps in a system call.
        if len(workers) == count and all(_sleeps(pid) for pid in workers):
            return workers
        time.sleep(0.05)
    raise InfraError(f"{count} workers did not start within {START_S:g} s")


def _sleeps(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "S"


def idle_text(figures: dict[str, float]) -> str:
    """One sentence for people."""
    return (
        f"Private memory of an idle session, {figures['sessions']:.0f} of them on {figures['megabytes']:g} MB: "
        f"{shown_bytes(figures['worker_private'])} for its worker process, of which "
        f"{shown_bytes(figures['replica_private'])} came with the session; "
        f"{shown_bytes(figures['in_process_private'])} when all share one process."
    )
