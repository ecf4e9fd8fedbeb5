"""`birdrl gym export`: instances or generation tasks as a public file."""

from __future__ import annotations

import argparse
from pathlib import Path

from birdrl.errors import InputError
from birdrl.formats import FORMATS, export_row, import_file
from birdrl.formats.files import write_rows
from birdrl.formats.specs import named

HELP = "write birdrl's instances or tasks in a public format"
EPILOG = """\
examples:
  birdrl gym export mygym/train.jsonl --format six-gym --out six_gym.jsonl
  birdrl gym export dev_tasks.jsonl --format bird --out dev.json

FILE is birdrl's own form, or any file that `birdrl gym import` reads. Rows that were imported from the same format come
out as they were, changes of yours included. Tests of birdrl's own kinds are written as objects: the public formats have
Python there, which only imported tests are.

exit status: 0 done, 2 wrong use or wrong input
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", type=Path, help="instances or generation tasks")
    parser.add_argument("--format", metavar="NAME", required=True, help=f"one of: {', '.join(FORMATS)}")
    parser.add_argument("--out", metavar="FILE", type=Path, required=True, help="file to write")


def run(arguments: argparse.Namespace) -> int:
    form = named(arguments.format)
    read = import_file(arguments.file)
    if read.broken:
        raise InputError(f"{read.broken[0]}; {len(read.broken)} broken in all, nothing was written")
    count = write_rows(arguments.out, form.container, (export_row(item, form) for item in read.items))
    print(f"{arguments.out}: {count} rows of {form.title}")
    return 0
