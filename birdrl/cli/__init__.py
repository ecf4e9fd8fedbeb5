"""The command `birdrl`. Each subcommand is one module of this package with EPILOG, `add_arguments` and `run`.

Exit status: 0 done, 1 the run failed, 2 wrong use or wrong input.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from importlib import import_module

from birdrl.errors import BirdrlError, InputError

COMMANDS = {
    "run": "run one stage of the curriculum on the outputs of the stages before it",
    "stages": "list the stages, what each reads, and whether its outputs exist in the active profile",
    "params": "show every parameter: its meaning, type, default and value in the active profile",
    "activate": "write active.yaml: the profile that dvc and birdrl work on, and parameters changed for it",
    "sql": "execute SQL on a private replica of a database, as a policy's rollout would, and print what it would see",
    "score": "judge predictions against gold SQL or test cases, one verdict a line",
    "gym": "work on files of instances",
    "audit": "compare a training file with an evaluation file: exact overlaps, near duplicates, closest pairs",
    "diagnose": "the energy along transcripts and the distribution of their rewards (SQL-ASTRA 2.3 and 4.1)",
}

_EPILOG = """\
examples:
  birdrl activate --profile smoke      choose the profile that dvc and birdrl work on
  birdrl stages                        the stages and what is built
  birdrl params                        every parameter with its meaning and value
  birdrl run gym                       run one stage by hand
  birdrl sql --database shop.sqlite "SELECT 1"    run SQL as a policy's rollout would
  birdrl diagnose FILE --instances FILE --templates DIR    energy and reward distribution of transcripts
  birdrl gym build --databases DIR --out mygym      a gym from your own databases
  dvc repro                            run every stage that is not up to date
  python -m flows.full_curriculum      the same under Prefect and MLflow

exit status: 0 done, 1 the run failed, 2 wrong use or wrong input
"""


def parser(chosen: str | None = None) -> argparse.ArgumentParser:
    """The parser with every subcommand; arguments of the `chosen` one only, so that nothing else is imported."""
    top = argparse.ArgumentParser(
        prog="birdrl",
        description="Train SQL agents with a four-stage curriculum over executable, stateful databases.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = top.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, summary in COMMANDS.items():
        sub = commands.add_parser(
            name,
            help=summary,
            description=summary[0].upper() + summary[1:] + ".",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        if name == chosen:
            module = import_module(f"birdrl.cli.{name}")
            sub.epilog = module.EPILOG
            module.add_arguments(sub)
            sub.set_defaults(handler=module.run)
    return top


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point. A BirdrlError is one message on stderr; anything else is a bug and keeps its traceback."""
    words = sys.argv[1:] if argv is None else argv
    arguments = parser(next((word for word in words if not word.startswith("-")), None)).parse_args(words)
    try:
        status: int = arguments.handler(arguments)
    except BirdrlError as error:
        print(f"birdrl {arguments.command}: {error}", file=sys.stderr)
        return 2 if isinstance(error, InputError) else 1
    except BrokenPipeError:  # the reader (`| head`) has seen enough; keep the interpreter's last flush quiet
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    return status
