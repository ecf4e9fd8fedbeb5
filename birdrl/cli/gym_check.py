"""`birdrl gym check`: gate zero on every instance of a file."""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
from pathlib import Path

from tqdm import tqdm

from birdrl.compare.modes import MODES, mode_named
from birdrl.errors import InputError
from birdrl.gym.database_folder import open_databases
from birdrl.rewards.gold import GoldStore
from birdrl.scoring.gate_zero import check
from birdrl.scoring.judge import Judge
from birdrl.scoring.tasks import read_tasks
from birdrl.sql.pool import PoolConfig, ReplicaPool

HELP = "gate zero: gold earns 1, the issue less, an empty answer 0, and twice the same"
EPILOG = """\
examples:
  birdrl gym check --instances artifacts/demo/gym/train.jsonl --databases artifacts/demo/templates
  birdrl gym check --instances six_gym.jsonl --databases six_gym_databases --json

DIR holds <db>/<db>.sqlite or <db>/<db>_template.sqlite, or is the output of the templates stage. Instances with test
cases are judged by these; the others as `birdrl score` judges them in the same mode: last result and, where statements
write, the state after them.

exit status: 0 every instance passes, 1 some do not (they are named), 2 wrong use or wrong input
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--instances", type=Path, required=True, metavar="FILE", help="instances, JSON lines or JSON")
    parser.add_argument("--databases", type=Path, required=True, metavar="DIR", help="the databases")
    parser.add_argument(
        "--mode", choices=MODES, default="multiset", metavar="MODE",
        help=f"one of {', '.join(MODES)}, as for birdrl score (%(default)s)",
    )  # fmt: skip
    parser.add_argument("--json", action="store_true", help="one JSON object with all failures")
    parser.add_argument(
        "--timeout", type=float, default=10.0, metavar="S", help="limit of one statement (%(default)s s)"
    )
    parser.add_argument(
        "--workers", type=int, default=os.cpu_count() or 1, metavar="N", help="SQL processes (%(default)s)"
    )


def run(arguments: argparse.Namespace) -> int:
    for name in ("timeout", "workers"):
        if not 0 < getattr(arguments, name) < math.inf:
            raise InputError(f"--{name} must be a number above 0")
    tasks = read_tasks(arguments.instances)
    databases = open_databases(arguments.databases)
    config = PoolConfig(workers=arguments.workers, statement_timeout_s=arguments.timeout, max_rows=100_000)
    with ReplicaPool(config) as pool, tqdm(total=len(tasks), unit="instance", disable=not sys.stderr.isatty()) as bar:
        judge = Judge(mode_named(arguments.mode), databases, pool, GoldStore(databases, pool))
        try:
            failed = [result for result in check(tasks, judge, arguments.workers, bar.update) if result.reasons]
        finally:
            judge.close()
    if arguments.json:
        failures = [{"id": result.instance_id, "reasons": list(result.reasons)} for result in failed]
        print(json.dumps({"instances": len(tasks), "failed": failures}, indent=2, ensure_ascii=False))
    else:
        for result in failed:
            print(f"{result.instance_id}: {'; '.join(result.reasons)}")
        print(f"{len(tasks) - len(failed)} of {len(tasks)} instances pass gate zero")
    return 1 if failed else 0
