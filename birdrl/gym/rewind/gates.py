"""The gates: no issue enters the gym unless its solution passes and its buggy SQL fails (SQL-Rewind, Algorithm 1).

Executed through the pool and the scorer that training uses, so what passes here works there.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import apsw

from birdrl.errors import GoldError
from birdrl.files import canonical_json, sha256_text
from birdrl.gym.instance import BugRecord, FeatureTest, Instance, ResultTest, StateTest
from birdrl.gym.rewind.data import DataView, Rows
from birdrl.gym.rewind.draft import Draft, Test
from birdrl.gym.rewind.perturb import setups
from birdrl.gym.rewind.tree import tables_of
from birdrl.gym.templates import TemplateStore
from birdrl.rewards.execution import ExecutionScorer
from birdrl.sql.compare import tables_equal
from birdrl.sql.lease import Lease
from birdrl.sql.pool import ReplicaPool, unique_trajectory_id
from birdrl.sql.results import StatementResult

MAX_SQL_CHARS = 320  # of the issue's and of the solution's statements together with their separators
MIN_WORDS, MAX_WORDS = 3, 45
PERTURBATIONS = 6  # candidate set-ups tried for the second test
_NOT_DETERMINISTIC = re.compile(r"\bRANDOM\b|\bRANDOMBLOB\b|'now'|\bCURRENT_(DATE|TIME|TIMESTAMP)\b", re.IGNORECASE)


class GateFailure(Exception):
    """A draft does not pass; the message is the reason that quarantine and statistics show."""


@dataclass(frozen=True)
class _Trial:
    """Solution and issue on one (perturbed) database: the solution's tables, whether the issue ran and differs."""

    tables: tuple[StatementResult, ...]
    issue_ran: bool
    differs: bool


class Gates:
    """All gates of one template store. Thread-safe: every check leases its own replicas."""

    def __init__(self, store: TemplateStore, pool: ReplicaPool) -> None:
        self._store = store
        self._pool = pool
        self._scorer = ExecutionScorer(store, pool)

    def view(self, db_id: str) -> DataView:
        """Schema and rows of a template. Raises GoldError from `query` when a SELECT of ours fails."""

        def query(sql: str) -> Rows:
            with self._lease(db_id) as lease:
                result = lease.execute(sql, timeout_s=5 * self._pool.config.statement_timeout_s)[-1]
            if result.status != "ok":
                raise GoldError(f"{db_id}: {result.message} in {sql}; check the template database")
            return list(result.rows)

        return DataView(self._store.schema(db_id), query)

    def check(self, draft: Draft, data: DataView, rng: Random) -> Instance:
        """The gated instance, its id still empty. Raises GateFailure with the reason, InfraError when workers fail."""
        check_form(draft, data)
        base = self._trial(draft, ())
        if base is not None and not base.differs and draft.perturb_first:
            # These rows hide the bug: the issue is about a database that went through the draft's own set-up.
            draft = replace(draft, preprocess_sql=(*draft.perturb_first, *draft.preprocess_sql), perturb_first=())
            base = self._trial(draft, ())
        if base is None:
            raise GateFailure("the solution does not run")
        if any(table.truncated for table in base.tables):
            raise GateFailure(f"the solution's result has more than {self._pool.config.max_rows} rows")
        if base.issue_ran == draft.issue_fails:
            raise GateFailure("the issue runs, but should fail" if base.issue_ran else "the issue fails to run")
        if not any(_has_content(table) for table in base.tables):
            raise GateFailure("the solution's result is empty")
        self._check_effect(draft, base)
        tests = list(draft.tests)
        setup, differs = self._perturbation(draft, data, rng, base)
        if setup:
            tests += [
                t.model_copy(update={"setup_sql": list(setup)}) for t in draft.tests if not isinstance(t, FeatureTest)
            ]
        if not base.differs and not differs and not any(isinstance(t, FeatureTest) for t in tests):
            raise GateFailure("the issue gives the solution's result")
        instance = _instance(draft, tests)
        self._check_scores(instance)
        return instance

    def _check_scores(self, instance: Instance) -> None:
        """The solution passes everything on two runs, the issue does not."""
        try:
            for run in ("first", "second"):
                score = self._scorer.score(instance, instance.sol_sql)
                if score.passed < score.total:
                    raise GateFailure(f"the solution fails on the {run} run: {_shape(score.reason)}")
            score = self._scorer.score(instance, instance.issue_sql)
        except GoldError as error:
            raise GateFailure(f"the solution or a test does not run: {_shape(str(error))}") from error
        if score.passed == score.total:
            raise GateFailure("the issue passes all tests")

    def _check_effect(self, draft: Draft, base: _Trial) -> None:
        """A solution of a state test must change what its probes show, or doing nothing would pass."""
        probes = [t.probe_sql for t in draft.tests if isinstance(t, StateTest)]
        if not probes:
            return
        before = self._state(draft, (), (), probes)
        if before is not None and all(
            tables_equal(a, b, ordered=False) for a, b in zip(before, base.tables, strict=True)
        ):
            raise GateFailure("the solution changes nothing")

    def _perturbation(self, draft: Draft, data: DataView, rng: Random, base: _Trial) -> tuple[tuple[str, ...], bool]:
        """The best candidate set-up and whether the issue differs on it; () when none leaves a result.

        Best: the solution's result changes and the issue still differs. Next: only the issue differs (if it does
        not on the template) or only the result changes.
        """
        best: tuple[int, tuple[str, ...], bool] = (0, (), False)
        for setup in setups(draft, data, rng, PERTURBATIONS):
            trial = self._trial(draft, setup)
            if trial is None or not any(_has_content(table) for table in trial.tables):
                continue
            changed = not all(tables_equal(a, b, ordered=False) for a, b in zip(trial.tables, base.tables, strict=True))
            rank = 4 * (changed and trial.differs) + 2 * (trial.differs and not base.differs) + changed
            if rank > best[0]:
                best = (rank, setup, trial.differs)
            if rank >= 4:
                break
        return best[1], best[2]

    def _trial(self, draft: Draft, setup: Sequence[str]) -> _Trial | None:
        """Run solution and issue after `setup`; None when set-up or solution fails."""
        probes = [t.probe_sql for t in draft.tests if isinstance(t, StateTest)]
        if probes:
            solution = self._state(draft, setup, draft.sol_sql, probes)
            issue = self._state(draft, setup, draft.issue_sql, probes)
            ordered = False
        else:
            solution, issue = self._tables(draft, setup)
            ordered = any(t.ordered for t in draft.tests if isinstance(t, ResultTest))
        if solution is None or not all(table.has_table for table in solution):
            return None
        differs = issue is None or not all(
            tables_equal(a, b, ordered=ordered) for a, b in zip(solution, issue, strict=True)
        )
        return _Trial(solution, issue is not None, differs)

    def _tables(
        self, draft: Draft, setup: Sequence[str]
    ) -> tuple[tuple[StatementResult, ...] | None, tuple[StatementResult, ...] | None]:
        """Result tables of a read-only solution and of its issue, on one replica, the solution first."""
        with self._lease(draft.db_id) as lease:
            if not _all_ok(lease, [*setup, *draft.preprocess_sql]):
                return None, None
            return _last_table(lease, draft.sol_sql), _last_table(lease, draft.issue_sql)

    def _state(
        self, draft: Draft, setup: Sequence[str], script: Sequence[str], probes: Sequence[str]
    ) -> tuple[StatementResult, ...] | None:
        """The probes' results after set-up, preprocess and a script, failed ones too; None when a statement fails."""
        with self._lease(draft.db_id) as lease:
            if not _all_ok(lease, [*setup, *draft.preprocess_sql, *script]):
                return None
            lease.reopen()
            return tuple(lease.execute(probe)[-1] for probe in probes)

    def _lease(self, db_id: str) -> Lease:
        return self._pool.acquire(unique_trajectory_id(f"gates:{db_id}"), self._store.path(db_id))


