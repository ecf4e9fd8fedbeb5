"""The command `birdrl`. Each subcommand is one module of this package with HELP, EPILOG, `add_arguments` and `run`.

Exit status: 0 done, 1 the run failed, 2 wrong use or wrong input.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from importlib import import_module

from birdrl.errors import BirdrlError, InputError

COMMANDS = ("run", "stages", "params", "activate", "sql", "score", "gym", "diagnose")

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


def parser() -> argparse.ArgumentParser:
    """The parser with every subcommand."""
    top = argparse.ArgumentParser(
        prog="birdrl",
        description="Train SQL agents with a four-stage curriculum over executable, stateful databases.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = top.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name in COMMANDS:
        module = import_module(f"birdrl.cli.{name}")
        sub = commands.add_parser(
            name,
            help=module.HELP,
            description=module.HELP[0].upper() + module.HELP[1:] + ".",
            epilog=module.EPILOG,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        module.add_arguments(sub)
        sub.set_defaults(handler=module.run)
    return top


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point. A BirdrlError is one message on stderr; anything else is a bug and keeps its traceback."""
    arguments = parser().parse_args(argv)
    try:
        status: int = arguments.handler(arguments)
    except BirdrlError as error:
        print(f"birdrl {arguments.command}: {error}", file=sys.stderr)
        return 2 if isinstance(error, InputError) else 1
    except BrokenPipeError:  # the reader (`| head`) has seen enough; keep the interpreter's last flush quiet
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    return status
