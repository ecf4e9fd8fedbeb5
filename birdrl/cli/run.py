"""`birdrl run STAGE`: one stage, as dvc.yaml calls it."""

from __future__ import annotations

import argparse
import os
import sys
from contextlib import AbstractContextManager, nullcontext
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from birdrl.active import Active, read_active
from birdrl.errors import BirdrlError, InputError
from birdrl.stages.execute import execute_stage
from birdrl.stages.lock import checkout_lock
from birdrl.stages.registry import STAGES
from birdrl.stages.supervisor import supervise

EPILOG = """\
examples:
  birdrl run gym
  birdrl run sft_reasoning --profile smoke
  birdrl run evaluate --no-tracking    leave no run in MLflow

Outputs go to artifacts/PROFILE/STAGE and appear there only when the stage has ended well. `dvc repro` runs the
stages that are not up to date, this command runs the one you name. Ctrl-C or a kill ends all its processes.
"""

# Resolved when a stage runs, so that the library does without MLflow and without tasks/.
_TRACKING = "tasks.tracking"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("stage", metavar="STAGE", help=", ".join(STAGES))
    parser.add_argument("--profile", help="instead of the active profile, and without its overrides")
    parser.add_argument("--no-tracking", action="store_true", help="do not record the run in MLflow")


def run(arguments: argparse.Namespace) -> int:
    if arguments.stage not in STAGES:
        raise InputError(f"unknown stage {arguments.stage!r}; stages are: {', '.join(STAGES)}")
    active = read_active()
    if arguments.profile and arguments.profile != active.profile:
        active = Active(arguments.profile)
    active.params()  # wrong parameters are told before a process is started
    with checkout_lock(f"birdrl run {arguments.stage}"):
        return supervise(lambda: _run_stage(arguments.stage, active, tracked=not arguments.no_tracking))


def _run_stage(name: str, active: Active, tracked: bool) -> int:
    try:
        with _tracking(name, active, tracked) as record:
            out = execute_stage(name, active)
            if record is not None:
                record.finish(out)
    except BirdrlError as error:
        print(f"birdrl run {name}: {error}", file=sys.stderr)
        return 2 if isinstance(error, InputError) else 1
    return 0


def _tracking(name: str, active: Active, tracked: bool) -> AbstractContextManager[Any]:
    """The stage's MLflow run, or nothing where the flow has opened it or tracking is off."""
    if not tracked or os.environ.get("BIRDRL_TRACKING") == "off" or os.environ.get("MLFLOW_RUN_ID"):
        return nullcontext()
    if find_spec("mlflow") is None or find_spec("tasks") is None:
        print(f"birdrl run {name}: not recorded, MLflow is not installed (extra `pipeline`)", file=sys.stderr)
        return nullcontext()
    record: AbstractContextManager[Any] = import_module(_TRACKING).record_by_hand(name, active)
    return record
