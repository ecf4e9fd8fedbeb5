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
from birdrl.gym.difficulty import difficulty
from birdrl.gym.instance import BugRecord, FeatureTest, Instance, PlanTest, ResultTest, StateTest
from birdrl.gym.leaks import leaks
from birdrl.gym.rewind.cost import StepCounter
from birdrl.gym.rewind.data import DataView, Rows
from birdrl.gym.rewind.draft import Draft, Test
from birdrl.gym.rewind.perturb import setups
from birdrl.gym.rewind.tree import tables_of
from birdrl.gym.rewind.writing import Facts, TextStyle, write_text
from birdrl.gym.templates import TemplateStore
from birdrl.rewards.execution import ExecutionScorer
from birdrl.sql.compare import tables_equal
from birdrl.sql.lease import Lease
from birdrl.sql.pool import ReplicaPool, unique_trajectory_id
from birdrl.sql.results import StatementResult

MIN_WORDS, MAX_WORDS = 3, 45
PERTURBATIONS = 6  # candidate set-ups tried for the second test
OTHER_ORDER = "PRAGMA reverse_unordered_selects = ON"  # SQLite then visits rows the other way round
_NOT_DETERMINISTIC = re.compile(r"\bRANDOM\b|\bRANDOMBLOB\b|'now'|\bCURRENT_(DATE|TIME|TIMESTAMP)\b", re.IGNORECASE)

_CATALOGUE = re.compile(r"\bPRAGMA_\w+\(|\bsqlite_master\b", re.IGNORECASE)


class GateFailure(Exception):
    """A draft does not pass; the message is the reason that quarantine and statistics show."""


@dataclass(frozen=True)
class Limits:
    """What an issue may measure. `max_sql_chars` counts all statements of a side with their separators."""

    max_sql_chars: int = 320
    max_words: int = MAX_WORDS
    style: TextStyle = "brief"


@dataclass(frozen=True)
class _Run:
    """What a script leaves: its last result table or its probes' tables; None and a message when it fails."""

    tables: tuple[StatementResult, ...] | None
    error: str = ""


@dataclass(frozen=True)
class _Trial:
    """Solution and issue on one (perturbed) database: the solution's tables, the issue's run, whether it differs."""

    tables: tuple[StatementResult, ...]
    issue: _Run
    differs: bool


