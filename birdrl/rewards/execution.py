"""The execution reward: the share of an instance's tests that a solution passes (BIRD-RL, Eq. 5).

Three things are kept apart: the prediction's replica, a pristine replica for the reference solution (`gold`), and
the comparison, which happens here over typed tables. Tests in Python run in a sandbox (`testcases`). Replicas are
thrown away after use, so `clean_up_sql` is not needed.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Protocol

from birdrl.compare.state import state_difference
from birdrl.compare.syntax import without_output_rounds
from birdrl.errors import GoldError, InfraError
from birdrl.files import canonical_json
from birdrl.gym.instance import FeatureTest, PlanTest, PythonTest, ResultTest, StateTest, TestCase
from birdrl.rewards.gold import Gold, GoldStore, Reference, Templates, last_table
from birdrl.sql.compare import tables_equal
from birdrl.sql.lease import SCRIPT_FACTOR, Lease
from birdrl.sql.pool import ReplicaPool, unique_trajectory_id
from birdrl.sql.results import PolicySqlError, StatementResult, Status
from birdrl.testcases import SandboxConfig, TestSandbox


class Scorable(Protocol):
    """What scoring needs of an instance; `birdrl.gym.instance.Instance` is one."""

    @property
    def instance_id(self) -> str: ...
    @property
    def db_id(self) -> str: ...
    @property
    def preprocess_sql(self) -> Sequence[str]: ...
    @property
    def sol_sql(self) -> Sequence[str]: ...
    @property
    def test_cases(self) -> Sequence[TestCase]: ...
    @property
    def conditions(self) -> Mapping[str, Any]: ...


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


_USING_INDEX = re.compile(r"USING (?:COVERING )?INDEX (.+?)(?: \(|$)")
_AFTERWARDS = ("feature", "plan")  # judged last: a parser that hangs costs the session


class ExecutionScorer:
    """Scores solutions against their instances' tests. Thread-safe; blocks while SQL runs.

    Holds at most one replica at a time. References come from `gold`; a sandbox for tests in Python is started on
    first use, and ends with `close` or with this process.
    """

    def __init__(
        self,
        templates: Templates,
        pool: ReplicaPool,
        *,
        gold: GoldStore | None = None,
        sandbox: TestSandbox | None = None,
    ) -> None:
        self._templates = templates
        self._pool = pool
        self.gold = gold or GoldStore(templates, pool)
        self._given_sandbox = sandbox
        self._own_sandbox: TestSandbox | None = None
        self._lock = threading.Lock()

    @property
    def sandbox(self) -> TestSandbox:
        """Where tests in Python run."""
        if self._given_sandbox is not None:
            return self._given_sandbox
        with self._lock:
            if self._own_sandbox is None:
                limit = self._pool.config.statement_timeout_s
                self._own_sandbox = TestSandbox(
                    SandboxConfig(
                        processes=self._pool.config.workers,
                        statement_timeout_s=limit,
                        script_timeout_s=limit * SCRIPT_FACTOR,
                        overlay_mb=self._pool.config.overlay_mb,
                    )
                )
            return self._own_sandbox

    def close(self) -> None:
        """End the sandbox that this scorer started."""
        with self._lock:
            if self._own_sandbox is not None:
                self._own_sandbox.close()
                self._own_sandbox = None

    def score(self, instance: Scorable, pred_sql: Sequence[str]) -> ExecutionScore:
        """Run `pred_sql` once per distinct setup and judge every test.

        Order on either side: fresh replica, the test's setup_sql, preprocess_sql, then the solution. A
        prediction that does not run on the unperturbed database scores 0, whatever the tests say. An instance
        without tests has one: the result, and the whole state afterwards where the solution writes. Raises
        GoldError when the reference or a test does not work, InfraError when the machinery fails.
        """
        tests: list[TestCase] = list(instance.test_cases) or [ResultTest()]
        if not any(sql.strip() for sql in pred_sql):
            return _all_failed(tests, "the prediction is empty", "empty")
        outcomes: dict[int, TestOutcome] = {}
        pairs: list[ResultPair] = []
        first_status: Status | str = "ok"
        for position, (setup, group) in enumerate(_by_setup(tests).items()):
            gold = self._gold(instance, setup, group)
            status, reason, table = self._judge(instance, pred_sql, setup, group, gold, outcomes)
            pairs.append(ResultPair(setup, table, gold.table))
            if position == 0:
                first_status = status
                if status != "ok":
                    return _all_failed(tests, reason, status)
                outcomes |= self._in_sandbox(instance, pred_sql, group, gold)
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
        instance: Scorable,
        pred_sql: Sequence[str],
        setup: tuple[str, ...],
        group: dict[int, TestCase],
        gold: Gold,
        outcomes: dict[int, TestOutcome],
    ) -> tuple[Status | str, str, StatementResult | None]:
        """Run the prediction under one setup, add the outcomes of that setup's tests, give its last table."""
        template = self._templates.path(instance.db_id)
        with self._pool.acquire(unique_trajectory_id(f"score:{instance.instance_id}"), template) as lease:
            for sql in (*setup, *instance.preprocess_sql):
                for result in self.gold.patient(lease, sql):
                    if not result.ok:  # it did work on the reference's replica
                        raise InfraError(f"{instance.instance_id}: setup failed on the second run: {result.message}")
            results, status, reason = self._run(lease, pred_sql)
            if status == "ok":
                lease.reopen()
                for index, test in sorted(group.items(), key=lambda item: item[1].kind in _AFTERWARDS):
                    if not isinstance(test, PythonTest):
                        failure = self._check(lease, test, results, gold, pred_sql)
                        outcomes[index] = TestOutcome(index, test.kind, not failure, failure)
            else:
                outcomes.update({i: TestOutcome(i, test.kind, False, reason) for i, test in group.items()})
        return status, reason, last_table(results) if status == "ok" else None

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
        test: TestCase,
        results: list[StatementResult],
        gold: Gold,
        pred_sql: Sequence[str],
    ) -> str:
        """Why a test fails, empty if it passes."""
        if isinstance(test, ResultTest):
            if gold.state is not None:
                limit = self._pool.config.statement_timeout_s * SCRIPT_FACTOR
                if difference := state_difference(lease, limit, gold.state):
                    return difference
            if gold.table is None:
                return ""
            table = last_table(results)
            if table is None:
                return "the prediction returns no result table"
            same = tables_equal(table, gold.table, ordered=test.ordered)
            return "" if same else "another result than the solution's"
        if isinstance(test, StateTest):
            probe = last_table(self.gold.patient(lease, test.probe_sql))
            # The policy may have dropped or replaced what the probe reads: that is its failure, not the probe's.
            same = probe is not None and tables_equal(probe, gold.probes[test.probe_sql], ordered=False)
            return "" if same else "another database state than the solution's"
        if isinstance(test, PlanTest):
            return _plan_failure(lease, test, test.query_sql or results[-1].sql)
        if isinstance(test, FeatureTest):
            return _feature_failure(lease, test, pred_sql)
        raise TypeError(f"a test of kind {test.kind} is not judged here")

    def _in_sandbox(
        self, instance: Scorable, pred_sql: Sequence[str], group: dict[int, TestCase], gold: Gold
    ) -> dict[int, TestOutcome]:
        """Outcomes of the tests in Python: the prediction runs once more, on a replica inside the sandbox."""
        tests = {index: test.source for index, test in group.items() if isinstance(test, PythonTest)}
        if not tests:
            return {}
        plain = list(gold.last.rows)
        sources = list(dict.fromkeys(tests.values()))
        report = self.sandbox.strict(
            self._templates.path(instance.db_id),
            before=instance.preprocess_sql,
            pred=[sql for sql in pred_sql if sql.strip()],
            sol=instance.sol_sql,
            gold=(plain, self._unrounded(instance, gold)),
            tests=sources,
            conditions=dict(instance.conditions),
        )
        if report.status == "setup":
            raise InfraError(f"{instance.instance_id}: preprocess_sql failed on the second run: {report.message}")
        if report.status != "ok":
            reason = f"the prediction failed: {report.message}"
            return {index: TestOutcome(index, "python", False, reason) for index in tests}
        verdicts = dict(zip(sources, report.tests, strict=True))
        return {index: TestOutcome(index, "python", *verdicts[source]) for index, source in tests.items()}

    def _unrounded(self, instance: Scorable, gold: Gold) -> list[tuple[Any, ...]]:
        """The reference's last rows without ROUND in the output columns."""
        text = without_output_rounds(instance.sol_sql[-1])
        if text == instance.sol_sql[-1]:
            return list(gold.last.rows)
        sol_sql = (*instance.sol_sql[:-1], text)
        reference = Reference(
            instance.instance_id, instance.db_id, sol_sql, preprocess_sql=tuple(instance.preprocess_sql)
        )
        return list(self.gold.get(reference).last.rows)

    # --- the reference

    def _gold(self, instance: Scorable, setup: tuple[str, ...], group: dict[int, TestCase]) -> Gold:
        probes = sorted({test.probe_sql for test in group.values() if isinstance(test, StateTest)})
        reference = Reference(
            instance.instance_id,
            instance.db_id,
            tuple(instance.sol_sql),
            setup,
            tuple(instance.preprocess_sql),
            tuple(probes),
        )
        gold = self.gold.get(reference)
        if not instance.test_cases and gold.writes:
            gold = self.gold.get(replace(reference, with_state=True))
        if gold.table is None and gold.state is None and any(isinstance(test, ResultTest) for test in group.values()):
            raise GoldError(
                f"{instance.instance_id}: a result test, but the solution returns no result table"
                + ("; ask for the state after it by a state test" if gold.writes else " and changes nothing")
            )
        return gold


