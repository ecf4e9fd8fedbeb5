"""The replica pool: leases, lazy reset, registry, queue, deadlines (BIRD-RL, Algorithm 1).

Every replica lives in a worker process of its own, on any template: a replica is only its dirty pages, so
there is no copy per database to keep. `need_reset` is set when a dirty replica comes back; the reset (drop
the pages, new connection) happens at the next lease, never at release.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import threading
import time
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType

from birdrl.errors import InfraError, InputError
from birdrl.sql.keeper import Keeper
from birdrl.sql.lease import Lease
from birdrl.sql.process import TRANSFER_TIMEOUT_S, WorkerProcess, WorkerTimeoutError


@dataclass(frozen=True)
class PoolConfig:
    """Sizes and limits of a pool; times in seconds."""

    workers: int = 2  # replicas, one worker process each
    statement_timeout_s: float = 2.0
    acquire_timeout_s: float = 60.0  # waiting for a free replica
    lease_timeout_s: float = 300.0  # an older lease is reclaimed
    max_rows: int = 10_000  # of one statement's result
    memory_mb: int = 512  # address space of a worker beyond its start and its template; SQLite gets half
    overlay_mb: int = 64  # changed pages of one replica


@dataclass
class PoolCounters:
    """What happened so far. `overlay_bytes`: changed pages of all finished leases, the bytes a reset drops."""

    leases: int = 0
    waits: int = 0
    resets: int = 0
    kills: int = 0
    reclaims: int = 0
    deaths: int = 0
    overlay_bytes: int = 0


class Replica:
    """One place in the pool; its fields are Algorithm 1's."""

    def __init__(self, number: int, process: Future[WorkerProcess]) -> None:
        self.number = number
        self.process = process
        self.is_available = True
        self.need_reset = False
        self.template: Path | None = None  # of the latest lease: leasing the same one again is nearly free


