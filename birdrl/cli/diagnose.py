"""`birdrl diagnose`: SQL-ASTRA's two views of any set of transcripts."""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tqdm import tqdm

from birdrl.agent.prompting import load_prompts
from birdrl.errors import GoldError, InputError
from birdrl.files import read_jsonl, write_json
from birdrl.gym.database_folder import open_databases
from birdrl.gym.instance import Instance, read_instances
from birdrl.params import RewardParams
from birdrl.rewards.diagnostics import energy_report, reward_distribution
from birdrl.rewards.execution import ExecutionScorer
from birdrl.rewards.replay import trajectory_of
from birdrl.rewards.rewarder import Rewarder
from birdrl.sql.pool import PoolConfig, ReplicaPool

EPILOG = """\
examples:
  birdrl diagnose artifacts/demo/evaluate/trajectories/rl_agentic.jsonl \\
      --instances artifacts/demo/gym/eval.jsonl --templates artifacts/demo/templates
  birdrl diagnose a.jsonl b.jsonl --instances eval.jsonl --templates DIR --paper --out report.json

Each line of FILE holds `instance_id` and `messages`, as the stages evaluate, distill_reasoning and
distill_trajectories write them. Every query is run again on pristine replicas. Instances whose own reference fails
are counted under `gold` and in no figure.

exit status: 0 done, 1 the run failed, 2 wrong use or wrong input
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help="transcripts, JSON lines")
    parser.add_argument("--instances", type=Path, required=True, help="the instances they are about, JSON lines")
    parser.add_argument(
        "--templates",
        type=Path,
        required=True,
        help="template store, or folder of databases",
    )
    parser.add_argument("--alpha", type=float, default=0.8, help="cap of CSMR (default 0.8)")
    parser.add_argument("--tau", type=float, default=0.05, help="smaller changes are no steps (default 0.05)")
    parser.add_argument("--paper", action="store_true", help="compare on the one database, not on all of the tests")
    parser.add_argument("--workers", type=int, default=2, help="SQL worker processes (default 2)")
    parser.add_argument("--timeout", type=float, default=2.0, help="seconds per statement (default 2)")
    parser.add_argument("--out", type=Path, help="also write the report to this file")


def run(arguments: argparse.Namespace) -> int:
    if not 0 <= arguments.tau < 1:
        raise InputError(f"--tau {arguments.tau}: it must lie from 0 to below 1")
    for name in ("workers", "timeout"):
        if not 0 < getattr(arguments, name) < math.inf:
            raise InputError(f"--{name} must be a number above 0")
    instances = {instance.instance_id: instance for instance in read_instances(arguments.instances)}
    rows = [
        _row(file, number, row, instances)
        for file in arguments.files
        for number, row in enumerate(read_jsonl(file), 1)
        if not row.get("excluded")  # an evaluation's note that the instance was not played
    ]
    if not rows:
        raise InputError(f"{', '.join(map(str, arguments.files))}: no transcripts")
    values = {"preset": "csmr", "csmr": {"alpha": arguments.alpha}, "every_database": not arguments.paper}
    try:
        params = RewardParams.model_validate(values)
    except ValueError as error:
        raise InputError(f"--alpha {arguments.alpha}: it must lie between 0 and 1") from error
    store = open_databases(arguments.templates)
    pool_config = PoolConfig(workers=arguments.workers, statement_timeout_s=arguments.timeout)
    with ReplicaPool(pool_config) as pool, ThreadPoolExecutor(arguments.workers) as threads:
        rewarder = Rewarder(params, ExecutionScorer(store, pool), store, pool, load_prompts("compact"))
        work = threads.map(lambda row: _score(rewarder, *row), rows)
        scored = list(tqdm(work, total=len(rows), desc="diagnose", unit="transcript", file=sys.stderr))
    done = [one for one in scored if one is not None]
    if not done:
        raise GoldError(f"{arguments.instances}: not one of {len(rows)} transcripts is about a reference that works")
    report = {
        "transcripts": len(rows),
        "gold": len(scored) - len(done),
        "outcomes": dict(sorted(Counter(outcome for _, _, outcome in done).items())),
        "reward_distribution": reward_distribution(value for _, value, _ in done).row(),
        "energy": energy_report((levels for levels, _, _ in done), tau=arguments.tau),
    }
    print(json.dumps(report, indent=2))
    if arguments.out:
        write_json(arguments.out, report)
    return 0


def _score(
    rewarder: Rewarder, instance: Instance, messages: list[dict[str, str]]
) -> tuple[tuple[float, ...], float, str] | None:
    """(Phi of each state, Phi of the solution, outcome), None when the instance's reference fails."""
    trajectory = trajectory_of(messages, instance)
    try:
        reward = rewarder.reward(trajectory)
        return rewarder.turn_scores(trajectory), reward.reward, reward.outcome.value
    except GoldError:
        return None


def _row(
    file: Path, number: int, row: dict[str, Any], instances: dict[str, Instance]
) -> tuple[Instance, list[dict[str, str]]]:
    if not isinstance(row.get("messages"), list) or "instance_id" not in row:
        raise InputError(f"{file}, row {number}: needs 'instance_id' and 'messages'; is it a file of transcripts?")
    for place, message in enumerate(row["messages"], 1):
        if not (isinstance(message, dict) and all(isinstance(message.get(key), str) for key in ("role", "content"))):
            raise InputError(f"{file}, row {number}, message {place}: needs 'role' and 'content', both texts")
    name = row["instance_id"]
    if not isinstance(name, str) or name not in instances:
        raise InputError(f"{file}, row {number}: no instance {name!r} in the file of --instances")
    return instances[name], row["messages"]
