"""One trajectory's hold on one replica."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from birdrl.errors import InfraError
from birdrl.sql.features import SqlFeatures
from birdrl.sql.process import TRANSFER_TIMEOUT_S, WorkerProcess, WorkerTimeoutError
from birdrl.sql.progress import Phase, WorkerState
from birdrl.sql.results import PolicySqlError, StatementResult

if TYPE_CHECKING:
    from birdrl.sql.pool import ReplicaPool
    from birdrl.sql.replica import Replica

KILL_GRACE_S = 0.25  # after a statement's limit, before its worker is killed
SCRIPT_FACTOR = 5  # a script may take this many statement limits, unless the caller says otherwise


class Lease:
    """A replica of `template` that belongs to one trajectory until released (BIRD-RL, Algorithm 1).

    A context manager. Calls from several threads are served one after the other. The registry's entry is the lease
    itself: agent worker, database and replica are `worker_id`, `template` and `replica`. `dirty`: the replica no
    longer equals its template, or may not. `killed`: a statement had to be killed and took the session with it.
    `deadline`: when the pool takes the lease back from its `owner`, in seconds of the monotonic clock.
    """

    def __init__(
        self,
        pool: ReplicaPool,
        replica: Replica,
        worker: WorkerProcess,
        trajectory_id: str,
        template: Path,
        owner: str,
    ) -> None:
        self.trajectory_id = trajectory_id
        self.template = template
        self.replica = replica
        self.worker_id = pool.config.agent_worker
        self.owner = owner
        self.dirty = False
        self.killed = False
        self.overlay_bytes = 0
        self.deadline = time.monotonic() + pool.config.lease_timeout_s
        self.closed_because = ""
        self.busy = False
        self.broken = False
        self._pool = pool
        self._worker = worker
        self._turn = threading.Lock()

    def execute(
        self,
        script: str,
        *,
        timeout_s: float | None = None,
        max_rows: int | None = None,
        script_timeout_s: float | None = None,
    ) -> list[StatementResult]:
        """Run a script; stop after the first statement that is not ok.

        `timeout_s` limits each statement, `script_timeout_s` all of them together (default: five times as
        much), in seconds. A statement that cannot be interrupted is killed within 0.25 s after its limit:
        status "killed", and so is every later call of this lease, as its session is lost. Scripts without a
        statement give an empty list. Raises InfraError when the machinery fails.
        """
        limit = self._pool.config.statement_timeout_s if timeout_s is None else timeout_s
        rows = self._pool.config.max_rows if max_rows is None else max_rows
        total = limit * SCRIPT_FACTOR if script_timeout_s is None else script_timeout_s
        results: list[StatementResult] = []
        with self._use() as worker:
            if self.killed:
                return [_killed(script, "an earlier statement was killed and the session is lost")]
            call = _Call(script, time.monotonic(), limit, total)
            worker.send("execute", script, limit, total, rows)
            while True:
                try:
                    kind, *rest = worker.receive(call.deadline - time.monotonic())
                except WorkerTimeoutError:
                    if call.still_in_time(worker.state()):
                        continue
                    self._kill(worker)
                    results.append(_killed(call.running, f"killed after {limit:.3g} s; the session is lost", limit))
                    return results
                if kind == "result":
                    results.append(StatementResult(*rest[0]))
                    call.deadline = time.monotonic() + limit + KILL_GRACE_S
                else:
                    self._ended(kind, rest)
                    return results

    def reopen(self) -> None:
        """A new connection on the same replica: committed state stays, temporary objects, open transactions
        and pragmas go. Without effect on a killed session. Raises InfraError."""
        with self._use() as worker:
            if not self.killed:
                worker.send("reopen")
                kind, *rest = self._answer(worker)
                self._ended(kind, rest)

    def features(self, script: str) -> SqlFeatures:
        """The SQL features of a script, read off its syntax tree inside the worker.

        Raises PolicySqlError when it does not parse in time (the session is lost then) or not at all.
        """
        with self._use() as worker:
            if self.killed:
                raise PolicySqlError("an earlier statement was killed and the session is lost")
            limit = self._pool.config.parse_timeout_s
            worker.send("features", script)
            self._answer(worker)  # the parser is loaded
            try:
                kind, *rest = worker.receive(limit)
            except WorkerTimeoutError:
                self._kill(worker)
                raise PolicySqlError(f"parsing took more than {limit:g} s") from None
            if kind == "unparsed":
                raise PolicySqlError(rest[0])
            names, tables, columns, statements = rest
            return SqlFeatures(frozenset(names), frozenset(tables), frozenset(columns), statements)

    async def execute_async(
        self,
        script: str,
        *,
        timeout_s: float | None = None,
        max_rows: int | None = None,
        script_timeout_s: float | None = None,
    ) -> list[StatementResult]:
        """`execute` without blocking the event loop. A cancelled call still runs to its end in its thread."""
        call = partial(self.execute, script, timeout_s=timeout_s, max_rows=max_rows, script_timeout_s=script_timeout_s)
        return await asyncio.get_running_loop().run_in_executor(self._pool.threads, call)

    def release(self) -> None:
        """Hand the replica back. Never blocks: a call still running hands it back when it ends. Further calls
        do nothing."""
        self._pool.finish(self, "released")

    def kill_worker(self) -> None:
        """For the pool: end a call that runs beyond the lease's deadline."""
        self._worker.kill()

    def __enter__(self) -> Lease:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.release()

    @contextmanager
    def _use(self) -> Iterator[WorkerProcess]:
        with self._turn:
            self._pool.begin(self)
            try:
                yield self._worker
            except InfraError as error:
                self.broken = True
                reason = f" (the lease was {self.closed_because})" if self.closed_because else ""
                raise InfraError(f"trajectory {self.trajectory_id!r}: {error}{reason}") from error
            except BaseException as error:
                # Whatever else happened between request and reply, the conversation is out of step.
                self.broken = self.broken or not isinstance(error, PolicySqlError)
                raise
            finally:
                self._pool.end(self)

    def _answer(self, worker: WorkerProcess) -> tuple[Any, ...]:
        try:
            return worker.receive(TRANSFER_TIMEOUT_S)
        except WorkerTimeoutError:
            worker.kill()
            raise InfraError(f"SQL worker {worker.pid} did not answer within {TRANSFER_TIMEOUT_S:g} s") from None

    def _ended(self, kind: str, rest: list[Any]) -> None:
        """The worker's last reply to a call: the state of the replica, or what the machine refused it."""
        if kind == "failed":
            raise InfraError(f"{rest[0]}; results of this replica are worthless, and so is the trajectory")
        self.dirty, self.overlay_bytes = rest

    def _kill(self, worker: WorkerProcess) -> None:
        self.killed = self.dirty = self.broken = True
        worker.kill()
        self._pool.replace_worker(self)


@dataclass
class _Call:
    """One `execute` seen from outside: when the worker has to be killed. Times in seconds, of the monotonic clock."""

    running: str  # the statement that has the worker, the whole script until one is known
    started: float
    limit: float
    total: float

    def __post_init__(self) -> None:
        self.deadline = self.started + min(self.limit, self.total) + KILL_GRACE_S

    def still_in_time(self, state: WorkerState) -> bool:
        """After the deadline: whether the worker has since begun something that may take longer."""
        if state.since < self.started:  # it has not even read the request
            return False
        if state.phase is Phase.RUNNING:
            self.running = state.sql
        packing = state.phase is Phase.PACKING  # our own work, not the statement's
        self.deadline = state.since + (TRANSFER_TIMEOUT_S if packing else self.limit + KILL_GRACE_S)
        return self.deadline > time.monotonic()


def _killed(sql: str, message: str, elapsed_s: float = 0.0) -> StatementResult:
    return StatementResult(sql, "killed", message=message, elapsed_s=elapsed_s)
