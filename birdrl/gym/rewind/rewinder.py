"""The `taxonomy` rewinder of one database: draws bug kinds evenly, writes drafts, sends them through the gates."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from random import Random
from typing import Any

from sqlglot import exp

from birdrl.errors import InputError
from birdrl.gym.instance import CATEGORIES, Category, Instance
from birdrl.gym.rewind import KINDS, BugKind, Draft, apply_construction, apply_mutation
from birdrl.gym.rewind.data import DataView
from birdrl.gym.rewind.draft import Bench
from birdrl.gym.rewind.gates import GateFailure, Gates, fingerprint
from birdrl.gym.rewind.tree import parse
from birdrl.gym.rewind.words import Words
from birdrl.gym.verified import VerifiedSql

PATIENCE = 12  # attempts of a construction in a row without a new instance before it is given up
PER_SOURCE = 4  # instances made of one verified SQL


@dataclass
class _KindState:
    """How far one kind got on this database."""

    kind: BugKind
    accepted: int = 0
    failures: int = 0  # in a row
    next_source: int = 0
    sources: list[int] = field(default_factory=list)  # order in which a mutation visits the verified SQL
    exhausted: bool = False


class DatabaseRewinder:
    """Instances of one database, on request. Everything is drawn from `seed` and the database's id alone."""

    def __init__(
        self, gates: Gates, data: DataView, verified: Sequence[VerifiedSql], seed: int, kinds: Sequence[str] = ()
    ) -> None:
        """`kinds`: names of the bug kinds to make, all when empty. Raises InputError for a name that does not exist."""
        if unknown := sorted(set(kinds) - set(KINDS)):
            raise InputError(f"gym.kinds: no bug kind {', '.join(unknown)}; there are {', '.join(sorted(KINDS))}")
        self.data = data
        self.accepted: list[Instance] = []
        self.quarantine: list[dict[str, Any]] = []
        self.reasons: Counter[str] = Counter()
        self._gates = gates
        self._rng = Random(f"{seed}:{data.db_id}")
        self._seen: set[str] = set()
        self._trees = self._parse(verified)
        self._uses: Counter[int] = Counter()
        self._states = [self._start(kind) for name, kind in sorted(KINDS.items()) if not kinds or name in kinds]

    def extend(self, quota: Mapping[Category, int], accepted: Callable[[], None]) -> None:
        """Make up to `quota` more instances per category; calls `accepted` after each.

        A category that runs dry hands the rest of its quota to the others. Raises InfraError when SQL workers fail.
        """
        left = dict(quota)
        while sum(left.values()) > 0:
            open_categories = {s.kind.category for s in self._states if not s.exhausted}
            if not open_categories:
                return
            category = self._next_category(left, quota, open_categories)
            if self._attempt(category):
                left[category if left.get(category, 0) > 0 else max(left, key=lambda c: left[c])] -= 1
                accepted()

    @property
    def exhausted(self) -> bool:
        return all(state.exhausted for state in self._states)

    def _parse(self, verified: Sequence[VerifiedSql]) -> list[tuple[VerifiedSql, exp.Expression]]:
        trees = []
        for item in verified:
            try:
                trees.append((item, parse(item.sql)))
            except ValueError as error:
                self._refuse({"db_id": item.db_id, "source_id": item.source_id, "sol_sql": [item.sql]}, str(error)[:60])
        return trees

    def _start(self, kind: BugKind) -> _KindState:
        sources = list(range(len(self._trees))) if kind.mutate else []
        self._rng.shuffle(sources)
        return _KindState(kind, sources=sources, exhausted=bool(kind.mutate) and not sources)

    def _next_category(
        self, left: Mapping[Category, int], quota: Mapping[Category, int], allowed: set[Category]
    ) -> Category:
        """The category furthest behind its quota, among those that can still deliver."""
        candidates = [c for c in CATEGORIES if c in allowed]
        return max(candidates, key=lambda c: left.get(c, 0) / max(quota.get(c, 0), 1))

    def _attempt(self, category: Category) -> bool:
        """One draft of the least used kind of a category; whether it became an instance."""
        states = [s for s in self._states if s.kind.category == category and not s.exhausted]
        fewest = min(s.accepted for s in states)
        state = self._rng.choice([s for s in states if s.accepted == fewest])
        rng = Random(self._rng.getrandbits(64))
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

    def _mutated(self, state: _KindState, bench: Bench) -> Draft | None:
        """The next source that the mutation applies to; marks the kind exhausted behind the last one."""
        while state.next_source < len(state.sources):
            number = state.sources[state.next_source]
            state.next_source += 1
            item, tree = self._trees[number]
            if self._uses[number] >= PER_SOURCE:
                continue
            draft = apply_mutation(state.kind, bench, tree, item.source_id)
            if draft is not None:
                self._uses[number] += 1
                return draft
        state.exhausted = True
        return None

    def _admit(self, draft: Draft, rng: Random) -> bool:
        key = fingerprint(draft)
        if key in self._seen:
            self.reasons["duplicate"] += 1
            return False
        self._seen.add(key)
        try:
            self.accepted.append(self._gates.check(draft, self.data, rng))
        except GateFailure as failure:
            row = asdict(draft)
            row["tests"] = [test.model_dump(mode="json") for test in draft.tests]
            self._refuse(row, str(failure))
            return False
        return True

    def _refuse(self, row: dict[str, Any], reason: str) -> None:
        self.reasons[reason] += 1
        self.quarantine.append({**row, "reason": reason})
