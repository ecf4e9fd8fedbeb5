"""One post becomes one issue (SQL-Rewind, Algorithm 1): adapt its SQL, perturb it, describe it, each in a few rounds.

Whatever the model writes is executed before it counts: the adapted SQL must run and show or change something, and
the issue goes through the same gates as the taxonomy's. After a failed round the model is told why.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Protocol, TypeVar

from pydantic import BaseModel

from birdrl.gym.instance import Category, FeatureTest, Instance, ResultTest, StateTest
from birdrl.gym.rewind.cost import MAX_STEPS
from birdrl.gym.rewind.data import DataView
from birdrl.gym.rewind.draft import Draft, Test
from birdrl.gym.rewind.gates import MIN_WORDS, GateFailure, Gates, Limits, check_form
from birdrl.gym.rewind.tree import canonical, has_tree, is_ordered, peek, tables_of
from birdrl.gym.select_check import SelectChecker, SelectRejected, parse_select
from birdrl.gym.teacher import prompting as ask
from birdrl.gym.teacher.posts import Post
from birdrl.gym.templates import TemplateStore
from birdrl.sql.lease import Lease
from birdrl.sql.pool import ReplicaPool, unique_trajectory_id

Answer = TypeVar("Answer", bound=BaseModel)
Result = TypeVar("Result")
NOT_THE_FORM = "the answer is not JSON of the asked form"


class Asks(Protocol):
    """What the rewinder needs of an endpoint (birdrl.endpoint.Endpoint)."""

    def ask(self, messages: Sequence[dict[str, str]], form: type[Answer]) -> Answer | None: ...


class Refused(Exception):
    """A post gave no issue on this database; the message is the step and the reason of its last round."""


@dataclass(frozen=True)
class Rewound:
    """An accepted issue, the draft it was made from, and the rounds that each step took."""

    instance: Instance
    draft: Draft
    rounds: Mapping[str, int]


class PostRewinder:
    """Turns posts into issues on the databases of a store. Thread-safe; blocks while model and SQL run.

    `rounds`: tries of each step. `shares`: how reading SQL is divided between the categories query and
    personalization; SQL that changes something is management. Everything random is drawn from `seed`, the post and
    the database.
    """

    def __init__(
        self,
        store: TemplateStore,
        pool: ReplicaPool,
        endpoint: Asks,
        *,
        limits: Limits,
        rounds: int,
        shares: Mapping[Category, float],
        seed: int,
    ) -> None:
        self._store, self._pool, self._endpoint = store, pool, endpoint
        self._gates = Gates(store, pool, limits)
        self._rounds, self._shares, self._seed = rounds, shares, seed
        self._lock = threading.Lock()
        self._views: dict[str, DataView] = {}
        self._checkers: dict[str, SelectChecker] = {}

    def rewind(self, post: Post, db_id: str) -> Rewound:
        """The issue that a post gives on a database.

        Raises Refused with the reason when a step is not accepted in its rounds, InfraError when the endpoint or the
        SQL workers fail.
        """
        schema, rng = self._store.schema(db_id), Random(f"{self._seed}:{post.id}:{db_id}")
        rounds: dict[str, int] = {}
        adapted, rounds["adapt"] = self._step(
            "adapt", ask.ask_to_adapt(post, schema), ask.Adapted, lambda answer: self._adapted(answer, db_id)
        )
        category = self._category(adapted, rng)
        seed = rng.getrandbits(64)
        (perturbed, draft), rounds["perturb"] = self._step(
            "perturb",
            ask.ask_to_perturb(post, schema, adapted, category),
            ask.Perturbed,
            lambda answer: self._perturbed(answer, adapted, category, post, db_id, seed),
        )
        finished, rounds["describe"] = self._step(
            "describe",
            ask.ask_to_describe(post, schema, perturbed, MIN_WORDS, self._gates.limits.max_words),
            ask.Described,
            lambda answer: self._described(answer, draft),
        )
        # The gates draw the perturbed database: with the same seed they draw the one that has been accepted.
        instance = self._gates.check(finished, self._view(db_id), Random(seed))
        source = {"rewinder": "teacher", "post_id": post.id}
        return Rewound(instance.model_copy(update={"source": source}), finished, rounds)

    def close(self) -> None:
        """Close the connections that check queries; the pool is its owner's."""
        self._gates.close()
        for checker in self._checkers.values():
            checker.close()

    def _step(
        self, step: str, messages: ask.Messages, form: type[Answer], accept: Callable[[Answer], Result]
    ) -> tuple[Result, int]:
        """(what `accept` makes of the first answer that it does not reject, rounds used)"""
        reason = ""
        for number in range(1, self._rounds + 1):
            answer = self._endpoint.ask(messages, form)
            if answer is None:
                reason = NOT_THE_FORM
            else:
                try:
                    return accept(answer), number
                except (GateFailure, SelectRejected) as failure:
                    reason = str(failure)
            messages = ask.once_more(messages, answer, reason)
        raise Refused(f"{step}: {reason}")

    def _adapted(self, answer: ask.Adapted, db_id: str) -> ask.Adapted:
        """The answer with its SQL in canonical form, if it runs and shows or changes something."""
        statements = _clean(answer.sql)
        if not statements:
            raise GateFailure("there is no SQL")
        query = len(statements) == 1 and _is_query(statements[0])
        with self._lease(db_id) as lease:
            for statement in statements:
                for result in lease.execute(statement):
                    if not result.ok:
                        raise GateFailure(f"the SQL does not run: {result.message}")
            if not query and not lease.dirty:
                raise GateFailure("the SQL changes nothing")
        if query:
            with self._lock:  # a checker serves one thread at a time
                return ask.Adapted(sql=[self._checker(db_id).check(statements[0]).sql], task=answer.task)
        return ask.Adapted(sql=[_canonical(statement) for statement in statements], task=answer.task)

    def _category(self, adapted: ask.Adapted, rng: Random) -> Category:
        if not all(_is_query(statement) for statement in adapted.sql):
            return "management"
        reading: tuple[Category, ...] = ("query", "personalization")
        weights = [self._shares.get(category, 0.0) for category in reading]
        return rng.choices(reading, weights)[0] if sum(weights) > 0 else "query"

    def _perturbed(
        self, answer: ask.Perturbed, adapted: ask.Adapted, category: Category, post: Post, db_id: str, seed: int
    ) -> tuple[ask.Perturbed, Draft]:
        """The answer and its draft, gated with a text in our own words."""
        data = self._view(db_id)
        tables = [name for sql in adapted.sql for name in tables_of(sql) if data.schema.table(name)]
        kind, family = ask.known_kind(answer.kind)
        draft = Draft(
            kind=kind,
            family=family,
            category=category,
            db_id=db_id,
            source_id=f"post {post.id}",
            issue_sql=tuple(_canonical(statement) for statement in _clean(answer.issue_sql)),
            sol_sql=tuple(adapted.sql),
            query=f"Something is wrong with {' '.join(dict.fromkeys(tables)) or 'this SQL'}.",
            cause=answer.cause,
            intent=answer.intent,
            tests=_tests(answer, adapted, category),
            issue_fails=answer.issue_fails,
            perturb_tables=tuple(dict.fromkeys(tables)),
        )
        if not draft.issue_sql:
            raise GateFailure("there is no buggy SQL")
        if not all(_parses(statement) for statement in draft.issue_sql):
            raise GateFailure("the buggy SQL has a syntax error; a bug of the meaning is wanted")
        with self._lease(db_id) as lease:  # the gates count its steps in this process, where nothing can be killed
            for statement in draft.issue_sql:
                if any(result.status in ("timeout", "killed") for result in lease.execute(statement)):
                    raise GateFailure("the buggy SQL takes too long")
        self._gates.check(draft, data, Random(seed))
        return answer, draft

    def _described(self, answer: ask.Described, draft: Draft) -> Draft:
        """The draft with the user's message, if nothing leaks and the model finds message, SQL and repair coherent."""
        finished = replace(draft, query=" ".join(answer.query.split()))
        check_form(finished, self._view(draft.db_id), self._gates.limits)
        schema = self._store.schema(draft.db_id)
        messages = ask.ask_to_verify(schema, finished.query, draft.issue_sql, draft.sol_sql)
        verdict = self._endpoint.ask(messages, ask.Verdict)
        if verdict is None:
            raise GateFailure("the verdict is not of the asked form")
        if not verdict.consistent:
            raise GateFailure(f"not coherent: {verdict.reason}")
        return finished

    def _lease(self, db_id: str) -> Lease:
        return self._pool.acquire(unique_trajectory_id(f"teacher:{db_id}"), self._store.path(db_id))

    def _view(self, db_id: str) -> DataView:
        with self._lock:
            if db_id not in self._views:
                self._views[db_id] = self._gates.view(db_id)
            return self._views[db_id]

    def _checker(self, db_id: str) -> SelectChecker:
        if db_id not in self._checkers:
            self._checkers[db_id] = SelectChecker(
                self._store.path(db_id), self._store.schema(db_id), max_steps=MAX_STEPS, time_limit_s=60.0
            )
        return self._checkers[db_id]


