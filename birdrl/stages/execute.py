"""Run one stage: inputs checked, outputs in place only when complete, leftovers of a killed run removed."""

from __future__ import annotations

import shutil
import sys
import time
from pathlib import Path

from tqdm import tqdm

from birdrl.active import Active
from birdrl.errors import InfraError, InputError
from birdrl.files import atomic_dir
from birdrl.params import Params
from birdrl.stages.registry import STAGES, StageContext, resolve

ARTIFACTS = Path("artifacts")


def output_folder(stage: str, profile: str) -> Path:
    """Where the outputs of a stage lie, from the checkout's root."""
    return ARTIFACTS / profile / stage


def execute_stage(name: str, active: Active) -> Path:
    """Run stage `name` of the active profile and return its output folder.

    The caller holds the checkout's lock. Raises InputError for bad parameters or missing inputs before anything is
    touched; whatever the stage raises leaves the previous outputs as they were.
    """
    function = resolve(name)
    params = active.params()
    target = output_folder(name, active.profile)
    context_root = target.parent
    for stage in STAGES[name].inputs:
        if not (context_root / stage).is_dir():
            raise InputError(
                f"{context_root / stage}: missing input of stage {name}; build it with `dvc repro` "
                f"or `birdrl run {stage}`"
            )
    remove_leftovers(context_root)
    work = context_root / "work" / name
    work.mkdir(parents=True, exist_ok=True)
    started = time.monotonic()
    tqdm.write(f"{name} ({active.profile}): {STAGES[name].summary}", file=sys.stderr)
    with atomic_dir(target) as out:
        function(StageContext(name=name, params=declared_only(params, name), root=context_root, out=out, work=work))
        if not any(out.iterdir()):
            raise InfraError(f"stage {name} ended without writing anything to {target}")
    if work.is_dir() and not any(work.iterdir()):
        work.rmdir()
    tqdm.write(f"{name} ({active.profile}): done in {time.monotonic() - started:.1f} s, {target}", file=sys.stderr)
    return target


def declared_only(params: Params, stage: str) -> Params:
    """`params` without the sections that the stage does not declare: DVC would not notice that they changed."""
    visible = params.model_copy()
    for section in Params.model_fields.keys() - set(STAGES[stage].sections):
        del visible.__dict__[section]
    return visible


def remove_leftovers(root: Path) -> None:
    """Remove half-built folders and files that a killed run left in `artifacts/<profile>`."""
    for leftover in root.glob(".*.part"):
        if leftover.is_dir():
            shutil.rmtree(leftover)
        else:
            leftover.unlink()
