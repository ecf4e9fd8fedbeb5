"""`birdrl gym ACTION`: what is done to files of instances. Each action is one module with HELP, EPILOG,
`add_arguments` and `run`, like the commands themselves."""

from __future__ import annotations

import argparse
from importlib import import_module

ACTIONS = ("build", "check", "import", "export", "stats", "show")
EPILOG = """\
examples:
  birdrl gym build --databases ~/databases --sql gold.sql --out mygym
  birdrl gym check --instances mygym/train.jsonl --databases mygym/templates
  birdrl gym stats mygym --plots mygym/plots
  birdrl gym show gym_shop_17 --gym mygym
  birdrl gym import six_gym.jsonl --out issues.jsonl
  birdrl gym export issues.jsonl --format bird-critic --out public.jsonl
  birdrl gym build --help
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    for name in ACTIONS:
        module = import_module(f"birdrl.cli.gym_{name}")
        sub = actions.add_parser(
            name,
            help=module.HELP,
            description=module.HELP[0].upper() + module.HELP[1:] + ".",
            epilog=module.EPILOG,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        module.add_arguments(sub)
        sub.set_defaults(act=module.run)


def run(arguments: argparse.Namespace) -> int:
    status: int = arguments.act(arguments)
    return status
