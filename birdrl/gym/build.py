"""From templates and verified SQL to a gated gym, split by database.

Databases are worked on side by side; each draws from a generator of its own, so the result depends on the seed
and the inputs alone, not on which finished first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from threading import Lock
from typing import Any

from birdrl.errors import InputError
from birdrl.gym.instance import CATEGORIES, Instance
from birdrl.gym.rewind.gates import Gates
from birdrl.gym.rewind.rewinder import DatabaseRewinder
from birdrl.gym.templates import TemplateStore
from birdrl.gym.verified import VerifiedSql, generate_verified, read_gold_files
from birdrl.params import GymParams
from birdrl.sql.pool import PoolConfig, ReplicaPool

MIN_VERIFIED = 40  # generated queries per database, at least
ROUNDS = 6  # how often databases that can are asked to make up for those that cannot


@dataclass
class Gym:
    """What the gym stage writes."""

    train: list[Instance]
    evaluation: list[Instance]
    quarantine: list[dict[str, Any]]
    reasons: Counter[str]
    verified: Counter[str]  # verified SQL per database
    wanted: dict[str, int] = field(default_factory=dict)


def split_databases(db_ids: Sequence[str], params: GymParams, seed: int) -> tuple[list[str], list[str]]:
    """(training, evaluation) databases. Raises InputError when one side would be empty or an id is unknown."""
    if params.eval_databases:
        unknown = sorted(set(params.eval_databases) - set(db_ids))
        if unknown:
            raise InputError(
                f"gym.eval_databases: no usable database {', '.join(unknown)}; usable are: {', '.join(sorted(db_ids))}"
            )
        held_out = sorted(set(params.eval_databases))
    else:
        shuffled = sorted(db_ids)
        Random(f"{seed}:split").shuffle(shuffled)
        held_out = sorted(shuffled[: max(1, round(params.eval_share * len(shuffled)))])
    train = sorted(set(db_ids) - set(held_out))
    if not train or not held_out:
        raise InputError(
            f"gym: {len(db_ids)} usable database(s) cannot be split into training and evaluation; "
            "add databases, or change gym.eval_databases or gym.eval_share"
        )
    return train, held_out


def build_gym(
    store: TemplateStore, params: GymParams, seed: int, progress: Callable[[int], None] = lambda made: None
) -> Gym:
    """Build the gym. `progress` is called with 1 for each accepted instance, one call at a time.

    Fewer instances than wanted is not an error here: what could be made is returned, beside what was wanted.
    Raises InputError for bad parameters or gold files, InfraError when SQL workers fail.
    """
    verified, quarantine = _verified(store, params, seed)
    train, held_out = split_databases(sorted(verified), params, seed)
    config = PoolConfig(workers=params.workers, statement_timeout_s=params.statement_timeout_s, max_rows=5000)
    lock = Lock()

    def accepted() -> None:
        with lock:
            progress(1)

    with ReplicaPool(config) as pool, ThreadPoolExecutor(params.workers) as threads:
        gates = Gates(store, pool)
        rewinders = {
            db_id: DatabaseRewinder(gates, gates.view(db_id), items, seed, params.kinds)
            for db_id, items in sorted(verified.items())
        }
        for group, wanted in ((held_out, params.eval_instances), (train, params.train_instances)):
            _fill([rewinders[db_id] for db_id in group], wanted, params, threads, accepted)
    reasons: Counter[str] = Counter(row["reason"] for row in quarantine)
    for rewinder in rewinders.values():
        quarantine += rewinder.quarantine
        reasons += rewinder.reasons
    return Gym(
        train=_numbered(rewinders, train),
        evaluation=_numbered(rewinders, held_out),
        quarantine=quarantine,
        reasons=reasons,
        verified=Counter({db_id: len(items) for db_id, items in verified.items()}),
        wanted={"train": params.train_instances, "eval": params.eval_instances},
    )


def _fill(
    rewinders: Sequence[DatabaseRewinder],
    wanted: int,
    params: GymParams,
    threads: ThreadPoolExecutor,
    accepted: Callable[[], None],
) -> None:
    """Spread `wanted` instances evenly over databases; those with more to give make up for those without."""
    for _ in range(ROUNDS):
        missing = wanted - sum(len(r.accepted) for r in rewinders)
        able = [r for r in rewinders if not r.exhausted]
        if missing <= 0 or not able:
            return
        portions = _portions(missing, [1.0] * len(able))
        work = []
        for rewinder, portion in zip(able, portions, strict=True):
            quota = dict(
                zip(CATEGORIES, _portions(portion, [params.shares.get(c, 0.0) for c in CATEGORIES]), strict=True)
            )
            work.append(threads.submit(rewinder.extend, quota, accepted))
        for task in work:
            task.result()


def _portions(total: int, weights: Sequence[float]) -> list[int]:
    """Whole numbers that add up to `total`, in proportion to the weights (largest remainders)."""
    scale = sum(weights)
    if scale <= 0:
        raise InputError("gym.shares: at least one share must be above 0")
    exact = [total * weight / scale for weight in weights]
    portions = [int(x) for x in exact]
    by_remainder = sorted(range(len(exact)), key=lambda i: (portions[i] - exact[i], i))
    for i in by_remainder[: total - sum(portions)]:
        portions[i] += 1
    return portions


def _numbered(rewinders: dict[str, DatabaseRewinder], db_ids: Sequence[str]) -> list[Instance]:
    return [
        instance.model_copy(update={"instance_id": f"gym_{db_id}_{number}"})
        for db_id in db_ids
        for number, instance in enumerate(rewinders[db_id].accepted)
    ]


def _verified(
    store: TemplateStore, params: GymParams, seed: int
) -> tuple[dict[str, list[VerifiedSql]], list[dict[str, Any]]]:
    """Verified SQL per database, and rows for what was rejected on the way."""
    by_db: dict[str, list[VerifiedSql]] = {}
    if params.gold_sql:
        accepted, rejected = read_gold_files([Path(name) for name in params.gold_sql], store)
        for item in accepted:
            by_db.setdefault(item.db_id, []).append(item)
        if not by_db:
            raise InputError(
                f"gym.gold_sql: no usable query in {', '.join(params.gold_sql)} for the template databases"
            )
        return by_db, [{**vars(row), "reason": f"verified SQL: {row.reason}"} for row in rejected]
    total = params.train_instances + params.eval_instances
    per_database = max(MIN_VERIFIED, total // (2 * len(store.db_ids)))  # one verified SQL carries several issues
    for db_id in store.db_ids:
        by_db[db_id] = generate_verified(store, db_id, seed, per_database)
    return by_db, []
