"""`birdrl gym build`: a gated gym from a folder of databases and, if there is any, verified SQL."""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from birdrl.cli._out import check_folder
from birdrl.cli._settings import add_overrides, parse_overrides
from birdrl.errors import BirdrlError, InputError
from birdrl.files import atomic_dir, read_json
from birdrl.gym.templates import TemplateStore
from birdrl.params import GymParams, TemplatesParams, with_overrides
from birdrl.stages.gym import build_into
from birdrl.stages.supervisor import supervise
from birdrl.stages.templates import build_templates

HELP = "turn databases and verified SQL into executable, gated SQL issues"
EPILOG = """\
examples:
  birdrl gym build --databases ~/databases --out mygym
  birdrl gym build --databases spider/database --sql train_gold.sql --out mygym --instances 5000
  birdrl gym build --out demo --instances 200 --set text_style=report --set 'kinds=[joins, nulls]'
  birdrl gym build --out posts --instances 100 --set rewinder=teacher --set 'posts=[Posts.xml]' \\
                   --set 'teacher={endpoint: {url: "http://127.0.0.1:8000/v1", model: MODEL}}'

DIR holds <db>/<db>.sqlite or <db>/<db>_template.sqlite; without --databases the generated domains are used. FILE is
BIRD's or Spider's JSON, or lines SQL<TAB>db_id; without --sql queries are generated from the schemas. Your files are
never changed. Written are templates/, train.jsonl, eval.jsonl (with --eval-instances), quarantine.jsonl and stats.json.
A gym that lies at --out is replaced, any other folder with something in it refused. A build that was interrupted goes
on where it was when the same command is given again.

exit status: 0 done, 1 fewer issues than asked for, or the build failed, 2 wrong use or wrong input
"""

OPTIONS = {"train_instances": "--instances", "eval_instances": "--eval-instances", "workers": "--workers"}
FILES = ("templates", "train.jsonl", "stats.json")  # what a gym's folder has

# The published gym's: long reports, long queries, Table 7's rates. `--set` changes any of it.
SHAPE: dict[str, Any] = {
    "shares": {"query": 3094, "management": 1087, "personalization": 819},
    "rates": {"preprocess": 0.70, "clean_up": 0.19, "multi_sql": 0.09},
    "text_style": "report", "max_words": 400, "max_sql_chars": 1200, "complex_share": 0.9, "mutation_weight": 3,
}  # fmt: skip


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--databases", metavar="DIR", type=Path, help="folder of SQLite databases")
    parser.add_argument(
        "--sql", metavar="FILE", type=Path, action="append", default=[], help="verified SQL; repeatable"
    )
    parser.add_argument("--out", metavar="DIR", type=Path, required=True, help="folder to write")
    parser.add_argument("--instances", type=int, default=5000, help="issues wanted (default: %(default)s)")
    parser.add_argument(
        "--eval-instances", type=int, default=0, help="issues on databases held out for evaluation (default: none)"
    )
    parser.add_argument("--seed", type=int, default=0, help="seed of every random choice (default: %(default)s)")
    parser.add_argument("--workers", type=int, default=2, help="processes (default: %(default)s)")
    parser.add_argument("--skip", metavar="ID", action="append", default=[], help="a database to leave out; repeatable")
    add_overrides(parser)


def run(arguments: argparse.Namespace) -> int:
    templates, gym = params_of(arguments)  # wrong use is told before a process is started
    _check_out(arguments.out)
    return supervise(lambda: _build(arguments, templates, gym))


def params_of(arguments: argparse.Namespace) -> tuple[TemplatesParams, GymParams]:
    """The options as parameters. Raises InputError naming the key."""
    values: dict[str, Any] = {
        **SHAPE,
        "train_instances": arguments.instances,
        "eval_instances": arguments.eval_instances,
        "gold_sql": [str(path) for path in arguments.sql],
        "workers": arguments.workers,
    }
    overrides = parse_overrides(arguments.overrides)
    values = with_overrides(values, {key.removeprefix("gym."): value for key, value in overrides.items()})
    source = {"source": "directory", "directory": str(arguments.databases)} if arguments.databases else {}
    try:
        return TemplatesParams.model_validate({**source, "skip": arguments.skip}), GymParams.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"])
        key = OPTIONS.get(key, key)
        raise InputError(f"{key}: {first['msg']} (got {first.get('input')!r}); see `birdrl params gym`") from error


def _check_out(out: Path) -> None:
    """Raise InputError unless `out` is a gym, which is replaced, or can be created."""
    check_folder(out)
    if out.is_dir() and any(out.iterdir()) and not all((out / name).exists() for name in FILES):
        raise InputError(f"{out}: holds something else than a gym and is not replaced; name another folder with --out")


def _build(arguments: argparse.Namespace, templates: TemplatesParams, gym: GymParams) -> int:
    out: Path = arguments.out
    work = out.with_name(f".{out.name}.work")  # survives a kill
    going_on = work.exists()
    try:
        with atomic_dir(out) as folder:
            (folder / "templates").mkdir()
            build_templates(folder / "templates", templates, arguments.seed)
            store = TemplateStore(folder / "templates")
            built = build_into(folder, store, gym, arguments.seed, work)
    except BirdrlError as error:
        print(f"birdrl gym build: {error}", file=sys.stderr)
        if isinstance(error, InputError) and not going_on and work.exists():
            shutil.rmtree(work)
        return 2 if isinstance(error, InputError) else 1
    if work.is_dir():
        work.rmdir()
    _report(out)
    return 0 if len(built.train) >= gym.train_instances and len(built.evaluation) >= gym.eval_instances else 1


def _report(out: Path) -> None:
    """What came of it, and what could not be used for which reasons."""
    stats = read_json(out / "stats.json")
    whole = stats["all"]
    print(f"{out}: {whole['instances']} issues on {whole['domains']} databases, {len(whole['by_kind'])} bug kinds")
    for sort, title in (("databases", "databases"), ("gold_sql", "verified SQL"), ("drafts", "drafts")):
        reasons = stats["unusable"].get(sort, {})
        print(f"not usable, {title}: {sum(reasons.values())}")
        for reason, count in reasons.items():
            print(f"  {count:>7}  {reason}")