def share_passed(instance: Scorable, score: ExecutionScore, *, every_database: bool) -> float:
    """Eq. 5, or with `every_database` (ours) Eq. 5 over tests that differ in more than their set-up: those that do
    not are one test, passed when it passes on every database."""
    if not every_database or not instance.test_cases:
        return score.reward
    groups: dict[str, bool] = {}
    for test, outcome in zip(instance.test_cases, score.tests, strict=True):
        key = canonical_json(test.model_dump(exclude={"setup_sql"}))
        groups[key] = groups.get(key, True) and outcome.passed
    return sum(groups.values()) / len(groups)


def _by_setup(tests: Sequence[TestCase]) -> dict[tuple[str, ...], dict[int, TestCase]]:
    """Tests by the setup they run under, the unperturbed database first. Some kinds need no setup."""
    groups: dict[tuple[str, ...], dict[int, TestCase]] = {}
    for index, test in enumerate(tests):
        setup = () if isinstance(test, FeatureTest | PythonTest) else tuple(test.setup_sql)
        groups.setdefault(setup, {})[index] = test
    return dict(sorted(groups.items(), key=lambda item: bool(item[0])))


def _all_failed(tests: Sequence[TestCase], reason: str, status: Status | str) -> ExecutionScore:
    outcomes = tuple(TestOutcome(index, test.kind, False, reason) for index, test in enumerate(tests))
    return ExecutionScore(0.0, 0, len(tests), outcomes, Blame.POLICY, reason, status)


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


def _plan_failure(lease: Lease, test: PlanTest, query: str) -> str:
    """Why a query's plan uses none of the wanted indexes, empty if it uses one."""
    wanted = {test.index.lower()} if test.index else _indexes_of(lease, test.table)
    plan = lease.execute(f"EXPLAIN QUERY PLAN {query}")
    if not plan or not plan[-1].ok:
        return f"the query cannot be planned: {plan[-1].message if plan else 'there is none'}"
    used = {match.group(1).lower() for row in plan[-1].rows for match in _USING_INDEX.finditer(str(row[3]))}
    return "" if wanted & used else f"the plan uses no index {test.index or 'of ' + test.table}"


def _indexes_of(lease: Lease, table: str) -> set[str]:
    name = table.replace('"', '""')
    return {str(row[1]).lower() for result in lease.execute(f'PRAGMA index_list("{name}")') for row in result.rows}
