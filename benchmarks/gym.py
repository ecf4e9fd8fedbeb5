"""How fast a gym is built: by stage, by gate, against a naive build, and how cost grows with its size.

The naive build makes the same issues in one process and gives every execution a fresh copy of the database's file and
a connection of its own; it has no journal, no limits and no isolation. It and the build in one process are timed on
the first size only.
"""

from __future__ import annotations

import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

from tqdm import tqdm

from benchmarks._fresh_copies import FreshCopies
from benchmarks._harness import Timings, bar_plot, machine, markdown, parser, report, shown_bytes, shown_ratio
from birdrl.cli.gym_build import SHAPE
from birdrl.errors import BirdrlError, InputError
from birdrl.gym.build import build_gym
from birdrl.gym.build_steps import MAX_ROWS, PATIENCE, BuildSpec, Workshop
from birdrl.gym.near import NearDuplicates
from birdrl.gym.rewind import kinds_of
from birdrl.gym.rewind.gates import Gates, Limits
from birdrl.gym.rewind.rewinder import DatabaseRewinder
from birdrl.gym.templates import TemplateStore
from birdrl.gym.verified import generate_verified
from birdrl.params import GymParams, TemplatesParams
from birdrl.sql.pool import PoolConfig
from birdrl.stages.templates import build_templates

SIZES = (500, 2_000, 5_000)
STAGE_DATABASES = 4  # on which stages and gates are timed
STAGE_ISSUES = 60  # of each of them

EPILOG = """\
examples:
  python -m benchmarks.gym                 about twenty minutes on two cores
  python -m benchmarks.gym --quick         less than a minute
  python -m benchmarks.gym --sizes 500 5000 50000 --databases DIR --sql FILE     growth on your own databases

--databases and --sql as for `birdrl gym build`; without them the generated domains are used, which end near 20,000.
"""


def main(argv: list[str] | None = None) -> int:
    arguments = parser(__doc__ or "", EPILOG)
    arguments.add_argument("--sizes", type=int, nargs="+", help=f"issues of the builds ({SIZES})")
    arguments.add_argument("--databases", type=Path, metavar="DIR", help="folder of SQLite databases")
    arguments.add_argument("--sql", type=Path, metavar="FILE", help="verified SQL for them")
    options = arguments.parse_args(argv)
    sizes = options.sizes or ([60] if options.quick else list(SIZES))
    work = Path(tempfile.mkdtemp(prefix="birdrl-bench-"))
    try:
        store, templates_s = _templates(work / "templates", options.databases)
        gold = [str(options.sql)] if options.sql else []
        stages = _stages(store, 12 if options.quick else STAGE_ISSUES, work)
        stages["templates, databases per second"] = len(store.db_ids) / templates_s
        builds = [_build(store, size, gold, work) for size in tqdm(sizes, desc="builds")]
        builds[0] |= _alone(store, sizes[0], gold, work)
        result = {
            "machine": machine(work),
            "databases": len(store.db_ids),
            "stages": stages,
            "builds": builds,
            "growth": [{**b, "per_issue_ms": 1000 * b["seconds_2"] / b["issues"]} for b in builds],
        }
        report("gym", options.out, result, _text(result))
        if not options.no_plot:
            names = {"rate_2": "2 processes", "rate_1": "1 process", "rate_naive": "naive"}
            groups = {f"{b['issues']:,}": {name: b[key] for key, name in names.items() if key in b} for b in builds}
            bar_plot(options.out / "gym.png", "Gym builds", "issues per second", groups)
    except BirdrlError as error:
        print(f"benchmarks.gym: {error}", file=sys.stderr)
        return 2 if isinstance(error, InputError) else 1
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return 0


def _templates(folder: Path, databases: Path | None) -> tuple[TemplateStore, float]:
    folder.mkdir(parents=True)
    source = {"source": "directory", "directory": str(databases)} if databases else {}
    start = time.perf_counter()
    build_templates(folder, TemplatesParams.model_validate(source), seed=7)
    return TemplateStore(folder), time.perf_counter() - start


def _params(issues: int, gold: list[str], workers: int) -> GymParams:
    """Issues of the published gym's shape, all of them for training."""
    values = {"train_instances": issues, "eval_instances": 0, "gold_sql": gold, "workers": workers}
    return GymParams.model_validate({**SHAPE, **values})


# --- stages and gates, one process


def _stages(store: TemplateStore, issues: int, work: Path) -> dict[str, float]:
    """Rates per second of the build's steps, and milliseconds of each gate per accepted issue."""
    params = _params(issues, [], 1)
    chosen = store.db_ids[:STAGE_DATABASES]
    verify, drafts, whole, near = Timings(), Timings(), Timings(), Timings()
    queries = {db_id: verify.time(lambda db_id=db_id: generate_verified(store, db_id, 7, 60)) for db_id in chosen}
    shop = Workshop(BuildSpec(store.folder, work / "stages", params, 7))
    gates: dict[str, Timings] = {}
    for name, label in _GATES.items():
        gates[label] = Timings()
        setattr(shop.gates, name, _timed(getattr(shop.gates, name), gates[label]))
    made = []
    try:
        for db_id in chosen:
            data = shop.gates.view(db_id)
            rewinder = DatabaseRewinder(shop.gates, data, queries[db_id], params, 7)
            quota = {"query": round(issues * 0.62), "management": round(issues * 0.22)}
            quota["personalization"] = issues - sum(quota.values())
            made += whole.time(lambda r=rewinder, q=quota: r.extend(q)).accepted
            drafts.time(lambda r=rewinder: _drafts(r))
    finally:
        shop.close()
    known = NearDuplicates(0.85, 0.90)
    for instance in made:
        near.time(lambda i=instance: known.find(i.query, i.issue_sql, i.sol_sql))
        known.add(instance.query, instance.issue_sql, instance.sol_sql)
    found = {
        "verified SQL, per second": sum(map(len, queries.values())) / sum(verify.seconds),
        "drafts without gates, per second": STAGE_DATABASES * len(kinds_of([])) / sum(drafts.seconds),
        "issues with gates, per second": len(made) / sum(whole.seconds),
        "near-duplicate check, ms": 1000 * sum(near.seconds) / len(made),
    }
    return found | {f"gate: {label}, ms": 1000 * sum(t.seconds) / len(made) for label, t in gates.items()}


