"""`birdrl audit`: any training file against any evaluation file."""

from __future__ import annotations

import argparse
import json
import sys
import time
from contextlib import ExitStack
from pathlib import Path

from pydantic import ValidationError
from tqdm import tqdm

from birdrl.audit.contamination import Audit, audit, check_sides
from birdrl.audit.databases import databases_by_id
from birdrl.audit.markdown import render_markdown
from birdrl.audit.output import WRITTEN, write_audit
from birdrl.audit.rows import database_ids
from birdrl.cli._out import check_file, check_folder
from birdrl.errors import InputError
from birdrl.gym.database_folder import open_databases
from birdrl.params import AuditParams
from birdrl.sql.pool import PoolConfig, ReplicaPool

EPILOG = """\
examples:
  birdrl audit --train train.jsonl --eval eval.jsonl
  birdrl audit --train artifacts/demo/gym/train.jsonl --eval artifacts/demo/gym/eval.jsonl \\
               --databases artifacts/demo/templates --out audit
  birdrl audit --train train_spider.json --eval dev.json --json | jq .counts

Files are JSON lines or a JSON list with the fields of SIX-GYM, BIRD-CRITIC, LiveSQLBench, BIRD or Spider. DIR is a
folder of <db>/<db>.sqlite or the output of the templates stage; with it, schemas and the results of the solutions are
compared, too. A training file of more than --exhaustive-rows rows must be JSON lines and is compared in bounded memory.

exit status: 0 nothing found, 1 a database or schema is on both sides or training rows are flagged, 2 wrong input
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    defaults = AuditParams.model_validate({})
    parser.add_argument("--train", type=Path, required=True, metavar="FILE", help="training instances")
    parser.add_argument("--eval", type=Path, required=True, metavar="FILE", help="evaluation instances")
    parser.add_argument("--databases", type=Path, metavar="DIR", help="databases of both sides")
    parser.add_argument("--no-results", action="store_true", help="do not execute the solutions to compare results")
    parser.add_argument("--out", type=Path, metavar="DIR", help="write report.json, report.md and the kept rows here")
    parser.add_argument("--json", action="store_true", help="the report as JSON on standard output")
    parser.add_argument(
        "--exclude", nargs="+", metavar="REASON", default=defaults.exclude,
        help="what flags a training row (default: %(default)s); also same_text, same_sql, same_masked_sql, "
        "same_solution, same_result",
    )  # fmt: skip
    for name, what in (
        ("text_threshold", "text similarity above which a pair may be flagged"),
        ("sql_threshold", "SQL similarity above which a pair may be flagged"),
        ("closest_pairs", "number of closest pairs shown"),
        ("exhaustive_rows", "training rows up to which all pairs are held in memory"),
        ("workers", "processes"),
    ):
        default = getattr(defaults, name)
        option = f"--{name.replace('_', '-')}"
        parser.add_argument(option, type=type(default), default=default, help=f"{what} (default: %(default)s)")


def run(arguments: argparse.Namespace) -> int:
    check_sides(arguments.train, arguments.eval)
    params = audit_params(arguments)
    if arguments.out:
        check_folder(arguments.out)
        for name in WRITTEN:
            check_file(arguments.out / name, (arguments.train, arguments.eval))
    started = time.monotonic()
    with ExitStack() as stack:
        databases = pool = None
        if arguments.databases:
            wanted = database_ids(arguments.train) | database_ids(arguments.eval)
            databases = databases_by_id(open_databases(arguments.databases), wanted)
            pool = stack.enter_context(ReplicaPool(PoolConfig(workers=params.workers))) if params.results else None
        bar = stack.enter_context(
            tqdm(total=1.0, desc="audit", disable=None, bar_format="{desc}: {percentage:3.0f}%, {remaining} left")
        )
        result = audit(arguments.train, arguments.eval, params, databases=databases, pool=pool, progress=bar.update)
    elapsed = time.monotonic() - started
    for path, side in ((arguments.train, "train"), (arguments.eval, "eval")):
        if not result.counts()[f"{side}_instances"]:
            raise InputError(f"{path}: holds no row, so nothing was compared; name a file of instances")
    if arguments.out:
        write_audit(result, arguments.out, arguments.train)
    if arguments.json:
        print(json.dumps(result.to_json(), indent=2, ensure_ascii=False))
    else:
        print(render_markdown(result), end="")
    print(f"audit: {summary(result)}, {elapsed:.1f} s", file=sys.stderr)
    return 0 if result.clean else 1


def audit_params(arguments: argparse.Namespace) -> AuditParams:
    """The options as parameters. Raises InputError naming the option and what is allowed."""
    names = ("text_threshold", "sql_threshold", "closest_pairs", "exhaustive_rows", "workers", "exclude")
    values = {name: getattr(arguments, name) for name in names}
    try:
        return AuditParams.model_validate({**values, "results": not arguments.no_results})
    except ValidationError as error:
        first = error.errors()[0]
        option = f"--{str(first['loc'][0]).replace('_', '-')}"
        raise InputError(f"{option}: {first['msg']} (got {first['input']!r})") from error


def summary(result: Audit) -> str:
    """One line: the databases first."""
    counts = result.counts()
    return (
        f"{counts['database_overlap']} databases on both sides, {counts['flagged_train']} of "
        f"{counts['train_instances']:,} training rows flagged, {counts['pairs']:,} pairs"
    )