class Gates:
    """All gates of one template store. Thread-safe: every check leases its own replicas.

    The pool's time limit should be generous: what is slow is told by its steps, and a busy machine is not its fault.
    """

    def __init__(self, store: TemplateStore, pool: ReplicaPool, limits: Limits | None = None) -> None:
        self.limits = limits or Limits()
        self._store = store
        self._pool = pool
        self._scorer = ExecutionScorer(store, pool)
        self._steps = StepCounter()

    def close(self) -> None:
        """Close the connections of its own; the pool is its owner's."""
        self._steps.close()

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
        check_form(draft, data, self.limits)
        if not draft.preprocess_sql and not _probes(draft):
            scripts = [sql for script in (draft.sol_sql, draft.issue_sql) if len(script) == 1 for sql in script]
            if self._steps.too_costly(self._store.path(draft.db_id), scripts):
                raise GateFailure(f"issue or solution takes more than {self._steps.max_steps:,} steps")
        base = self._trial(draft, ())
        if base is not None and not base.differs and draft.perturb_first:
            # These rows hide the bug: the issue is about a database that went through the draft's own set-up.
            draft = replace(draft, preprocess_sql=(*draft.perturb_first, *draft.preprocess_sql), perturb_first=())
            base = self._trial(draft, ())
        if base is None:
            raise GateFailure("the solution does not run")
        self._check_tables(draft, base)
        self._check_effect(draft, base)
        self._check_order(draft, base)
        tests = list(draft.tests)
        setup, differs = self._perturbation(draft, data, rng, base)
        if setup:
            tests += [
                t.model_copy(update={"setup_sql": list(setup)})
                for t in draft.tests
                if isinstance(t, ResultTest | StateTest)
            ]
        by_form = any(isinstance(t, FeatureTest | PlanTest) for t in tests)
        if not base.differs and not differs and not by_form:
            raise GateFailure("the issue gives the solution's result")
        draft = replace(draft, query=write_text(draft, _facts(draft, base), data.schema, rng, self.limits.style))
        check_text(draft, self.limits)
        instance = _instance(draft, tests)
        self._check_scores(instance)
        return instance

    def _check_tables(self, draft: Draft, base: _Trial) -> None:
        if any(table.truncated for table in base.tables):
            raise GateFailure(f"the solution's result has more than {self._pool.config.max_rows} rows")
        ran = base.issue.tables is not None
        if ran == draft.issue_fails:
            raise GateFailure("the issue runs, but should fail" if ran else "the issue fails to run")
        if not any(_has_content(table) for table in base.tables):
            raise GateFailure("the solution's result is empty")

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
        probes = _probes(draft)
        if not probes:
            return
        before = self._state(draft, (), (), probes).tables
        if before is not None and _same(before, base.tables, ordered=False):
            raise GateFailure("the solution changes nothing")

    def _check_order(self, draft: Draft, base: _Trial) -> None:
        """The solution gives the same when rows are visited in another order: ties and bare columns show."""
        probes = _probes(draft)
        if probes:
            again = self._state(draft, (), (OTHER_ORDER, *draft.sol_sql), probes).tables
        else:
            again = self._table(draft, (), (OTHER_ORDER, *draft.sol_sql)).tables
        if again is None or not _same(again, base.tables, ordered=_is_ordered(draft)):
            raise GateFailure("the solution's result depends on the order in which rows are visited")

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
            changed = not _same(trial.tables, base.tables, ordered=False)
            rank = 4 * (changed and trial.differs) + 2 * (trial.differs and not base.differs) + changed
            if rank > best[0]:
                best = (rank, setup, trial.differs)
            if rank >= 4:
                break
        return best[1], best[2]

    def _trial(self, draft: Draft, setup: Sequence[str]) -> _Trial | None:
        """Run solution and issue after `setup`; None when set-up or solution fails."""
        probes = _probes(draft)
        if probes:
            solution = self._state(draft, setup, draft.sol_sql, probes)
            issue = self._state(draft, setup, draft.issue_sql, probes)
        else:
            solution, issue = self._tables(draft, setup)
        if solution.tables is None or not all(table.has_table for table in solution.tables):
            return None
        differs = issue.tables is None or not _same(solution.tables, issue.tables, ordered=_is_ordered(draft))
        return _Trial(solution.tables, issue, differs)

    def _tables(self, draft: Draft, setup: Sequence[str]) -> tuple[_Run, _Run]:
        """Result tables of a read-only solution and of its issue, on one replica, the solution first."""
        if len(draft.sol_sql) > 1 or len(draft.issue_sql) > 1:  # earlier statements make what the last one reads
            return self._table(draft, setup, draft.sol_sql), self._table(draft, setup, draft.issue_sql)
        with self._lease(draft.db_id) as lease:
            if failure := _failure(lease, [*setup, *draft.preprocess_sql]):
                return _Run(None, failure), _Run(None, failure)
            return _last_table(lease, draft.sol_sql), _last_table(lease, draft.issue_sql)

    def _table(self, draft: Draft, setup: Sequence[str], script: Sequence[str]) -> _Run:
        with self._lease(draft.db_id) as lease:
            failure = _failure(lease, [*setup, *draft.preprocess_sql])
            return _Run(None, failure) if failure else _last_table(lease, script)

    def _state(self, draft: Draft, setup: Sequence[str], script: Sequence[str], probes: Sequence[str]) -> _Run:
        """The probes' results after set-up, preprocess and a script; the probes' own failures are results too."""
        with self._lease(draft.db_id) as lease:
            if failure := _failure(lease, [*setup, *draft.preprocess_sql, *script]):
                return _Run(None, failure)
            lease.reopen()
            return _Run(tuple(lease.execute(probe)[-1] for probe in probes))

    def _lease(self, db_id: str) -> Lease:
        return self._pool.acquire(unique_trajectory_id(f"gates:{db_id}"), self._store.path(db_id))


