"""What the reference solution gives, computed once on a pristine replica and kept by hashes.

The reference never shares a replica with a prediction. It runs twice: one that gives two results is quarantined, since
no prediction can be held against it.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from birdrl.compare.state import DatabaseState, UnreadableStateError, read_state
from birdrl.compare.syntax import depends_on_clock
from birdrl.errors import GoldError
from birdrl.files import canonical_json, sha256_text
from birdrl.sql.compare import tables_equal
from birdrl.sql.lease import SCRIPT_FACTOR, Lease
from birdrl.sql.pool import ReplicaPool, unique_trajectory_id
from birdrl.sql.results import StatementResult

GOLD_PATIENCE = 5.0  # the reference may take this many times the policy's limit: a busy machine is not its fault


class Templates(Protocol):
    """What scoring needs of a template store."""

    def path(self, db_id: str) -> Path: ...

    def sha256(self, db_id: str) -> str: ...


class UnsteadyGoldError(GoldError):
    """A reference that gives another result each time."""


@dataclass(frozen=True)
class Reference:
    """What is run: the scripts of an instance under one setup, and what is asked of the state after them."""

    instance_id: str
    db_id: str
    sol_sql: tuple[str, ...]
    setup: tuple[str, ...] = ()
    preprocess_sql: tuple[str, ...] = ()
    probes: tuple[str, ...] = ()
    with_state: bool = False


@dataclass(frozen=True)
class Gold:
    """`table`: the last result table, None without one; `last`: the last statement; `probes`: tables by probe query;
    `state`: the whole database after it, if asked for; `writes`: whether the solution may have changed anything;
    `elapsed_s`: seconds its statements took."""

    table: StatementResult | None
    last: StatementResult
    probes: dict[str, StatementResult] = field(default_factory=dict)
    state: DatabaseState | None = None
    writes: bool = False
    elapsed_s: float = 0.0


class GoldStore:
    """References by (template, setup, preprocess, solution, probes), at most `cache_size` of them. Thread-safe.

    Holds at most one replica at a time. A reference that reads the clock is computed anew each time. `quarantined`
    names the instances whose reference is unsteady.
    """

    def __init__(
        self, templates: Templates, pool: ReplicaPool, *, cache_size: int = 4096, timeout_s: float | None = None
    ) -> None:
        """`timeout_s`: seconds for one statement of a reference, by default five times the pool's limit."""
        self._templates = templates
        self._pool = pool
        self._cache_size = cache_size
        self.timeout_s = timeout_s if timeout_s is not None else pool.config.statement_timeout_s * GOLD_PATIENCE
        self._cache: OrderedDict[str, Future[Gold]] = OrderedDict()
        self._lock = threading.Lock()
        self.quarantined: dict[str, str] = {}

    def get(self, reference: Reference) -> Gold:
        """Raises GoldError when the reference is empty, fails, is cut off or is unsteady; InfraError."""
        if any(map(depends_on_clock, reference.sol_sql)):
            return self._compute(reference)
        key = self._key(reference)
        with self._lock:
            future = self._cache.get(key)
            mine = future is None
            if future is None:
                future = self._cache[key] = Future()
                if len(self._cache) > self._cache_size:
                    self._cache.popitem(last=False)
            self._cache.move_to_end(key)
        if mine:
            try:
                future.set_result(self._compute(reference))
            except BaseException as error:  # noqa: BLE001 - raised again by future.result() below
                if not isinstance(error, UnsteadyGoldError):
                    with self._lock:  # a failure is not cached: the machine may do better next time
                        if self._cache.get(key) is future:
                            del self._cache[key]
                future.set_exception(error)
        return future.result()

    def patient(self, lease: Lease, sql: str) -> list[StatementResult]:
        """Run our own or the reference's SQL, with its own time limit."""
        return lease.execute(sql, timeout_s=self.timeout_s, script_timeout_s=self.timeout_s * SCRIPT_FACTOR)

    def _key(self, r: Reference) -> str:
        parts = [r.setup, r.preprocess_sql, r.sol_sql, r.probes, r.with_state]
        return sha256_text(canonical_json([self._templates.sha256(r.db_id), *parts]))

    def _compute(self, reference: Reference) -> Gold:
        if not any(sql.strip() for sql in reference.sol_sql):
            raise GoldError(f"{reference.instance_id}: sol_sql is empty; nothing to compare with")
        with self._lease(reference) as lease:
            self._prepare(lease, reference)
            gold = self._run(lease, reference)
            again = None if gold.writes else self._run(lease, reference)
        if again is None:
            with self._lease(reference) as lease:
                self._prepare(lease, reference)
                again = self._run(lease, reference)
        if difference := _differs(gold, again):
            self.quarantined[reference.instance_id] = difference
            raise UnsteadyGoldError(f"{reference.instance_id}: the reference is unsteady: {difference}")
        return gold

    def _lease(self, reference: Reference) -> Lease:
        template = self._templates.path(reference.db_id)
        return self._pool.acquire(unique_trajectory_id(f"gold:{reference.instance_id}"), template)

    def _prepare(self, lease: Lease, reference: Reference) -> None:
        self._must_run(lease, reference.setup, reference, "setup_sql")
        self._must_run(lease, reference.preprocess_sql, reference, "preprocess_sql")

    def _run(self, lease: Lease, reference: Reference) -> Gold:
        dirty_before = lease.dirty
        results = self._must_run(lease, reference.sol_sql, reference, "sol_sql")
        if not results:
            raise GoldError(f"{reference.instance_id}: sol_sql holds no statement; nothing to compare with")
        table = last_table(results)
        if table is not None and table.truncated:
            limit = self._pool.config.max_rows
            raise GoldError(f"{reference.instance_id}: the solution's result exceeds {limit} rows or the byte limit")
        writes = may_write(results, dirty_before, lease.dirty)
        if reference.probes or reference.with_state:
            lease.reopen()
        found = {}
        for probe in reference.probes:
            answer = last_table(self._must_run(lease, [probe], reference, "probe_sql"))
            if answer is None or answer.truncated:
                raise GoldError(f"{reference.instance_id}: probe_sql gives no complete result table: {probe}")
            found[probe] = answer
        state = self._state(lease, reference) if reference.with_state else None
        return Gold(table, results[-1], found, state, writes, sum(result.elapsed_s for result in results))

    def _state(self, lease: Lease, reference: Reference) -> DatabaseState:
        try:
            return read_state(lease, self.timeout_s * SCRIPT_FACTOR)
        except UnreadableStateError as error:
            raise GoldError(f"{reference.instance_id}: after the solution {error}") from error

    def _must_run(self, lease: Lease, scripts: Sequence[str], reference: Reference, what: str) -> list[StatementResult]:
        results: list[StatementResult] = []
        for sql in scripts:
            results += self.patient(lease, sql)
            if results and not results[-1].ok:
                failed = results[-1]
                raise GoldError(
                    f"{reference.instance_id}: {what} fails ({failed.status}: {failed.message}): {failed.sql}"
                )
        return results


def last_table(results: Sequence[StatementResult]) -> StatementResult | None:
    """The last result table of a run, None without one."""
    return next((result for result in reversed(results) if result.has_table), None)


def may_write(results: Sequence[StatementResult], dirty_before: bool, dirty_after: bool) -> bool:
    """Whether statements may have changed a replica; never False for those that did."""
    if not dirty_before:
        return dirty_after
    return any(result.sql.lstrip()[:6].upper() not in ("SELECT", "VALUES") for result in results)


def _differs(a: Gold, b: Gold) -> str:
    if (a.table is None) != (b.table is None):
        return "a result table in only one of two runs"
    if a.table is not None and b.table is not None and not tables_equal(a.table, b.table, ordered=True):
        return "two runs give two results"
    if any(not tables_equal(table, b.probes[probe], ordered=False) for probe, table in a.probes.items()):
        return "two runs leave two states"
    if a.state is not None and b.state is not None and a.state.difference(b.state):
        return f"two runs leave two states ({a.state.difference(b.state)})"
    return ""
