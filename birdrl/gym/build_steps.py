"""The steps of a build that run in its worker processes: verified SQL of a database, and slices of its issues."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from birdrl.gym.instance import Category
from birdrl.gym.journal import Journal
from birdrl.gym.rewind.gates import Gates, Limits
from birdrl.gym.rewind.rewinder import DatabaseRewinder, Slice
from birdrl.gym.templates import TemplateStore
from birdrl.gym.verified import GoldRow, Rejected, VerifiedSql, check_gold_rows, generate_verified
from birdrl.params import GymParams
from birdrl.sql.pool import PoolConfig, ReplicaPool

KEPT_REWINDERS = 16  # databases that a process keeps in memory; others are read again from the journal
GOLD_MAX_STEPS = 20_000_000  # of SQLite's machine, about half a second: counted, so every machine rejects the same
GOLD_TIME_LIMIT_S = 60.0
MAX_ROWS = 5000  # of a solution's result
PATIENCE = 15  # times a rollout's limits: a busy machine must not decide what enters the gym


@dataclass(frozen=True)
class BuildSpec:
    """What every process of a build knows."""

    templates: Path
    journal: Path
    params: GymParams
    seed: int


@dataclass(frozen=True)
class Made:
    """What the process that plans has to know of a slice."""

    accepted: int
    exhausted: bool


def patient_pool(params: GymParams, workers: int) -> PoolConfig:
    """For the gates, which count steps where it matters: limits of time only end what hangs."""
    limits = PoolConfig()
    return PoolConfig(
        workers=workers,
        statement_timeout_s=PATIENCE * params.statement_timeout_s,
        parse_timeout_s=PATIENCE * limits.parse_timeout_s,
        lease_timeout_s=PATIENCE * limits.lease_timeout_s,
        max_rows=MAX_ROWS,
    )


class Workshop:
    """One process's tools: a replica pool of one worker, the gates, and the databases it has worked on lately."""

    def __init__(self, spec: BuildSpec) -> None:
        self.spec = spec
        self.store = TemplateStore(spec.templates)
        self.journal = Journal(spec.journal)
        params = spec.params
        self._pool = ReplicaPool(patient_pool(params, workers=1))
        limits = Limits(params.max_sql_chars, params.max_words, params.text_style)
        self.gates = Gates(self.store, self._pool, limits)
        self._rewinders: OrderedDict[str, DatabaseRewinder] = OrderedDict()

    def close(self) -> None:
        self.gates.close()
        self._pool.close()

    def verify(self, db_id: str, gold: Sequence[GoldRow] | None, count: int) -> int:
        """Put the verified SQL of a database into the journal: its gold rows checked, or `count` generated queries.

        Returns how many are usable.
        """
        known = self.journal.verified(db_id)
        if known is not None:
            return len(known[0])
        if gold is None:
            share = self.spec.params.complex_share
            results: list[VerifiedSql | Rejected] = [
                *generate_verified(self.store, db_id, self.spec.seed, count, complex_share=share)
            ]
        else:
            results = check_gold_rows(self.store, db_id, gold, time_limit_s=GOLD_TIME_LIMIT_S, max_steps=GOLD_MAX_STEPS)
        accepted = [result for result in results if isinstance(result, VerifiedSql)]
        self.journal.write_verified(db_id, accepted, [result for result in results if isinstance(result, Rejected)])
        return len(accepted)

    def extend(self, db_id: str, number: int, quota: dict[Category, int]) -> Made:
        """Make slice `number` of a database, or find it in the journal. Raises InfraError when SQL workers fail."""
        made = self.journal.slice(db_id, number)
        if made is None:
            made = self._rewinder(db_id, number).extend(quota)
            self.journal.write_slice(db_id, number, made)
        return Made(len(made.accepted), made.exhausted)

    def _rewinder(self, db_id: str, slices: int) -> DatabaseRewinder:
        """The rewinder of a database behind that many slices."""
        rewinder = self._rewinders.pop(db_id, None)
        if rewinder is None or rewinder.slices > slices:
            verified = self.journal.verified(db_id)
            accepted = verified[0] if verified else []
            rewinder = DatabaseRewinder(self.gates, self.gates.view(db_id), accepted, self.spec.params, self.spec.seed)
        rewinder.restore([self._slice(db_id, number) for number in range(rewinder.slices, slices)])
        self._rewinders[db_id] = rewinder
        if len(self._rewinders) > KEPT_REWINDERS:
            self._rewinders.popitem(last=False)
        return rewinder

    def _slice(self, db_id: str, number: int) -> Slice:
        found = self.journal.slice(db_id, number)
        if found is None:
            raise ValueError(f"{db_id}: slice {number} is asked for before it was made")
        return found
