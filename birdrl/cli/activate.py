"""`birdrl activate`: choose the profile this checkout works on."""

from __future__ import annotations

import argparse

from birdrl.active import ACTIVE, DEFAULT_PROFILE, Active, write_active
from birdrl.cli._settings import add_overrides, parse_overrides
from birdrl.stages.lock import checkout_lock

EPILOG = """\
examples:
  birdrl activate --profile smoke
  birdrl activate --profile demo --set gym.train_instances=400 --set sft_tools.learning_rate=2e-4
  birdrl activate --profile demo       takes all changes back
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--profile", default=DEFAULT_PROFILE, help="a block of params.yaml (default: %(default)s)")
    add_overrides(parser)


def run(arguments: argparse.Namespace) -> int:
    active = Active(arguments.profile, parse_overrides(arguments.overrides))
    with checkout_lock("birdrl activate"):
        write_active(active)
    changed = ", ".join(f"{key}={value}" for key, value in active.overrides.items()) or "nothing changed"
    print(f"{ACTIVE}: profile {active.profile}, {changed}")
    return 0
