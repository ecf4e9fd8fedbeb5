"""`birdrl stages`: the stages, what they read and what is built."""

from __future__ import annotations

import argparse

from birdrl.active import read_active
from birdrl.stages.execute import output_folder
from birdrl.stages.registry import STAGES

EPILOG = """\
examples:
  birdrl stages
  dvc status                           whether what exists is also up to date
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--profile", help="instead of the active profile")


def run(arguments: argparse.Namespace) -> int:
    profile = arguments.profile or read_active().profile
    print(f"profile {profile}\n")
    for stage in STAGES.values():
        built = "built" if output_folder(stage.name, profile).is_dir() else "-"
        print(f"{stage.name:<21} {built:<6} {stage.summary}")
        if stage.inputs:
            print(f"{'':<28} reads {', '.join(stage.inputs)}")
    return 0