class ReplicaPool:
    """Leases replicas to trajectories, first come, first served. Thread-safe; a context manager.

    A trajectory that holds a lease while it waits for a second one can block itself: release first, or use
    two pools.
    """

    def __init__(self, config: PoolConfig | None = None) -> None:
        self.config = config or PoolConfig()
        if self.config.workers < 1:
            raise InputError(f"PoolConfig.workers is {self.config.workers}; at least one worker is needed")
        self.threads = ThreadPoolExecutor(2 * self.config.workers + 2, thread_name_prefix="birdrl-pool")
        self._lock = threading.RLock()
        self._counters = PoolCounters()
        self._registry: dict[str, Lease] = {}
        self._waiting: deque[Future[Replica]] = deque()
        self._closed = False
        self._owner = os.getpid()
        period_s = min(1.0, self.config.lease_timeout_s / 10)
        self._keeper = Keeper(self.config.memory_mb << 20, self._reclaim_expired, period_s)
        self._replicas = [Replica(i, self._keeper.start_worker()) for i in range(self.config.workers)]

    @property
    def counters(self) -> PoolCounters:
        """A snapshot."""
        with self._lock:
            return replace(self._counters)

    def lookup(self, trajectory_id: str) -> Lease:
        """The lease of a trajectory. Raises InfraError when it holds none."""
        with self._lock:
            lease = self._registry.get(trajectory_id)
        if lease is None:
            raise InfraError(f"trajectory {trajectory_id!r} holds no replica; acquire one first")
        return lease

    def acquire(self, trajectory_id: str, template: Path) -> Lease:
        """A pristine replica of `template`.

        Raises InfraError when none gets free within `acquire_timeout_s` or no worker can be started,
        InputError for a template that is not a database or a trajectory that already holds a replica.
        """
        ticket = self._ask(trajectory_id, template)
        try:
            replica = ticket.result(self.config.acquire_timeout_s)
        except TimeoutError as error:
            self._give_up(ticket)
            raise self._queue_error(trajectory_id) from error
        except BaseException:
            self._give_up(ticket)
            raise
        return self._prepare(replica, trajectory_id, template)

    async def acquire_async(self, trajectory_id: str, template: Path) -> Lease:
        """`acquire` without ever blocking the event loop; cancelling it hands back what it got."""
        ticket = self._ask(trajectory_id, template)
        try:
            replica = await asyncio.wait_for(asyncio.wrap_future(ticket), self.config.acquire_timeout_s)
        except TimeoutError as error:
            self._give_up(ticket)
            raise self._queue_error(trajectory_id) from error
        except BaseException:
            self._give_up(ticket)
            raise
        task = self.threads.submit(self._prepare, replica, trajectory_id, template)
        try:
            return await asyncio.wrap_future(task)
        except asyncio.CancelledError:
            task.add_done_callback(lambda done: self._drop(done, replica))
            raise

    def close(self) -> None:
        """Kill every worker. Leases still held fail from now on."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            for ticket in self._waiting:
                if ticket.set_running_or_notify_cancel():
                    ticket.set_exception(InfraError("the replica pool was closed"))
            self._waiting.clear()
            for lease in self._registry.values():
                lease.closed_because = "closed with its pool"
            self._registry.clear()
        self._keeper.close()
        for replica in self._replicas:
            if replica.process.done() and replica.process.exception() is None:
                replica.process.result().close()
        self.threads.shutdown(wait=True, cancel_futures=True)

    def __enter__(self) -> ReplicaPool:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    # --- queue

    def _ask(self, trajectory_id: str, template: Path) -> Future[Replica]:
        if os.getpid() != self._owner:
            raise InfraError("a replica pool cannot be used after fork; make one in each process")
        ticket: Future[Replica] = Future()
        with self._lock:
            if self._closed:
                raise InfraError("the replica pool is closed")
            if trajectory_id in self._registry:
                raise InputError(f"trajectory {trajectory_id!r} already holds a replica; release it first")
            free = [replica for replica in self._replicas if replica.is_available]
            if free:
                # Best a pristine replica of this template, else one whose session is of no use to anybody else.
                best = min(free, key=lambda r: (r.template != template or r.need_reset, r.template is not None))
                best.is_available = False
                ticket.set_running_or_notify_cancel()
                ticket.set_result(best)
            else:
                self._counters.waits += 1
                self._waiting.append(ticket)
        return ticket

    def _give_up(self, ticket: Future[Replica]) -> None:
        """Leave the queue; a replica that arrived at the last moment goes to the next in line."""
        with self._lock:
            if ticket.done() and not ticket.cancelled() and ticket.exception() is None:
                self._give_back(ticket.result())
            else:
                ticket.cancel()
                if ticket in self._waiting:
                    self._waiting.remove(ticket)

    def _queue_error(self, trajectory_id: str) -> InfraError:
        return InfraError(
            f"trajectory {trajectory_id!r} waited {self.config.acquire_timeout_s:g} s for one of "
            f"{self.config.workers} replicas; raise workers or acquire_timeout_s, or release leases earlier"
        )

    def _give_back(self, replica: Replica) -> None:
        with self._lock:
            while self._waiting:
                ticket = self._waiting.popleft()
                if ticket.set_running_or_notify_cancel():
                    ticket.set_result(replica)
                    return
            replica.is_available = True

    def _drop(self, task: Future[Lease], replica: Replica) -> None:
        if task.cancelled():
            self._give_back(replica)
        elif task.exception() is None:
            task.result().release()

    # --- leases

    def _prepare(self, replica: Replica, trajectory_id: str, template: Path) -> Lease:
        """The lazy reset: open `template` in the replica's worker, pristine."""
        try:
            try:
                worker = self._open(replica, template)
            except InfraError:
                # The worker died between two leases. Nothing of this trajectory was in it: once more, in a new one.
                with self._lock:
                    self._counters.deaths += 1
                    self._restart(replica)
                worker = self._open(replica, template)
            with self._lock:
                if self._closed:
                    raise InfraError("the replica pool was closed")
                if trajectory_id in self._registry:
                    raise InputError(f"trajectory {trajectory_id!r} already holds a replica; release it first")
                self._counters.leases += 1
                self._counters.resets += replica.need_reset
                replica.need_reset = False
                replica.template = template
                lease = self._registry[trajectory_id] = Lease(self, replica, worker, trajectory_id, template)
                return lease
        except BaseException:
            self._give_back(replica)
            raise

    def _open(self, replica: Replica, template: Path) -> WorkerProcess:
        worker = replica.process.result(TRANSFER_TIMEOUT_S)
        worker.send("lease", os.path.abspath(template), self.config.overlay_mb << 20)
        try:
            kind, *rest = worker.receive(TRANSFER_TIMEOUT_S)
        except WorkerTimeoutError:
            worker.kill()
            raise InfraError(
                f"SQL worker {worker.pid} did not open {template} within {TRANSFER_TIMEOUT_S:g} s"
            ) from None
        if kind == "refused":
            replica.template = None
            raise InputError(rest[0])
        return worker

    def begin(self, lease: Lease) -> None:
        """A call on the lease starts. Raises InfraError when the lease is over."""
        with self._lock:
            if lease.closed_because:
                raise InfraError(f"the lease of trajectory {lease.trajectory_id!r} was {lease.closed_because}")
            if lease.broken and not lease.killed:
                raise InfraError(f"the SQL worker of trajectory {lease.trajectory_id!r} failed earlier")
            lease.busy = True

    def end(self, lease: Lease) -> None:
        """A call on the lease is over."""
        with self._lock:
            lease.busy = False
            if lease.closed_because:
                self._settle(lease)

    def finish(self, lease: Lease, why: str) -> None:
        """Close a lease, at once or when its running call ends."""
        with self._lock:
            if lease.closed_because:
                return
            lease.closed_because = why
            self._registry.pop(lease.trajectory_id, None)
            if not lease.busy:
                self._settle(lease)

    def replace_worker(self, lease: Lease) -> None:
        """Count a kill and start the next worker while the trajectory still thinks."""
        with self._lock:
            self._counters.kills += 1
            self._restart(lease.replica)

    def _settle(self, lease: Lease) -> None:
        replica = lease.replica
        self._counters.overlay_bytes += lease.overlay_bytes
        replica.need_reset = lease.dirty or lease.broken
        if self._closed:
            return
        if lease.broken and not lease.killed:
            self._counters.deaths += 1
            self._restart(replica)
        self._give_back(replica)

    def _restart(self, replica: Replica) -> None:
        old = replica.process
        replica.template = None
        replica.process = self._keeper.start_worker()
        if old.done() and old.exception() is None:
            old.result().close()

    def _reclaim_expired(self) -> None:
        """Take back leases beyond their deadline; a call still running is killed."""
        now = time.monotonic()
        with self._lock:
            for lease in [lease for lease in self._registry.values() if lease.deadline < now]:
                self._counters.reclaims += 1
                if lease.busy:
                    lease.kill_worker()
                self.finish(
                    lease, f"reclaimed after {self.config.lease_timeout_s:g} s; raise lease_timeout_s if it was in use"
                )


_trajectory_number = itertools.count()


def unique_trajectory_id(purpose: str) -> str:
    """An id for a lease that nobody looks up, unique in this process."""
    return f"{purpose}#{next(_trajectory_number)}"
