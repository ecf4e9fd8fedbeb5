"""The replica pool: leases, lazy reset, registry, queue, deadlines (BIRD-RL, Algorithm 1).

Every replica lives in a worker process of its own. With strategy `overlay` it is only its dirty pages, on any
template, so there is no copy per database to keep; with strategy `copy` it has a file for each database it has
served. `need_reset` is set when a dirty replica comes back; the reset happens at the next lease, never at release.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import TracebackType

from birdrl.errors import InfraError, InputError
from birdrl.sql.keeper import Keeper
from birdrl.sql.lease import Lease
from birdrl.sql.pool_config import PoolConfig, PoolCounters, replica_share
from birdrl.sql.process import WorkerProcess
from birdrl.sql.replica import Opened, Replica, ReplicaFileError

__all__ = ["PoolConfig", "PoolCounters", "ReplicaPool", "replica_share", "unique_trajectory_id"]

_log = logging.getLogger(__name__)


class ReplicaPool:
    """Leases replicas to trajectories, first come, first served. Thread-safe; a context manager.

    A trajectory that holds a lease while it waits for a second one can block itself: release first, or use
    two pools.
    """

    def __init__(self, config: PoolConfig | None = None) -> None:
        self.config = config = config or PoolConfig()
        if config.workers < 1:
            raise InputError(f"PoolConfig.workers is {config.workers}; at least one worker is needed")
        share = replica_share(config.workers, config.agent_workers, config.agent_worker)
        if not share:
            raise InputError(
                f"PoolConfig.workers is {config.workers} for {config.agent_workers} agent workers: number "
                f"{config.agent_worker} would have no replica; raise workers"
            )
        self.threads = ThreadPoolExecutor(2 * len(share) + 2, thread_name_prefix="birdrl-pool")
        self._lock = threading.RLock()
        self._counters = PoolCounters()
        self._registry: dict[str, Lease] = {}
        self._waiting: deque[Future[Replica]] = deque()
        self._closed = False
        self._process = os.getpid()
        period_s = min(1.0, config.lease_timeout_s / 10)
        self._keeper = Keeper(self._start_worker, self._reclaim_expired, period_s)
        self._replicas = [Replica(number, config, self._keeper.start_worker()) for number in share]

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

    @property
    def disk_bytes(self) -> int:
        """Disk that the replicas occupy right now; nothing with strategy `overlay`."""
        with self._lock:
            return sum(replica.disk_bytes for replica in self._replicas)

    def materialise(self, templates: Iterable[Path]) -> int:
        """With strategy `copy`, write every replica's copy of `templates` ahead of the first lease.

        What is not written here is written at its first lease. Returns bytes written; none with strategy
        `overlay`, which has nothing to prepare. Raises InputError for a file that is no template, InfraError when
        the disk refuses.
        """
        written = sum(replica.materialise(path) for path in templates for replica in self._replicas)
        with self._lock:
            self._counters.written_bytes += written
        return written

    def acquire(self, trajectory_id: str, template: Path, *, owner: str = "") -> Lease:
        """A pristine replica of `template`. `owner` is who has to release it, by default this thread's name.

        Raises InfraError when none gets free within `acquire_timeout_s` or no worker can be started,
        InputError for a template that is not a database or a trajectory that already holds a replica.
        """
        owner = owner or threading.current_thread().name
        replica = self._ask(trajectory_id, template)
        if isinstance(replica, Future):
            with self._in_queue(replica, trajectory_id):
                replica = replica.result(self.config.acquire_timeout_s)
        return self._renew(replica, trajectory_id, template, owner) or self._prepare(
            replica, trajectory_id, template, owner
        )

    async def acquire_async(self, trajectory_id: str, template: Path, *, owner: str = "") -> Lease:
        """`acquire` without ever blocking the event loop; cancelling it hands back what it got.

        By default the owner is the running task, by name.
        """
        running = asyncio.current_task()
        owner = owner or (running.get_name() if running else "")
        replica = self._ask(trajectory_id, template)
        if isinstance(replica, Future):
            with self._in_queue(replica, trajectory_id):
                async with asyncio.timeout(self.config.acquire_timeout_s):
                    replica = await asyncio.wrap_future(replica)
        if lease := self._renew(replica, trajectory_id, template, owner):
            return lease
        task = self.threads.submit(self._prepare, replica, trajectory_id, template, owner)
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
        for replica in self._replicas:
            replica.close()

    def __enter__(self) -> ReplicaPool:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    # --- queue

    def _ask(self, trajectory_id: str, template: Path) -> Replica | Future[Replica]:
        """A free replica, or a place in the queue for one."""
        if os.getpid() != self._process:
            raise InfraError("a replica pool cannot be used after fork; make one in each process")
        with self._lock:
            if self._closed:
                raise InfraError("the replica pool is closed")
            if trajectory_id in self._registry:
                raise InputError(f"trajectory {trajectory_id!r} already holds a replica; release it first")
            free = [replica for replica in self._replicas if replica.is_available]
            if free:
                best = _cheapest(free, str(template))
                best.is_available = False
                return best
            ticket: Future[Replica] = Future()
            self._counters.waits += 1
            self._waiting.append(ticket)
            return ticket

    @contextmanager
    def _in_queue(self, ticket: Future[Replica], trajectory_id: str) -> Iterator[None]:
        """Around waiting for `ticket`: the time is counted, and whoever stops waiting leaves the queue."""
        asked = time.monotonic()
        try:
            yield
        except TimeoutError as error:
            self._give_up(ticket)
            raise self._queue_error(trajectory_id) from error
        except BaseException:
            self._give_up(ticket)
            raise
        finally:
            with self._lock:
                self._counters.wait_s += time.monotonic() - asked

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
        with self._lock:
            self._counters.timeouts += 1
            holders = ", ".join(sorted({lease.owner for lease in self._registry.values()})[:5])
        return InfraError(
            f"trajectory {trajectory_id!r} waited {self.config.acquire_timeout_s:g} s for one of "
            f"{len(self._replicas)} replicas (held by {holders or 'nobody on record'}); raise workers or "
            "acquire_timeout_s, or release leases earlier"
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

    def _renew(self, replica: Replica, trajectory_id: str, template: Path, owner: str) -> Lease | None:
        """The lazy reset where it takes no waiting; None: `_prepare` has to do it."""
        try:
            opened = replica.renew(template)
        except InfraError:  # the worker died this very moment; a new one has to open the template
            return None
        return self._register(replica, opened, trajectory_id, template, owner) if opened else None

    def _prepare(self, replica: Replica, trajectory_id: str, template: Path, owner: str) -> Lease:
        """The lazy reset: open `template` in the replica's worker, pristine. Takes a while."""
        try:
            try:
                opened = replica.open(template)
            except ReplicaFileError:
                raise
            except InfraError:
                # The worker died between two leases. Nothing of this trajectory was in it: once more, in a new one.
                with self._lock:
                    self._counters.deaths += 1
                    self._restart(replica)
                opened = replica.open(template)
        except BaseException:
            self._give_back(replica)
            raise
        return self._register(replica, opened, trajectory_id, template, owner)

    def _register(self, replica: Replica, opened: Opened, trajectory_id: str, template: Path, owner: str) -> Lease:
        with self._lock:
            self._counters.resets += opened.was_reset
            self._counters.written_bytes += opened.written_bytes
            if self._closed or trajectory_id in self._registry:
                self._give_back(replica)
                if self._closed:
                    raise InfraError("the replica pool was closed")
                raise InputError(f"trajectory {trajectory_id!r} already holds a replica; release it first")
            self._counters.leases += 1
            lease = Lease(self, replica, opened.worker, trajectory_id, template, owner)
            self._registry[trajectory_id] = lease
            return lease

    def _start_worker(self, folder: int) -> WorkerProcess:
        return WorkerProcess(self.config.memory_mb << 20, folder, copies=self.config.strategy == "copy")

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
        replica.returned(dirty=lease.dirty or lease.broken)
        if self._closed:
            return
        if lease.broken and not lease.killed:
            self._counters.deaths += 1
            self._restart(replica)
        self._give_back(replica)

    def _restart(self, replica: Replica) -> None:
        self._keeper.retire(replica.restart(self._keeper.start_worker()))

    def _reclaim_expired(self) -> None:
        """Take back leases beyond their deadline; a call still running is killed."""
        now = time.monotonic()
        with self._lock:
            for lease in [lease for lease in self._registry.values() if lease.deadline < now]:
                self._counters.reclaims += 1
                _log.warning(
                    "trajectory %r, owner %s, kept replica %d for more than %g s: reclaimed",
                    lease.trajectory_id, lease.owner, lease.replica.number, self.config.lease_timeout_s,
                )  # fmt: skip
                if lease.busy:
                    lease.kill_worker()
                self.finish(
                    lease, f"reclaimed after {self.config.lease_timeout_s:g} s; raise lease_timeout_s if it was in use"
                )


def _cheapest(replicas: list[Replica], template: str) -> Replica:
    """The first that costs nothing, else the one that costs least."""
    for replica in replicas:
        if replica.template == template and not replica.need_reset:
            return replica
    return min(replicas, key=lambda replica: replica.cost(template))


_trajectory_number = itertools.count()


def unique_trajectory_id(purpose: str) -> str:
    """An id for a lease that nobody looks up, unique in this process."""
    return f"{purpose}#{next(_trajectory_number)}"