def _tests(answer: ask.Perturbed, adapted: ask.Adapted, category: Category) -> tuple[Test, ...]:
    """The tests that the answer asks for. Raises GateFailure for what the category needs and does not have."""
    tests: list[Test] = []
    if category == "management":
        probes = _clean(answer.probes)
        if not probes or not all(_is_query(probe) for probe in probes):
            raise GateFailure("SQL that changes something needs `probes`, each one SELECT")
        tests += [StateTest(probe_sql=probe) for probe in probes]
    else:
        last = adapted.sql[-1]
        tests.append(ResultTest(ordered=answer.ordered and has_tree(last) and is_ordered(peek(last))))
    unknown = [name for name in (*answer.required, *answer.forbidden) if name not in ask.FEATURES]
    if unknown:
        raise GateFailure(f"there is no feature {unknown[0]!r}; features are {', '.join(ask.FEATURES)}")
    if answer.required or answer.forbidden:
        tests.append(FeatureTest(required=answer.required, forbidden=answer.forbidden))
    elif category == "personalization":
        raise GateFailure("a wish about how the SQL is written needs `required` or `forbidden`")
    return tuple(tests)


def _clean(statements: Sequence[str]) -> list[str]:
    return [text for statement in statements if (text := statement.strip().rstrip("; \n\t"))]


def _is_query(statement: str) -> bool:
    try:
        parse_select(statement)
    except SelectRejected:
        return False
    return True


def _parses(statement: str) -> bool:
    """Whether a statement that the parser should know is well formed; what it does not know SQLite will judge."""
    try:
        return not has_tree(statement) or bool(peek(statement))
    except ValueError:
        return False


def _canonical(statement: str) -> str:
    """Written like the solution, so that both differ by the bug alone; SQL that does not parse stays as it is."""
    try:
        return canonical(statement)
    except ValueError:
        return statement