# Methods of Gates, and what they stand for; trials also happen inside the search for a perturbation.
_GATES = {
    "_perturbation": "perturbed database",
    "_check_order": "other visiting order",
    "_check_effect": "solution has an effect",
    "_check_scores": "solution passes twice, issue fails",
}


def _timed(method: Callable[..., Any], timings: Timings) -> Callable[..., Any]:
    return lambda *arguments: timings.time(lambda: method(*arguments))


def _drafts(rewinder: DatabaseRewinder) -> None:
    """One draft of every kind, unchecked."""
    from birdrl.gym.rewind import apply_construction, apply_mutation
    from birdrl.gym.rewind.draft import Bench
    from birdrl.gym.rewind.words import Words

    for number, kind in enumerate(kinds_of([])):
        rng = Random(number)
        bench = Bench(rewinder.data, Words(rewinder.data.schema, rng), rng)
        if kind.construct:
            apply_construction(kind, bench)
        else:
            for item, tree in rewinder.sources:
                if apply_mutation(kind, bench, tree, item.source_id, item.question):
                    break


# --- whole builds


def _build(store: TemplateStore, issues: int, gold: list[str], work: Path) -> dict[str, Any]:
    """One size with two processes."""
    start = time.perf_counter()
    gym = build_gym(store, _params(issues, gold, 2), 7, work=work / f"build-{issues}")
    seconds = time.perf_counter() - start
    return {
        "wanted": issues,
        "issues": len(gym.train),
        "rejected": sum(gym.reasons.values()),
        "seconds_2": seconds,
        "rate_2": len(gym.train) / seconds,
        "peak_bytes_2": max(_peaks()),
    }


def _alone(store: TemplateStore, issues: int, gold: list[str], work: Path) -> dict[str, float]:
    """Issues per second of one process, and of the naive build (which makes its own verified SQL)."""
    start = time.perf_counter()
    gym = build_gym(store, _params(issues, gold, 1), 7, work=work / "build-alone")
    rates = {"rate_1": len(gym.train) / (time.perf_counter() - start)}
    return rates if gold else rates | {"rate_naive": _naive(store, issues)}


def _peaks() -> tuple[int, ...]:
    """Largest resident size so far of this process and of any of its ended children, bytes."""
    return tuple(1024 * resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))


def _naive(store: TemplateStore, issues: int) -> float:
    """Issues per second of the naive build of the first size, verified SQL included."""
    params = _params(issues, [], 1)
    pool = FreshCopies(PoolConfig(statement_timeout_s=PATIENCE * params.statement_timeout_s, max_rows=MAX_ROWS))
    gates = Gates(store, pool.as_pool(), Limits(params.max_sql_chars, params.max_words, params.text_style))
    start, made = time.perf_counter(), 0
    per_database = max(1, issues // len(store.db_ids))
    try:
        for db_id in store.db_ids:
            count = max(40, per_database // 2)
            verified = generate_verified(store, db_id, 7, count, complex_share=params.complex_share)
            rewinder = DatabaseRewinder(gates, gates.view(db_id), verified, params, 7)
            quota = {"query": round(per_database * 0.62), "management": round(per_database * 0.22)}
            quota["personalization"] = max(0, per_database - sum(quota.values()))
            made += len(rewinder.extend(quota).accepted)
            if made >= issues:
                break
    finally:
        gates.close()
        pool.close()
    return made / (time.perf_counter() - start)


def _text(result: dict[str, Any]) -> str:
    stages = markdown(
        ["step, one process", "figure"], [[name, f"{value:,.2f}"] for name, value in result["stages"].items()]
    )
    rows = []
    for b in result["builds"]:
        shown = [f"{b[key]:,.1f}" if key in b else "-" for key in ("rate_2", "rate_1", "rate_naive")]
        rows.append([
            f"{b['issues']:,} of {b['wanted']:,}", f"{b['seconds_2']:,.0f} s", *shown,
            shown_ratio(b["rate_2"] / b["rate_naive"]) if "rate_naive" in b else "-",
            f"{1000 * b['seconds_2'] / b['issues']:,.1f} ms", shown_bytes(b["peak_bytes_2"]),
        ])  # fmt: skip
    headers = [
        "issues", "2 processes", "issues/s", "1 process, issues/s", "naive, issues/s", "ratio", "per issue",
        "peak of a process",
    ]  # fmt: skip
    cores = result["machine"]["cpus"]
    return f"Gym builds on {result['databases']} databases, {cores} cores\n\n{stages}\n\n{markdown(headers, rows)}"


if __name__ == "__main__":
    sys.exit(main())