def check_form(draft: Draft, data: DataView) -> None:
    """Everything that needs no execution. Raises GateFailure."""
    if draft.issue_sql == draft.sol_sql:
        raise GateFailure("issue and solution are the same text")
    for name, statements in (("issue", draft.issue_sql), ("solution", draft.sol_sql)):
        if len("; ".join(statements)) > MAX_SQL_CHARS:
            raise GateFailure(f"the {name} SQL is longer than {MAX_SQL_CHARS} characters")
    if not MIN_WORDS <= len(draft.query.split()) <= MAX_WORDS:
        raise GateFailure(f"the issue text has not {MIN_WORDS} to {MAX_WORDS} words")
    if any(solution in draft.query for solution in draft.sol_sql):
        raise GateFailure("the issue text holds the solution")
    if _NOT_DETERMINISTIC.search(" ".join((*draft.sol_sql, *draft.issue_sql, *draft.preprocess_sql))):
        raise GateFailure("the SQL depends on chance or on the clock")
    shown = {name.lower() for statement in draft.issue_sql for name in tables_of(statement)}
    words = draft.query.lower()
    for name in dict.fromkeys(name for statement in draft.sol_sql for name in tables_of(statement)):
        lower = name.lower()
        if data.schema.table(name) and lower not in shown and not re.search(rf"(?<!\w){re.escape(lower)}(?!\w)", words):
            raise GateFailure("the solution needs a table that neither the issue SQL nor the text names")


def fingerprint(draft: Draft) -> str:
    """Hash of database, issue and solution: equal drafts are duplicates."""
    return sha256_text(canonical_json([draft.db_id, draft.preprocess_sql, draft.issue_sql, draft.sol_sql]))


def _instance(draft: Draft, tests: list[Test]) -> Instance:
    return Instance(
        instance_id="",
        db_id=draft.db_id,
        version=apsw.sqlite_lib_version(),
        category=draft.category,
        query=draft.query,
        issue_sql=list(draft.issue_sql),
        preprocess_sql=list(draft.preprocess_sql),
        clean_up_sql=list(draft.clean_up_sql),
        sol_sql=list(draft.sol_sql),
        test_cases=list(tests),
        bug=BugRecord(kind=draft.kind, family=draft.family, cause=draft.cause, intent=draft.intent),
        source={"rewinder": "taxonomy", "verified_sql": draft.source_id},
    )


def _all_ok(lease: Lease, statements: Sequence[str]) -> bool:
    if not statements:
        return True
    return all(result.ok for result in lease.execute(";\n".join(statements)))


def _last_table(lease: Lease, statements: Sequence[str]) -> tuple[StatementResult, ...] | None:
    """The last result table of a script as a 1-tuple; None when it fails or has none."""
    found: StatementResult | None = None
    for statement in statements:
        for result in lease.execute(statement):
            if not result.ok:
                return None
            found = result if result.columns else found
    return None if found is None else (found,)


def _has_content(table: StatementResult) -> bool:
    """Some value that is not NULL."""
    return any(value is not None for row in table.rows for value in row)


def _shape(message: Any) -> str:
    """A message without its SQL and names, so that equal causes count together."""
    text = str(message)
    text = text.split("): ")[0] if "): " in text else text
    return re.sub(r"^: *|'[^']*'", "", text).strip()[:120]
