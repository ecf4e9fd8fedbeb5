"""The execution reward: the share of an instance's tests that a solution passes (BIRD-RL, Eq. 5).

Three things are kept apart: the prediction's replica, a pristine replica for the reference solution, and
the comparison, which happens here over typed tables. Replicas are thrown away after use, so `clean_up_sql`
is not needed.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from birdrl.errors import GoldError, InfraError
from birdrl.files import canonical_json, sha256_text
from birdrl.gym.instance import FeatureTest, Instance, ResultTest, StateTest
from birdrl.sql.compare import tables_equal
from birdrl.sql.lease import SCRIPT_FACTOR, Lease
from birdrl.sql.pool import ReplicaPool, unique_trajectory_id
from birdrl.sql.results import PolicySqlError, StatementResult, Status

GOLD_PATIENCE = 5.0  # the reference may take this many times the policy's limit: a busy machine is not its fault


class Templates(Protocol):
    """What scoring needs of a template store."""

    def path(self, db_id: str) -> Path: ...

    def sha256(self, db_id: str) -> str: ...


class Blame(StrEnum):
    """Who is responsible for an outcome: nobody, the policy, the machinery, or the instance."""

    NONE = "none"
    POLICY = "policy"
    INFRA = "infra"
    GOLD = "gold"


@dataclass(frozen=True)
class TestOutcome:
    """One test: its place in `test_cases`, its kind, and why it failed (empty if it passed)."""

    __test__ = False  # not a class of tests, whatever pytest may think of the name

    index: int
    kind: str
    passed: bool
    reason: str


@dataclass(frozen=True)
class ResultPair:
    """Last result tables of prediction and reference under one setup; None where a side gives none."""

    setup: tuple[str, ...]
    prediction: StatementResult | None
    reference: StatementResult | None


@dataclass(frozen=True)
class ExecutionScore:
    """`reward` = passed / total (Eq. 5), in [0, 1]. `status` is that of the prediction's own statements,
    "empty" when it holds none. `results`: one pair per setup, none when the prediction does not run."""

    reward: float
    passed: int
    total: int
    tests: tuple[TestOutcome, ...]
    blame: Blame
    reason: str
    status: Status | str
    results: tuple[ResultPair, ...] = field(default=(), repr=False)

    @property
    def solved(self) -> bool:
        """Whether every test passed."""
        return self.total > 0 and self.passed == self.total


@dataclass(frozen=True)
class _Gold:
    """What the reference solution gives under one setup: its last result table and the probes' tables."""

    table: StatementResult | None
    probes: dict[str, StatementResult]


AnyTest = ResultTest | StateTest | FeatureTest


