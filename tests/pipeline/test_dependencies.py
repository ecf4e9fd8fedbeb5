"""dvc.yaml, the registry, the parameters and tasks/ name the same stages, and DVC knows what each depends on."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from import_graph import ROOT, files_of_stage

from birdrl.params import Params
from birdrl.stages.registry import STAGES

DVC = yaml.safe_load((ROOT / "dvc.yaml").read_text())["stages"]


def code_deps(stage: str) -> list[str]:
    return [dep for dep in DVC[stage]["do"]["deps"] if not dep.startswith("artifacts/")]


def test_one_name_everywhere():
    sections = [name for name in Params.model_fields if name not in ("seed", "agent", "engine")]
    assert list(DVC) == list(STAGES) == sections
    for stage in STAGES:
        assert DVC[stage]["do"]["cmd"] == f"python -m birdrl run {stage}"
        assert DVC[stage]["do"]["outs"] == [f"artifacts/${{profile}}/{stage}"]
        assert (ROOT / "tasks" / f"{stage}.py").is_file()


@pytest.mark.parametrize("stage", STAGES)
def test_a_stage_depends_on_its_inputs_and_its_own_parameters(stage):
    entry = DVC[stage]["do"]
    inputs = [dep for dep in entry["deps"] if dep.startswith("artifacts/")]
    assert inputs == [f"artifacts/${{profile}}/{name}" for name in STAGES[stage].inputs]
    [of_profile, of_overrides] = entry["params"]
    assert of_profile["params.yaml"] == [f"${{profile}}.{section}" for section in STAGES[stage].sections]
    overrides = [f"overrides.{section}" for section in STAGES[stage].sections]
    assert [key for key in of_overrides["active.yaml"] if not key.startswith("external.")] == overrides


@pytest.mark.parametrize("stage", STAGES)
def test_every_file_a_stage_can_import_is_among_its_dependencies(stage):
    deps = code_deps(stage)
    missing = [file for file in sorted(files_of_stage(stage)) if not _covered(file, deps)]
    assert not missing, f"dvc.yaml, stage {stage}: add {missing}"


@pytest.mark.parametrize("stage", STAGES)
def test_no_stage_reruns_for_code_it_cannot_import(stage):
    files = [Path(file) for file in files_of_stage(stage)]
    code = [Path(dep) for dep in code_deps(stage) if (ROOT / dep).is_dir() or dep.endswith(".py")]
    idle = [str(dep) for dep in code if not any(dep == file or dep in file.parents for file in files)]
    assert not idle, f"dvc.yaml, stage {stage}: {idle} are not imported"
    assert all((ROOT / dep).exists() for dep in code_deps(stage))


def _covered(file: str, deps: list[str]) -> bool:
    # the empty __init__.py of a room of which only single files are named
    if file.endswith("/__init__.py") and len((ROOT / file).read_text().splitlines()) <= 1:
        return True
    return any(file == dep or file.startswith(f"{dep}/") for dep in deps)
