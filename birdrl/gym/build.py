"""From templates and verified SQL to a gated gym, split by database.

The process that calls `build_gym` plans, others do the work (`crew`, `build_steps`). What is asked of a database
follows from what all databases have given so far, never from who finished first: the same seed and inputs give the
same gym with any number of workers, also when a killed build goes on.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from threading import Lock
from typing import Any

from birdrl.errors import InputError
from birdrl.gym.build_steps import BuildSpec, Workshop
from birdrl.gym.crew import Crew, Hand
from birdrl.gym.instance import CATEGORIES, Category, Instance
from birdrl.gym.journal import Journal, build_key
from birdrl.gym.rewind import kinds_of
from birdrl.gym.templates import TemplateStore
from birdrl.gym.verified import GoldRow, Rejected, read_gold_rows
from birdrl.params import GymParams

MIN_VERIFIED = 40  # generated queries per database, at least
ROUNDS = 6  # how often databases that can are asked to make up for those that cannot
SHOWN_REFUSED = 3  # rows of gold files that an error names
SLICE = 50  # instances of a slice, at most: what a killed build may lose per process

Progress = Callable[[str, int], None]  # phase (`verify` in databases, `issues`), how many more are done
Quota = dict[Category, int]


@dataclass
class Gym:
    """What the gym stage writes."""

    train: list[Instance]
    evaluation: list[Instance]
    quarantine: list[dict[str, Any]]
    reasons: Counter[str]
    verified: Counter[str]  # verified SQL per database
    wanted: dict[str, int] = field(default_factory=dict)
    # What could not be used, by sort (`databases`, `gold_sql`) and reason.
    unusable: dict[str, Counter[str]] = field(default_factory=dict)
    journal: Journal | None = None  # kept under `work` until whoever writes the gym removes it


@dataclass
class _Database:
    """How far one database got."""

    db_id: str
    accepted: int = 0
    slices: int = 0
    exhausted: bool = False


def split_databases(db_ids: Sequence[str], params: GymParams, seed: int) -> tuple[list[str], list[str]]:
    """(training, evaluation) databases. Raises InputError when one side would be empty or an id is unknown."""
    if params.eval_instances == 0:
        return sorted(db_ids), []
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
    store: TemplateStore,
    params: GymParams,
    seed: int,
    progress: Progress = lambda phase, done: None,
    *,
    work: Path | None = None,
) -> Gym:
    """Build the gym.

    Under `work` a killed build leaves what it had finished and goes on from there; None: nothing outlives the call.
    Fewer instances than wanted is not an error here: what could be made is returned, beside what was wanted.
    Raises InputError for bad parameters or gold files, InfraError when SQL workers or processes fail.
    """
    kinds_of(params.kinds)
    gold = _gold_by_database(params, store)
    with _journal(store, params, seed, work) as journal:
        spec = BuildSpec(store.folder.absolute(), journal.folder.absolute(), params, seed)
        lock = Lock()

        def tell(phase: str, done: int) -> None:
            with lock:
                progress(phase, done)

        with Crew[Any](spec, params.workers) as crew:
            usable = _verify(crew, store, params, gold, tell)
            if not usable:
                source = ", ".join(params.gold_sql) or "the databases"
                raise InputError(f"gym: no usable query in {source}{_refused(journal)}")
            try:
                train, held_out = split_databases(usable, params, seed)
            except InputError as error:
                raise InputError(f"{error}{_refused(journal)}") from error
            databases = {db_id: _Database(db_id) for db_id in usable}
            groups = [
                ([databases[db_id] for db_id in held_out], params.eval_instances),
                ([databases[db_id] for db_id in train], params.train_instances),
            ]
            _fill(crew, groups, params, tell)
        gym = _collect(journal, store, params, train, held_out, databases)
        gym.journal = journal if work is not None else None
        return gym


@contextmanager
def _journal(store: TemplateStore, params: GymParams, seed: int, work: Path | None) -> Iterator[Journal]:
    if work is None:
        with tempfile.TemporaryDirectory(prefix="birdrl-gym-") as folder:
            yield Journal(Path(folder))
        return
    yield Journal.open(work, build_key(store, params, seed))


def _gold_by_database(params: GymParams, store: TemplateStore) -> dict[str, list[GoldRow]] | None:
    """Rows of the gold files by database, those of unknown databases too; None when queries are to be generated."""
    if not params.gold_sql:
        return None
    by_database: dict[str, list[GoldRow]] = {}
    for row in read_gold_rows(params.gold_sql):
        by_database.setdefault(row.db_id, []).append(row)
    return by_database


def _refused(journal: Journal) -> str:
    """The first rows of gold files that could not be used, for an error's message; empty when there are none."""
    rows = sorted((row for _, rejected in journal.all_verified().values() for row in rejected), key=_place)
    named = [f"{row.path}, row {row.row}: {row.reason}" for row in rows[:SHOWN_REFUSED]]
    more = [f"and {len(rows) - len(named)} more"] if len(rows) > len(named) else []
    return "; refused: " + "; ".join([*named, *more]) if named else ""