class ExecutionScorer:
    """Scores solutions against their instances' tests. Thread-safe; blocks while SQL runs.

    Holds at most one replica at a time. Reference results are computed once per (template, setup,
    preprocess, solution, probes) and cached, `cache_size` of them.
    """

    def __init__(self, templates: Templates, pool: ReplicaPool, *, cache_size: int = 4096) -> None:
        self._templates = templates
        self._pool = pool
        self._cache_size = cache_size
        self._cache: OrderedDict[str, Future[_Gold]] = OrderedDict()
        self._lock = threading.Lock()

    def score(self, instance: Instance, pred_sql: Sequence[str]) -> ExecutionScore:
        """Run `pred_sql` once per distinct setup and judge every test.

        Order on either side: fresh replica, the test's setup_sql, preprocess_sql, then the solution. A
        prediction that does not run on the unperturbed database scores 0, whatever the tests say. Raises
        GoldError when the reference or a test does not work, InfraError when the machinery fails.
        """
        tests: list[AnyTest] = list(instance.test_cases) or [ResultTest()]
        if not any(sql.strip() for sql in pred_sql):
            return _all_failed(tests, "the prediction is empty", "empty")
        outcomes: dict[int, TestOutcome] = {}
        pairs: list[ResultPair] = []
        first_status: Status | str = "ok"
        for position, (setup, group) in enumerate(_by_setup(tests).items()):
            gold = self._gold(instance, setup, group)
            if gold.table is None and any(isinstance(test, ResultTest) for test in group.values()):
                raise GoldError(f"{instance.instance_id}: a result test, but the solution returns no result table")
            status, reason, table = self._judge(instance, pred_sql, setup, group, gold, outcomes)
            pairs.append(ResultPair(setup, table, gold.table))
            if position == 0:
                first_status = status
                if status != "ok":
                    return _all_failed(tests, reason, status)
        ordered = tuple(outcomes[index] for index in range(len(tests)))
        passed = sum(outcome.passed for outcome in ordered)
        failure = next((f"test {o.index} ({o.kind}): {o.reason}" for o in ordered if not o.passed), "")
        blame = Blame.POLICY if failure else Blame.NONE
        return ExecutionScore(
            passed / len(tests), passed, len(tests), ordered, blame, failure, first_status, tuple(pairs)
        )

    # --- the prediction

    def _judge(
        self,
        instance: Instance,
        pred_sql: Sequence[str],
        setup: tuple[str, ...],
        group: dict[int, AnyTest],
        gold: _Gold,
        outcomes: dict[int, TestOutcome],
    ) -> tuple[Status | str, str, StatementResult | None]:
        """Run the prediction under one setup, add the outcomes of that setup's tests, give its last table."""
        template = self._templates.path(instance.db_id)
        with self._pool.acquire(unique_trajectory_id(f"score:{instance.instance_id}"), template) as lease:
            for sql in (*setup, *instance.preprocess_sql):
                for result in self._patient(lease, sql):
                    if not result.ok:  # it did work on the reference's replica
                        raise InfraError(f"{instance.instance_id}: setup failed on the second run: {result.message}")
            results, status, reason = self._run(lease, pred_sql)
            if status == "ok":
                # State before features: a parser that hangs costs the session.
                lease.reopen()
                for index, test in sorted(group.items(), key=lambda item: item[1].kind == "feature"):
                    failure = self._check(lease, test, results, gold, pred_sql)
                    outcomes[index] = TestOutcome(index, test.kind, not failure, failure)
            else:
                outcomes.update({i: TestOutcome(i, test.kind, False, reason) for i, test in group.items()})
        return status, reason, _last_table(results) if status == "ok" else None

    def _run(self, lease: Lease, pred_sql: Sequence[str]) -> tuple[list[StatementResult], Status | str, str]:
        limit = self._pool.config.statement_timeout_s
        end = time.monotonic() + limit * SCRIPT_FACTOR  # for all statements: many slow ones are the policy's fault
        results: list[StatementResult] = []
        for sql in pred_sql:
            results += lease.execute(sql, timeout_s=limit, script_timeout_s=max(end - time.monotonic(), 0.0))
            if results and not results[-1].ok:
                return results, results[-1].status, f"the prediction failed: {results[-1].message}"
        if not results:
            return results, "empty", "the prediction holds no SQL statement"
        return results, "ok", ""

    def _check(
        self,
        lease: Lease,
        test: AnyTest,
        results: list[StatementResult],
        gold: _Gold,
        pred_sql: Sequence[str],
    ) -> str:
        """Why a test fails, empty if it passes."""
        if isinstance(test, ResultTest):
            table = _last_table(results)
            if table is None:
                return "the prediction returns no result table"
            same = gold.table is not None and tables_equal(table, gold.table, ordered=test.ordered)
            return "" if same else "another result than the solution's"
        if isinstance(test, StateTest):
            probe = _last_table(self._patient(lease, test.probe_sql))
            # The policy may have dropped or replaced what the probe reads: that is its failure, not the probe's.
            same = probe is not None and tables_equal(probe, gold.probes[test.probe_sql], ordered=False)
            return "" if same else "another database state than the solution's"
        return _feature_failure(lease, test, pred_sql)

    def _patient(self, lease: Lease, sql: str) -> list[StatementResult]:
        return lease.execute(sql, timeout_s=self._pool.config.statement_timeout_s * GOLD_PATIENCE)

    # --- the reference

    def _gold(self, instance: Instance, setup: tuple[str, ...], group: dict[int, AnyTest]) -> _Gold:
        probes = sorted({test.probe_sql for test in group.values() if isinstance(test, StateTest)})
        parts = [setup, instance.preprocess_sql, instance.sol_sql, probes]
        key = sha256_text(canonical_json([self._templates.sha256(instance.db_id), *parts]))
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
                future.set_result(self._compute_gold(instance, setup, probes))
            except BaseException as error:  # noqa: BLE001 - raised again by future.result() below
                with self._lock:  # a failure is not cached: the machine may do better next time
                    if self._cache.get(key) is future:
                        del self._cache[key]
                future.set_exception(error)
        return future.result()

    def _compute_gold(self, instance: Instance, setup: tuple[str, ...], probes: list[str]) -> _Gold:
        if not any(sql.strip() for sql in instance.sol_sql):
            raise GoldError(f"{instance.instance_id}: sol_sql is empty; nothing to compare with")
        template = self._templates.path(instance.db_id)
        with self._pool.acquire(unique_trajectory_id(f"gold:{instance.instance_id}"), template) as lease:
            self._must_run(lease, setup, instance, "setup_sql")
            self._must_run(lease, instance.preprocess_sql, instance, "preprocess_sql")
            table = _last_table(self._must_run(lease, instance.sol_sql, instance, "sol_sql"))
            lease.reopen()
            found = {}
            for probe in probes:
                answer = _last_table(self._must_run(lease, [probe], instance, "probe_sql"))
                if answer is None or answer.truncated:
                    raise GoldError(f"{instance.instance_id}: probe_sql gives no complete result table: {probe}")
                found[probe] = answer
        if table is not None and table.truncated:
            raise GoldError(f"{instance.instance_id}: the solution's result exceeds {self._pool.config.max_rows} rows")
        return _Gold(table, found)

    def _must_run(self, lease: Lease, scripts: Sequence[str], instance: Instance, field: str) -> list[StatementResult]:
        results: list[StatementResult] = []
        for sql in scripts:
            results += self._patient(lease, sql)
            if results and not results[-1].ok:
                failed = results[-1]
                raise GoldError(
                    f"{instance.instance_id}: {field} fails ({failed.status}: {failed.message}): {failed.sql}"
                )
        return results