def check_form(draft: Draft, data: DataView, limits: Limits | None = None) -> None:
    """Everything about a draft that needs no execution, its text included if that is final. Raises GateFailure."""
    limits = limits or Limits()
    if draft.issue_sql == draft.sol_sql:
        raise GateFailure("issue and solution are the same text")
    for name, statements in (("issue", draft.issue_sql), ("solution", draft.sol_sql)):
        if len("; ".join(statements)) > limits.max_sql_chars:
            raise GateFailure(f"the {name} SQL is longer than {limits.max_sql_chars} characters")
    if _NOT_DETERMINISTIC.search(" ".join((*draft.sol_sql, *draft.issue_sql, *draft.preprocess_sql))):
        raise GateFailure("the SQL depends on chance or on the clock")
    shown = {name.lower() for statement in draft.issue_sql for name in tables_of(statement)}
    words = draft.query.lower()
    for name in dict.fromkeys(name for statement in draft.sol_sql for name in tables_of(statement)):
        lower = name.lower()
        if data.schema.table(name) and lower not in shown and not re.search(rf"(?<!\w){re.escape(lower)}(?!\w)", words):
            raise GateFailure("the solution needs a table that neither the issue SQL nor the text names")
    if limits.style == "brief":
        check_text(draft, limits)


def check_text(draft: Draft, limits: Limits) -> None:
    """Length of the issue text, and that it gives nothing away. Raises GateFailure."""
    if not MIN_WORDS <= len(draft.query.split()) <= limits.max_words:
        raise GateFailure(f"the issue text has not {MIN_WORDS} to {limits.max_words} words")
    named = [name for t in draft.tests if isinstance(t, FeatureTest) for name in (*t.required, *t.forbidden)]
    found = leaks(draft.query, draft.issue_sql, draft.sol_sql, named)
    if found:
        raise GateFailure(f"the issue text gives the solution away: {found[0].partition(':')[0]}")


def fingerprint(draft: Draft) -> str:
    """Hash of database, issue and solution: equal drafts are duplicates."""
    return sha256_text(canonical_json([draft.db_id, draft.preprocess_sql, draft.issue_sql, draft.sol_sql]))


def _instance(draft: Draft, tests: list[Test]) -> Instance:
    instance = Instance(
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
    return instance.model_copy(update={"difficulty": difficulty(instance)})


def _facts(draft: Draft, base: _Trial) -> Facts:
    """What a person who runs the issue sees, and what they expect instead."""
    seen = base.issue.tables[0] if base.issue.tables else None
    probes = _probes(draft)
    if probes and _CATALOGUE.search(probes[0]):  # nobody reports what the catalogue says
        return Facts(error=base.issue.error)
    if seen is None or not seen.has_table or draft.issue_fails or not base.differs:
        return Facts(error=base.issue.error)
    return Facts(columns=seen.columns, rows=seen.rows, expected_rows=len(base.tables[0].rows), state=bool(probes))


def _probes(draft: Draft) -> list[str]:
    return [test.probe_sql for test in draft.tests if isinstance(test, StateTest)]


def _is_ordered(draft: Draft) -> bool:
    return any(test.ordered for test in draft.tests if isinstance(test, ResultTest))


def _same(a: Sequence[StatementResult], b: Sequence[StatementResult], *, ordered: bool) -> bool:
    return all(tables_equal(left, right, ordered=ordered) for left, right in zip(a, b, strict=True))


def _failure(lease: Lease, statements: Sequence[str]) -> str:
    """Run statements; the message of the first that fails, empty when all run."""
    for statement in statements:
        for result in lease.execute(statement):
            if not result.ok:
                return result.message or result.status
    return ""


def _last_table(lease: Lease, statements: Sequence[str]) -> _Run:
    """The last result table of a script."""
    found: StatementResult | None = None
    for statement in statements:
        for result in lease.execute(statement):
            if not result.ok:
                return _Run(None, result.message or result.status)
            found = result if result.columns else found
    return _Run((found,)) if found is not None else _Run(None, "no result")


def _has_content(table: StatementResult) -> bool:
    """Some value that is not NULL."""
    return any(value is not None for row in table.rows for value in row)


def _shape(message: Any) -> str:
    """A message without its SQL and names, so that equal causes count together."""
    text = str(message)
    text = text.split("): ")[0] if "): " in text else text
    return re.sub(r"^: *|'[^']*'", "", text).strip()[:120]
