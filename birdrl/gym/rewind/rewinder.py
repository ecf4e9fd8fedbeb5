"""The `taxonomy` rewinder of one database: draws bug kinds evenly, writes drafts, sends them through the gates.

Work comes in slices. Each slice draws from a generator of its own, and what a later slice has to know of an earlier
one is plain data, so that a build can go on in another process and give the same issues.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from random import Random
from typing import Any

from sqlglot import exp

from birdrl.gym.instance import CATEGORIES, Category, Instance
from birdrl.gym.near import NearDuplicates
from birdrl.gym.rewind import BugKind, Draft, apply_construction, apply_mutation, kinds_of
from birdrl.gym.rewind.data import DataView
from birdrl.gym.rewind.draft import Bench
from birdrl.gym.rewind.gates import GateFailure, Gates, fingerprint
from birdrl.gym.rewind.scenes import Tally, dress
from birdrl.gym.rewind.tree import parse
from birdrl.gym.rewind.words import Words
from birdrl.gym.verified import VerifiedSql
from birdrl.params import GymParams

PATIENCE = 12  # attempts of a construction in a row without a new instance before it is given up
PER_SOURCE = 4  # instances made of one verified SQL


@dataclass
class Slice:
    """What one call of `extend` made, and where it left off: plain data, so that it can be stored."""

    accepted: list[Instance] = field(default_factory=list)
    quarantine: list[dict[str, Any]] = field(default_factory=list)
    reasons: dict[str, int] = field(default_factory=dict)
    seen: list[str] = field(default_factory=list)  # fingerprints of this slice's drafts
    kinds: dict[str, list[int]] = field(default_factory=dict)  # accepted, failures, next source, exhausted
    uses: dict[str, int] = field(default_factory=dict)  # of each verified SQL
    exhausted: bool = False

    def row(self) -> dict[str, Any]:
        """JSON-ready form."""
        return {**vars(self), "accepted": [instance.row() for instance in self.accepted]}

    @classmethod
    def of_row(cls, row: Mapping[str, Any]) -> Slice:
        """The inverse of `row`."""
        return cls(**{**row, "accepted": [Instance.model_validate(item) for item in row["accepted"]]})


@dataclass
class _KindState:
    """How far one kind got on this database."""

    kind: BugKind
    weight: float = 1.0
    accepted: int = 0
    failures: int = 0  # in a row
    next_source: int = 0
    exhausted: bool = False
    sources: list[int] = field(default_factory=list)  # order in which a mutation visits the verified SQL

    def numbers(self) -> list[int]:
        return [self.accepted, self.failures, self.next_source, int(self.exhausted)]


class DatabaseRewinder:
    """Instances of one database, slice by slice. Everything is drawn from `seed` and the database's id alone."""

    def __init__(
        self, gates: Gates, data: DataView, verified: Sequence[VerifiedSql], params: GymParams, seed: int
    ) -> None:
        self.data = data
        self._gates = gates
        self._params = params
        self._seed = seed
        self._seen: set[str] = set()
        self._uses: Counter[int] = Counter()
        self._tally = Tally()
        self._near = NearDuplicates(params.near_text, params.near_sql)
        self._slice = Slice()
        self.slices = 0
        self.sources = self._parse(verified)  # what mutations edit
        self._states = [self._start(kind) for kind in kinds_of(params.kinds)]

    @property
    def exhausted(self) -> bool:
        return all(state.exhausted for state in self._states)

    def extend(self, quota: Mapping[Category, int], accepted: Callable[[], None] = lambda: None) -> Slice:
        """Make up to `quota` more instances per category; calls `accepted` after each.

        A category that runs dry hands the rest of its quota to the others. Raises InfraError when SQL workers fail.
        """
        rng = Random(f"{self._seed}:{self.data.db_id}:{self.slices}")
        left = dict(quota)
        while sum(left.values()) > 0:
            open_categories = {s.kind.category for s in self._states if not s.exhausted}
            if not open_categories:
                break
            category = self._next_category(left, quota, open_categories)
            if self._attempt(category, rng):
                left[category if left.get(category, 0) > 0 else max(left, key=lambda c: left[c])] -= 1
                accepted()
        return self._finish()

    def restore(self, slices: Sequence[Slice]) -> None:
        """Go on behind slices that were made before, here or elsewhere."""
        for made in slices:
            self._seen.update(made.seen)
            for instance in made.accepted:
                self._remember(instance)
            self.slices += 1
        if slices:
            last = slices[-1]
            self._uses = Counter({int(number): count for number, count in last.uses.items()})
            for state in self._states:
                numbers = last.kinds[state.kind.name]
                state.accepted, state.failures, state.next_source = numbers[:3]
                state.exhausted = bool(numbers[3])
            self._slice = Slice()  # what parsing refused is in the first slice already

    def _finish(self) -> Slice:
        made = self._slice
        made.kinds = {state.kind.name: state.numbers() for state in self._states}
        made.uses = {str(number): count for number, count in sorted(self._uses.items())}
        made.exhausted = self.exhausted
        self._slice = Slice()
        self.slices += 1
        return made

    def _parse(self, verified: Sequence[VerifiedSql]) -> list[tuple[VerifiedSql, exp.Expression]]:
        trees = []
        for item in verified:
            try:
                trees.append((item, parse(item.sql)))
            except ValueError as error:
                self._refuse({"db_id": item.db_id, "source_id": item.source_id, "sol_sql": [item.sql]}, str(error)[:60])
        return trees

    def _start(self, kind: BugKind) -> _KindState:
        sources = list(range(len(self.sources))) if kind.mutate else []
        Random(f"{self._seed}:{self.data.db_id}:{kind.name}").shuffle(sources)
        weight = self._params.mutation_weight if kind.mutate else 1.0
        return _KindState(kind, weight, sources=sources, exhausted=bool(kind.mutate) and not sources)

    def _next_category(
        self, left: Mapping[Category, int], quota: Mapping[Category, int], allowed: set[Category]
    ) -> Category:
        """The category furthest behind its quota, among those that can still deliver."""
        candidates = [c for c in CATEGORIES if c in allowed]
        return max(candidates, key=lambda c: left.get(c, 0) / max(quota.get(c, 0), 1))

    def _attempt(self, category: Category, slice_rng: Random) -> bool:
        """One draft of the kind whose turn it is in a category; whether it became an instance."""
        states = [s for s in self._states if s.kind.category == category and not s.exhausted]
        state = min(states, key=self._turn)
        rng = Random(slice_rng.getrandbits(64))
        bench = Bench(self.data, Words(self.data.schema, rng), rng)
        draft = self._mutated(state, bench) if state.kind.mutate else apply_construction(state.kind, bench)
        made = draft is not None and self._admit(draft, rng)
        if made:
            state.accepted += 1
            state.failures = 0
        else:
            state.failures += 1
            if state.kind.construct and state.failures >= PATIENCE:
                state.exhausted = True
        return made

    def _turn(self, state: _KindState) -> tuple[float, str]:
        """When a kind's next instance is due: evenly for all kinds of a weight, in an order drawn anew each time."""
        drawn = Random(f"{self._seed}:{self.data.db_id}:{state.kind.name}:{state.accepted}:{state.failures}").random()
        return (state.accepted + drawn) / state.weight, state.kind.name

    def _mutated(self, state: _KindState, bench: Bench) -> Draft | None:
        """The next source that the mutation applies to; marks the kind exhausted behind the last one."""
        while state.next_source < len(state.sources):
            number = state.sources[state.next_source]
            state.next_source += 1
            item, tree = self.sources[number]
            if self._uses[number] >= PER_SOURCE:
                continue
            draft = apply_mutation(state.kind, bench, tree, item.source_id, item.question)
            if draft is not None:
                self._uses[number] += 1
                return draft
        state.exhausted = True
        return None

    def _admit(self, draft: Draft, rng: Random) -> bool:
        key = fingerprint(draft)
        if key in self._seen:
            self._count("duplicate")
            return False
        self._seen.add(key)
        self._slice.seen.append(key)
        draft = dress(draft, self.data, rng, self._tally, self._params.rates)
        try:
            instance = self._gates.check(draft, self.data, rng)
        except GateFailure as failure:
            row = asdict(draft)
            row["tests"] = [test.model_dump(mode="json") for test in draft.tests]
            self._refuse(row, str(failure))
            return False
        if self._near.find(instance.query, instance.issue_sql, instance.sol_sql) is not None:
            self._count("near-duplicate")
            return False
        self._slice.accepted.append(instance)
        self._remember(instance)
        return True

    def _remember(self, instance: Instance) -> None:
        self._near.add(instance.query, instance.issue_sql, instance.sol_sql)
        self._tally.add(instance)

    def _refuse(self, row: dict[str, Any], reason: str) -> None:
        self._count(reason)
        self._slice.quarantine.append({**row, "reason": reason})

    def _count(self, reason: str) -> None:
        self._slice.reasons[reason] = self._slice.reasons.get(reason, 0) + 1