def share_passed(instance: Instance, score: ExecutionScore, *, every_database: bool) -> float:
    """Eq. 5, or with `every_database` (ours) Eq. 5 over tests that differ in more than their set-up: those that do
    not are one test, passed when it passes on every database."""
    if not every_database or not instance.test_cases:
        return score.reward
    groups: dict[str, bool] = {}
    for test, outcome in zip(instance.test_cases, score.tests, strict=True):
        key = canonical_json(test.model_dump(exclude={"setup_sql"}))
        groups[key] = groups.get(key, True) and outcome.passed
    return sum(groups.values()) / len(groups)


def _by_setup(tests: Sequence[AnyTest]) -> dict[tuple[str, ...], dict[int, AnyTest]]:
    """Tests by the setup they run under, the unperturbed database first. Feature tests need no setup."""
    groups: dict[tuple[str, ...], dict[int, AnyTest]] = {}
    for index, test in enumerate(tests):
        setup = () if isinstance(test, FeatureTest) else tuple(test.setup_sql)
        groups.setdefault(setup, {})[index] = test
    return dict(sorted(groups.items(), key=lambda item: bool(item[0])))


def _all_failed(tests: Sequence[AnyTest], reason: str, status: Status | str) -> ExecutionScore:
    outcomes = tuple(TestOutcome(index, test.kind, False, reason) for index, test in enumerate(tests))
    return ExecutionScore(0.0, 0, len(tests), outcomes, Blame.POLICY, reason, status)


def _last_table(results: Sequence[StatementResult]) -> StatementResult | None:
    return next((result for result in reversed(results) if result.has_table), None)


def _feature_failure(lease: Lease, test: FeatureTest, pred_sql: Sequence[str]) -> str:
    names: set[str] = set()
    try:
        for sql in pred_sql:
            names |= lease.features(sql).names
    except PolicySqlError as error:
        return str(error)
    missing = sorted(set(test.required) - names)
    present = sorted(set(test.forbidden) & names)
    return "; ".join(
        [f"without required {', '.join(missing)}"] * bool(missing)
        + [f"with forbidden {', '.join(present)}"] * bool(present)
    )
