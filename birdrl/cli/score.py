"""`birdrl score`: judge a file of predictions."""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
from pathlib import Path

from tqdm import tqdm

from birdrl.cli._out import check_file
from birdrl.compare.modes import MODES, mode_named
from birdrl.errors import InputError
from birdrl.files import write_jsonl
from birdrl.gym.database_folder import open_databases
from birdrl.rewards.gold import GoldStore
from birdrl.scoring.judge import Judge
from birdrl.scoring.predictions import read_predictions
from birdrl.scoring.run import Extras, score_all
from birdrl.scoring.summary import compare_runs, read_verdicts, summarise, text
from birdrl.scoring.tasks import read_tasks
from birdrl.sql.pool import PoolConfig, ReplicaPool

EPILOG = f"""\
examples:
  birdrl score --instances dev.json --predictions pred.json --databases dev_databases --mode bird --out verdicts.jsonl
  birdrl score --instances dev.json --predictions pred.sql --databases database --mode spider --out verdicts.jsonl
  birdrl score --instances critic.jsonl --predictions pred.jsonl --databases dbs --mode critic_strict --out v.jsonl
  birdrl score ... --trials --metric soft_f1 --metric r_ves --against other_verdicts.jsonl

modes:
{chr(10).join(f"  {mode.name:<14} {mode.meaning}" for mode in MODES.values())}

Instances with test cases are judged by these; the others by the mode's comparison with their gold SQL: last result
and, where statements write, the state after them. Files: JSON lines of BIRD-CRITIC and SIX-GYM, JSON of BIRD and
Spider, text with one SQL per line. DIR holds <db>/<db>.sqlite or <db>/<db>_template.sqlite, or is the output of the
templates stage; no file in it is ever changed. A line of the output: id, verdict (1, 0, or null where the gold or the
machine failed), reason, status, passed, total, seconds, gold_seconds.

exit status: 0 every prediction was judged, 1 some could not be (named in the summary), 2 wrong use or wrong input
"""
METRICS = ("soft_f1", "r_ves", "suite")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--instances", type=Path, required=True, metavar="FILE", help="what was asked, with its gold")
    parser.add_argument("--predictions", type=Path, required=True, metavar="FILE", help="what was answered")
    parser.add_argument("--databases", type=Path, required=True, metavar="DIR", help="the databases")
    parser.add_argument("--mode", required=True, choices=MODES, metavar="MODE", help=f"one of {', '.join(MODES)}")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="verdicts, JSON lines")
    parser.add_argument("--trials", action="store_true", help="several predictions per instance: pass@k and voting too")
    parser.add_argument(
        "--missing",
        choices=("error", "zero"),
        default="error",
        help="instances without prediction (default: %(default)s)",
    )
    parser.add_argument(
        "--metric", action="append", default=[], choices=METRICS, dest="metrics",
        help="also measure this; may be repeated (r_ves times every right answer again, suite perturbs databases)",
    )  # fmt: skip
    parser.add_argument(
        "--repeats", type=int, default=20, metavar="N", help="timings per answer for r_ves (%(default)s)"
    )
    parser.add_argument(
        "--copies", type=int, default=6, metavar="N", help="perturbed databases for suite (%(default)s)"
    )
    parser.add_argument("--seed", type=int, default=0, help="of the perturbations (default: %(default)s)")
    parser.add_argument("--against", type=Path, metavar="FILE", help="verdicts of another run: McNemar's exact test")
    parser.add_argument(
        "--timeout",
        type=float,
        default=30.0,
        metavar="S",
        help="limit of one statement of a prediction (%(default)s s)",
    )
    parser.add_argument(
        "--gold-timeout", type=float, default=600.0, metavar="S", help="limit of one gold statement (%(default)s s)"
    )
    parser.add_argument(
        "--workers", type=int, default=os.cpu_count() or 1, metavar="N", help="SQL processes (%(default)s)"
    )
    parser.add_argument("--json", action="store_true", help="the summary as JSON")


def run(arguments: argparse.Namespace) -> int:
    for name in ("timeout", "gold_timeout", "workers", "repeats", "copies"):
        if not 0 < getattr(arguments, name) < math.inf:
            raise InputError(f"--{name.replace('_', '-')} must be a number above 0")
    tasks = read_tasks(arguments.instances)
    databases = open_databases(arguments.databases)
    for task in tasks:
        try:
            databases.path(task.db_id)
        except InputError as error:
            raise InputError(f"{task.place} ({task.instance_id}): {error}") from error
    answers = read_predictions(
        arguments.predictions, tasks, trials=arguments.trials, missing=arguments.missing == "zero"
    )
    others = read_verdicts(arguments.against, {task.instance_id for task in tasks}) if arguments.against else None
    read = [arguments.instances, arguments.predictions, *([arguments.against] if arguments.against else [])]
    check_file(arguments.out, [*read, *(databases.path(task.db_id) for task in tasks)])
    extras = Extras(
        soft_f1="soft_f1" in arguments.metrics,
        r_ves=arguments.repeats if "r_ves" in arguments.metrics else 0,
        suite=arguments.copies if "suite" in arguments.metrics else 0,
        trials=arguments.trials,
        seed=arguments.seed,
    )
    config = PoolConfig(
        workers=arguments.workers,
        statement_timeout_s=arguments.timeout,
        lease_timeout_s=20 * max(arguments.gold_timeout, arguments.timeout),
        acquire_timeout_s=20 * max(arguments.gold_timeout, arguments.timeout),
        max_rows=1_000_000,
    )
    with ReplicaPool(config) as pool:
        gold = GoldStore(databases, pool, cache_size=256, timeout_s=arguments.gold_timeout)
        judge = Judge(mode_named(arguments.mode), databases, pool, gold)
        try:
            scored = score_all(tasks, answers, judge, databases.schema, extras, arguments.workers)
            rows = list(tqdm(scored, total=len(answers), unit="answer", disable=not sys.stderr.isatty()))
        finally:
            judge.close()
    write_jsonl(arguments.out, rows)
    summary = summarise(rows, arguments.mode)
    if others is not None:
        summary["against"] = compare_runs(rows, others)
    print(json.dumps(summary, indent=2, ensure_ascii=False) if arguments.json else text(summary))
    return 1 if summary["not_judged"] else 0
