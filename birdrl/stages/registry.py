"""Which stages exist, what they read, and where their outputs lie."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from birdrl.errors import InputError
from birdrl.params import Params


@dataclass(frozen=True)
class Stage:
    """A stage: its name, the stages whose outputs it reads, the function that does the work, its parameters."""

    name: str
    inputs: tuple[str, ...]
    function: str  # "module:function", imported only when the stage runs
    summary: str
    sections: tuple[str, ...]  # parameter sections it may read: a change in any other never reruns it


@dataclass(frozen=True)
class StageContext:
    """What a stage function gets.

    `out` is a temporary folder that becomes `artifacts/<profile>/<stage>` when the function returns;
    `work` survives a kill (checkpoints to resume from) and is private to this stage and profile.
    `params` has the sections that the stage declares; reading another is an AttributeError.
    """

    name: str
    params: Params
    root: Path  # artifacts/<profile>
    out: Path
    work: Path

    @property
    def seed(self) -> int:
        return self.params.seed

    def input(self, stage: str) -> Path:
        """Output folder of an earlier stage. Raises InputError when it has not been built."""
        if stage not in STAGES[self.name].inputs:
            raise ValueError(f"stage {self.name} does not declare {stage} as an input")
        path = self.root / stage
        if not path.is_dir():
            raise InputError(f"{path}: missing; run `birdrl run {stage}` first")
        return path


def _stage(name: str, inputs: str, function: str, summary: str, shared: str = "") -> Stage:
    return Stage(name, tuple(inputs.split()), function, summary, ("seed", *shared.split(), name))


STAGES: dict[str, Stage] = {
    stage.name: stage
    for stage in (
        _stage("templates", "", "birdrl.stages.templates:run", "check, hash and store the template databases"),
        _stage("gym", "templates", "birdrl.stages.gym:run", "turn verified SQL into gated, executable SQL issues"),
        _stage(
            "audit",
            "templates gym",
            "birdrl.stages.audit:run",
            "measure overlap of training and evaluation issues",
        ),
        _stage(
            "quality",
            "templates gym audit",
            "tasks.expectations:run",
            "check the data against its expectations",
            shared="gym",
        ),
        _stage(
            "distill_reasoning",
            "templates audit quality",
            "birdrl.stages.distill:run_reasoning",
            "the teacher writes a thought for every issue",
            shared="agent",
        ),
        _stage(
            "distill_trajectories",
            "templates audit quality",
            "birdrl.stages.distill:run_trajectories",
            "the teacher writes tool-use trajectories with real observations",
            shared="agent",
        ),
        _stage(
            "quality_trajectories",
            "templates audit distill_trajectories",
            "tasks.trajectory_expectations:run",
            "check what the teacher wrote against its expectations",
            shared="agent",
        ),
        _stage("policy_init", "", "birdrl.stages.policy_init:run", "the model that training starts from"),
        _stage(
            "sft_reasoning",
            "policy_init distill_reasoning",
            "birdrl.stages.train:run_sft_reasoning",
            "stage 1: reasoning imitation",
            shared="agent engine",
        ),
        _stage(
            "sft_tools",
            "sft_reasoning distill_reasoning distill_trajectories quality_trajectories",
            "birdrl.stages.train:run_sft_tools",
            "stage 2: tool-use imitation",
            shared="agent engine",
        ),
        _stage(
            "rl_reasoning",
            "sft_tools templates audit",
            "birdrl.stages.train:run_rl_reasoning",
            "stage 3: single-turn GRPO",
            shared="agent engine",
        ),
        _stage(
            "rl_agentic",
            "rl_reasoning templates audit",
            "birdrl.stages.train:run_rl_agentic",
            "stage 4: multi-turn GRPO on private replicas",
            shared="agent engine",
        ),
        _stage(
            "evaluate",
            "templates gym policy_init sft_reasoning sft_tools rl_reasoning rl_agentic",
            "birdrl.stages.evaluate:run",
            "every checkpoint on the held-out databases",
            shared="agent engine",
        ),
        _stage(
            "report",
            "templates gym audit quality distill_reasoning distill_trajectories quality_trajectories policy_init "
            "sft_reasoning sft_tools rl_reasoning rl_agentic evaluate",
            "birdrl.stages.report:run",
            "one page: the table, the curves, the data",
        ),
    )
}


def resolve(name: str) -> Callable[[StageContext], None]:
    """Import the function of a stage. Raises InputError for an unknown name."""
    if name not in STAGES:
        raise InputError(f"unknown stage {name!r}; stages are: {', '.join(STAGES)}")
    module, function = STAGES[name].function.split(":")
    resolved: Callable[[StageContext], None] = getattr(import_module(module), function)
    return resolved