def _place(row: Rejected) -> tuple[str, int]:
    return row.path, row.row


def _verify(
    crew: Crew[Any],
    store: TemplateStore,
    params: GymParams,
    gold: dict[str, list[GoldRow]] | None,
    tell: Progress,
) -> list[str]:
    """Databases with verified SQL."""
    total = params.train_instances + params.eval_instances
    count = max(MIN_VERIFIED, total // (2 * len(store.db_ids)))  # one verified SQL carries several issues
    found: dict[str, int] = {}

    def work(hand: Hand, db_id: str) -> None:
        found[db_id] = hand(Workshop.verify, db_id, gold[db_id] if gold is not None else None, count)
        tell("verify", 1)

    crew.run(_largest_first(gold if gold is not None else store.db_ids, store), work)
    return sorted(db_id for db_id, verified in found.items() if verified)


def _largest_first(db_ids: Iterable[str], store: TemplateStore) -> list[str]:
    """What takes longest starts first, so that no process ends up alone with it."""
    return sorted(db_ids, key=lambda db_id: (-store.manifest.get(db_id, {}).get("bytes", 0), db_id))


def _fill(crew: Crew[Any], groups: Sequence[tuple[list[_Database], int]], params: GymParams, tell: Progress) -> None:
    """Spread the wanted instances of each group evenly over its databases.

    In later rounds databases with more to give make up for those without.
    """
    for _ in range(ROUNDS):
        jobs: list[tuple[_Database, list[Quota]]] = []
        for databases, wanted in groups:
            missing = wanted - sum(database.accepted for database in databases)
            able = [database for database in databases if not database.exhausted]
            if missing > 0 and able:
                categories = in_proportion(missing, [params.shares.get(category, 0.0) for category in CATEGORIES])
                for database, share in zip(able, _portions(missing, len(able)), strict=True):
                    if share:
                        jobs.append((database, _slices([next(categories) for _ in range(share)])))
        if not jobs:
            return

        def work(hand: Hand, job: tuple[_Database, list[Quota]]) -> None:
            database, quotas = job
            for quota in quotas:
                made = hand(Workshop.extend, database.db_id, database.slices, quota)
                database.slices += 1
                database.accepted += made.accepted
                database.exhausted = made.exhausted
                tell("issues", made.accepted)
                if made.exhausted:
                    return

        crew.run(jobs, work)


def _slices(categories: Sequence[int]) -> list[Quota]:
    """The instances wanted of a database, given as indices of CATEGORIES, in slices of even size."""
    count = -(-len(categories) // SLICE)
    columns = [_portions(categories.count(index), count) for index in range(len(CATEGORIES))]
    return [dict(zip(CATEGORIES, numbers, strict=True)) for numbers in zip(*columns, strict=True)]


def _portions(total: int, parts: int) -> list[int]:
    """Whole numbers that add up to `total` and differ by one at most, the larger ones first."""
    return [total // parts + (number < total % parts) for number in range(parts)]


def in_proportion(total: int, weights: Sequence[float]) -> Iterator[int]:
    """`total` indices of three weights, such that any first n of them hold n's share of each, off by less than one.

    What is cut from it piece by piece has the wanted shares as a whole, however small the pieces.
    Raises InputError when no weight is above 0.
    """
    scale = sum(weights)
    if scale <= 0:
        raise InputError("gym.shares: at least one share must be above 0")
    given = [0] * len(weights)
    for number in range(1, total + 1):
        index = max(range(len(weights)), key=lambda i: (number * weights[i] / scale - given[i], -i))
        given[index] += 1
        yield index


def _collect(
    journal: Journal,
    store: TemplateStore,
    params: GymParams,
    train: Sequence[str],
    held_out: Sequence[str],
    databases: dict[str, _Database],
) -> Gym:
    """Everything the journal holds, in an order that depends on nothing but the databases' names."""
    gym = Gym([], [], [], Counter(), Counter())
    gym.wanted = {"train": params.train_instances, "eval": params.eval_instances}
    gym.unusable["databases"] = Counter(store.rejected.values())
    gold: Counter[str] = Counter()
    for db_id, (accepted, rejected) in journal.all_verified().items():
        if accepted:
            gym.verified[db_id] = len(accepted)
        for row in rejected:
            gold[row.reason] += 1
            gym.quarantine.append({**vars(row), "reason": f"verified SQL: {row.reason}"})
    gym.unusable["gold_sql"] = gold
    gym.reasons.update({f"verified SQL: {reason}": count for reason, count in gold.items()})
    for side, db_ids in ((gym.train, train), (gym.evaluation, held_out)):
        for db_id in db_ids:
            number = 0
            for position in range(databases[db_id].slices):
                made = journal.slice(db_id, position)
                if made is None:
                    raise InputError(f"{journal.folder}: slice {position} of {db_id} is gone; run the build again")
                for instance in made.accepted:
                    side.append(instance.model_copy(update={"instance_id": f"gym_{db_id}_{number}"}))
                    number += 1
                gym.quarantine += made.quarantine
                gym.reasons.update(made.reasons)
    return gym
