"""One prediction against one instance: by its test cases, or by a mode's comparison with its gold SQL."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import apsw

from birdrl.compare.modes import Mode, counted_statements
from birdrl.compare.state import DatabaseState, state_difference
from birdrl.compare.table import ResultTable
from birdrl.errors import GoldError, InfraError
from birdrl.gym.instance import PythonTest
from birdrl.rewards.execution import ExecutionScore, ExecutionScorer
from birdrl.rewards.gold import Gold, GoldStore, Reference, Templates, last_table, may_write
from birdrl.scoring.tasks import Task
from birdrl.sql.lease import SCRIPT_FACTOR, Lease
from birdrl.sql.policy import LIMITS
from birdrl.sql.pool import ReplicaPool, unique_trajectory_id
from birdrl.sql.results import PolicySqlError, StatementResult

MAX_CHARS = LIMITS[apsw.SQLITE_LIMIT_SQL_LENGTH]  # of a prediction, as for one statement everywhere


@dataclass(frozen=True)
class Verdict:
    """`verdict`: 1 right, 0 wrong, None where the instance or the machinery failed (`blame` gold or infra).

    `passed` of `total` test cases; without any, the comparison counts as one. `strict`: in mode critic_compat, what the
    same tests say without the public evaluator's defects. `status` of the prediction's own statements. Seconds.
    `table`: the prediction's last result, for metrics; None without one.
    """

    verdict: Literal[0, 1] | None
    reason: str = ""
    status: str = "ok"
    blame: str = "none"
    passed: int = 0
    total: int = 1
    strict: int | None = None
    pred_seconds: float = 0.0
    gold_seconds: float = 0.0
    table: ResultTable | None = field(default=None, repr=False)
    gold_table: ResultTable | None = field(default=None, repr=False)


class Judge:
    """Scores predictions in one mode. Thread-safe; blocks while SQL runs; holds at most one replica at a time.

    Instances with test cases are judged by these, in modes other than critic_compat without the public evaluator's
    defects. The others are judged by comparing last results and, where statements of either side write, the state of
    the whole database after them.
    """

    def __init__(self, mode: Mode, templates: Templates, pool: ReplicaPool, gold: GoldStore) -> None:
        self.mode = mode
        self._templates = templates
        self._pool = pool
        self._gold = gold
        self._scorer = ExecutionScorer(templates, pool, gold=gold)
        self._issue_passes: dict[tuple[str, tuple[str, ...]], bool] = {}

    def close(self) -> None:
        self._scorer.close()

    def judge(self, task: Task, sqls: Sequence[str]) -> Verdict:
        """Never raises for what the instance or the machinery does wrong: that is a verdict of None."""
        start = time.monotonic()
        total = max(1, len(task.test_cases))
        try:
            if sum(map(len, sqls)) > MAX_CHARS:
                return Verdict(0, f"more than {MAX_CHARS} characters of SQL", "error", "policy", total=total)
            if not any(sql.strip() for sql in sqls):
                return Verdict(0, "no SQL predicted", "empty", "policy", total=total)
            if task.test_cases:
                return self._by_tests(task, sqls)
            return self.compare(task, sqls)
        except GoldError as error:
            return Verdict(None, str(error), "not judged", "gold", pred_seconds=time.monotonic() - start)
        except InfraError as error:
            return Verdict(None, str(error), "not judged", "infra", pred_seconds=time.monotonic() - start)

    # --- test cases

    def _by_tests(self, task: Task, sqls: Sequence[str]) -> Verdict:
        start = time.monotonic()
        score = self._scorer.score(task, sqls)
        strict = int(score.passed == score.total)
        python = [test for test in task.test_cases if isinstance(test, PythonTest)]
        if self.mode.name != "critic_compat" or len(python) < len(task.test_cases):
            return Verdict(
                1 if strict else 0, score.reason, score.status, str(score.blame), score.passed, score.total,
                pred_seconds=time.monotonic() - start, table=_result(score),
            )  # fmt: skip
        verdict = self._compat(task, sqls, [test.source for test in python], start)
        return replace(verdict, strict=strict, table=_result(score))

    def _compat(self, task: Task, sqls: Sequence[str], tests: list[str], start: float) -> Verdict:
        """The public evaluator: the issue must fail, then the prediction must pass, on one database each."""
        key = (task.instance_id, task.issue_sql)
        if key not in self._issue_passes:
            self._issue_passes[key] = bool(task.issue_sql) and self._run_public(task, task.issue_sql, tests)[0]
        right, reason, passed, status = self._run_public(task, sqls, tests)
        if self._issue_passes[key]:
            right, reason = False, "the public evaluator fails the instance: its issue SQL passes all tests"
        return Verdict(
            1 if right else 0, reason, status, "none" if right else "policy", passed, len(tests),
            pred_seconds=time.monotonic() - start,
        )  # fmt: skip

    def _run_public(self, task: Task, sqls: Sequence[str], tests: list[str]) -> tuple[bool, str, int, str]:
        report = self._scorer.sandbox.compat(
            self._templates.path(task.db_id),
            before=task.preprocess_sql,
            pred=sqls,
            sol=task.sol_sql,
            tests=tests,
            conditions=task.conditions,
        )
        passed = sum(ok for ok, _ in report.tests)
        reason = report.message or next((why for ok, why in report.tests if not ok), "")
        return report.status == "ok" and passed == len(tests), reason, passed, report.status

    # --- comparison

    def compare(self, task: Task, sqls: Sequence[str], setup: tuple[str, ...] = ()) -> Verdict:
        """Judge by comparison, whatever test cases there are, both sides after `setup`.

        Raises GoldError when the gold or the set-up does not work, InfraError when the machinery fails.
        """
        gold = self._reference(task, setup, with_state=False)
        if gold.table is None and not gold.writes:
            raise GoldError(f"{task.instance_id}: the gold SQL gives no result table and changes nothing")
        try:
            prepared = self.mode.prepare(list(sqls) if gold.writes else counted_statements(self.mode, sqls))
        except PolicySqlError as error:
            return _wrong(gold, str(error), "error")
        wanted = self._reference(task, setup, with_state=True).state if gold.writes else None
        results, writes, changed = self._run(task, prepared, setup, wanted)
        seconds = sum(result.elapsed_s for result in results)
        if not results:
            return _wrong(gold, "no SQL statement predicted", "empty")
        if not results[-1].ok:
            return _wrong(gold, results[-1].message, results[-1].status, seconds)
        table = last_table(results)
        if table is not None and table.truncated:
            return _wrong(gold, "the result is too large", "error", seconds)
        reason = self._table_difference(task, sqls, table, gold)
        if not reason and writes and wanted is None:
            # The state after a gold that only reads is computed once it is asked for, which is seldom.
            wanted = self._reference(task, setup, with_state=True).state
            results, _, changed = self._run(task, prepared, setup, wanted)
            if not results[-1].ok:
                return _wrong(gold, results[-1].message, results[-1].status, seconds)
        reason = reason or changed
        return Verdict(
            0 if reason else 1, reason, "ok", "policy" if reason else "none", int(not reason), 1,
            pred_seconds=seconds, gold_seconds=gold.elapsed_s,
            table=None if table is None else ResultTable.of(table),
            gold_table=None if gold.table is None else ResultTable.of(gold.table),
        )  # fmt: skip

    def _run(
        self, task: Task, sqls: Sequence[str], setup: tuple[str, ...], wanted: DatabaseState | None
    ) -> tuple[list[StatementResult], bool, str]:
        """Results of the prediction on a replica of its own, whether it may have written, and how the state after it
        differs from the `wanted` one."""
        template = self._templates.path(task.db_id)
        with self._pool.acquire(unique_trajectory_id(f"judge:{task.instance_id}"), template) as lease:
            self._prepare(lease, task, setup)
            dirty_before = lease.dirty
            limit = self._pool.config.statement_timeout_s
            end = time.monotonic() + limit * SCRIPT_FACTOR
            results: list[StatementResult] = []
            for sql in sqls:
                results += lease.execute(sql, timeout_s=limit, script_timeout_s=max(end - time.monotonic(), 0.0))
                if results and not results[-1].ok:
                    return results, True, ""
            writes = bool(results) and may_write(results, dirty_before, lease.dirty)
            if not results or wanted is None:
                return results, writes, ""
            lease.reopen()
            return results, writes, state_difference(lease, limit * SCRIPT_FACTOR, wanted)

    def _prepare(self, lease: Lease, task: Task, setup: tuple[str, ...] = ()) -> None:
        for sql in (*setup, *task.preprocess_sql):
            for result in self._gold.patient(lease, sql):
                if not result.ok:  # it did work on the reference's replica
                    raise InfraError(f"{task.instance_id}: setup failed on the second run: {result.message}")

    def _reference(self, task: Task, setup: tuple[str, ...] = (), *, with_state: bool) -> Gold:
        try:
            sol_sql = tuple(self.mode.prepare(task.sol_sql))
        except PolicySqlError as error:
            raise GoldError(f"{task.instance_id}: {error}") from error
        return self._gold.get(
            Reference(
                task.instance_id,
                task.db_id,
                sol_sql,
                setup,
                preprocess_sql=tuple(task.preprocess_sql),
                with_state=with_state,
            )
        )

    def _table_difference(self, task: Task, sqls: Sequence[str], table: StatementResult | None, gold: Gold) -> str:
        if gold.table is None:
            return ""
        if table is None:
            return "the prediction returns no result table"
        criteria = self.mode.criteria(sqls, task.sol_sql, task.conditions)
        return self.mode.difference(ResultTable.of(table), ResultTable.of(gold.table), criteria)

    # --- for metrics

    def timings(self, task: Task, sqls: Sequence[str], repeats: int) -> tuple[list[float], list[float]] | None:
        """Seconds of gold and of prediction, run in turn on one replica; None unless both only read."""
        template = self._templates.path(task.db_id)
        seconds: tuple[list[float], list[float]] = ([], [])
        with self._pool.acquire(unique_trajectory_id(f"timings:{task.instance_id}"), template) as lease:
            self._prepare(lease, task)
            dirty_before = lease.dirty
            for _ in range(repeats):
                for side, texts in zip(seconds, (task.sol_sql, sqls), strict=True):
                    results = [result for sql in texts for result in self._gold.patient(lease, sql)]
                    if may_write(results, dirty_before, lease.dirty) or not all(result.ok for result in results):
                        return None
                    side.append(sum(result.elapsed_s for result in results))
        return seconds


def _result(score: ExecutionScore) -> ResultTable | None:
    """The prediction's last result on the unperturbed database, None without a complete one."""
    table = score.results[0].prediction if score.results else None
    return None if table is None or table.truncated else ResultTable.of(table)


def _wrong(gold: Gold, reason: str, status: str, seconds: float = 0.0) -> Verdict:
    return Verdict(0, reason, status, "policy", pred_seconds=seconds, gold_seconds=gold.elapsed_s)
