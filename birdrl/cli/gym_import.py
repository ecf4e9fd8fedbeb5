"""`birdrl gym import`: a public file as instances or generation tasks."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from birdrl.cli._out import check_file
from birdrl.errors import InputError
from birdrl.files import write_jsonl
from birdrl.formats import FORMATS, import_file
from birdrl.formats.specs import named

SHOWN = 20  # broken rows on the terminal; the file has all of them

HELP = "read SIX-GYM, BIRD-CRITIC, BIRD, mini-dev, Spider or LiveSQLBench into birdrl's form"
EPILOG = """\
examples:
  birdrl gym import six_gym.jsonl --out issues.jsonl
  birdrl gym import dev.json --format bird --out dev_tasks.jsonl
  birdrl gym import train_gold.sql --out train_tasks.jsonl

The format is recognised by its fields unless you name it. Fields that birdrl does not know are kept, so that
`birdrl gym export` gives back what was imported. Broken rows are named with file, line and field and set aside in
OUT.broken.jsonl.

exit status: 0 every row was read, 1 some were set aside, 2 wrong use, or a file of which nothing can be read
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", type=Path, help="JSON lines, a JSON list, or lines SQL<TAB>db_id")
    parser.add_argument("--format", metavar="NAME", help=f"one of: {', '.join(FORMATS)}")
    parser.add_argument("--out", metavar="FILE", type=Path, required=True, help="JSON lines to write")


def run(arguments: argparse.Namespace) -> int:
    aside = arguments.out.with_name(f"{arguments.out.stem}.broken.jsonl")
    for path in (arguments.out, aside):
        check_file(path, [arguments.file])
    result = import_file(arguments.file, named(arguments.format) if arguments.format else None)
    if not result.items:
        first = f"; the first: {result.broken[0]}" if result.broken else ""
        raise InputError(
            f"{arguments.file}: none of its {len(result.broken)} rows can be read as {result.format.title}{first}"
        )
    write_jsonl(arguments.out, (item.row() for item in result.items))
    aside.unlink(missing_ok=True)
    for row in result.broken[:SHOWN]:
        print(row, file=sys.stderr)
    if len(result.broken) > SHOWN:
        print(f"and {len(result.broken) - SHOWN} more, all in {aside}", file=sys.stderr)
    print(f"{arguments.out}: {len(result.items)} rows of {result.format.title}")
    if result.broken:
        write_jsonl(aside, (row.to_json() for row in result.broken))
        print(f"{aside}: {len(result.broken)} broken rows set aside")
    return 1 if result.broken else 0
