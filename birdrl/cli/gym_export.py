"""`birdrl gym export`: instances or generation tasks as a public file."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from tqdm import tqdm

from birdrl.cli._out import check_file
from birdrl.errors import InputError
from birdrl.formats import FORMATS, export_row, import_file
from birdrl.formats.convert import Item
from birdrl.formats.files import write_rows
from birdrl.formats.python_tests import with_python_tests
from birdrl.formats.specs import named
from birdrl.gym.database_folder import open_databases
from birdrl.gym.instance import Instance
from birdrl.rewards.gold import GoldStore
from birdrl.sql.pool import PoolConfig, ReplicaPool

HELP = "write birdrl's instances or tasks in a public format"
EPILOG = """\
examples:
  birdrl gym export mygym/train.jsonl --format six-gym --out six_gym.jsonl
  birdrl gym export mygym/train.jsonl --format six-gym --out six_gym.jsonl --python-tests --databases mygym/templates
  birdrl gym export dev_tasks.jsonl --format bird --out dev.json

FILE is birdrl's own form, or any file that `birdrl gym import` reads. Rows that were imported from the same format come
out as they were, changes of yours included. What the format has no field for (bug record, difficulty, source) goes into
one field more, `birdrl`, and comes back from there. Tests of birdrl's own kinds are written as objects, which `import`
reads back; --python-tests writes the Python that public evaluators run, with the results to compare with computed on
the databases.

exit status: 0 done, 2 wrong use or wrong input
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", type=Path, help="instances or generation tasks")
    parser.add_argument("--format", metavar="NAME", required=True, help=f"one of: {', '.join(FORMATS)}")
    parser.add_argument("--out", metavar="FILE", type=Path, required=True, help="file to write")
    parser.add_argument("--python-tests", action="store_true", help="tests as Python; needs --databases")
    parser.add_argument(
        "--databases", metavar="DIR", type=Path, help="templates, or <db>/<db>.sqlite, for --python-tests"
    )


def run(arguments: argparse.Namespace) -> int:
    form = named(arguments.format)
    check_file(arguments.out, [arguments.file])
    read = import_file(arguments.file)
    if read.broken:
        raise InputError(f"{read.broken[0]}; {len(read.broken)} broken in all, nothing was written")
    items = _with_python_tests(read.items, arguments.databases) if arguments.python_tests else read.items
    count = write_rows(arguments.out, form.container, (export_row(item, form) for item in items))
    print(f"{arguments.out}: {count} rows of {form.title}")
    return 0


def _with_python_tests(items: Sequence[Item], databases: Path | None) -> list[Item]:
    if databases is None:
        raise InputError("--python-tests: name the databases with --databases DIR; results are computed on them")
    with ReplicaPool(PoolConfig(workers=1, statement_timeout_s=30)) as pool:
        gold = GoldStore(open_databases(databases), pool)
        return [
            with_python_tests(item, gold) if isinstance(item, Instance) else item
            for item in tqdm(items, desc="tests", unit="issue")
        ]
