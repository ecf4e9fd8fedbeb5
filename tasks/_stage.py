"""What all stage tasks share: cached exactly when DVC has nothing to do, otherwise run through DVC."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypedDict

from prefect import Task, get_run_logger
from prefect.artifacts import create_markdown_artifact
from prefect.results import get_result_store
from prefect.states import State

from birdrl.files import read_json
from birdrl.stages.execute import output_folder
from birdrl.stages.registry import STAGES
from tasks._dvc import output_hashes, stage_status
from tasks._process import run_shown
from tasks.tracking import CurriculumRecord

LOGS = Path(".birdrl/logs")


@dataclass(frozen=True)
class StageCall:
    """What a task is told. The fingerprint alone decides whether a result from before counts."""

    stage: str
    profile: str
    fingerprint: str
    record: CurriculumRecord = field(compare=False)
    lock: int | None = field(default=None, compare=False)


class StageResult(TypedDict):
    """What a task returns and later tasks get: a path and a hash, never data."""

    stage: str
    out: str
    hash: str


def _fingerprint(_context: Any, parameters: dict[str, Any]) -> str:
    return str(parameters["call"].fingerprint)


# The arguments that every stage task has in common.
STAGE_TASK: dict[str, Any] = {"cache_key_fn": _fingerprint, "persist_result": True, "result_serializer": "json"}


def run_stage(call: StageCall, figures: Callable[[Path], str]) -> StageResult:
    """Run the stage through `dvc repro --single-item`, record it in MLflow and publish its key figures.

    Called by a task, so only when the stage is not up to date. `figures` turns the output folder into Markdown.
    """
    log = LOGS / call.profile / f"{call.stage}.log"
    out = output_folder(call.stage, call.profile)
    with call.record.stage(call.stage) as stage_record:
        run_shown(
            [sys.executable, "-m", "dvc", "repro", "--quiet", "--single-item", call.stage],
            log,
            {"DVC_NO_ANALYTICS": "1", **stage_record.environment},
            call.lock,
        )
        stage_record.finish(out)
    result = stage_result(call.stage, call.profile)
    create_markdown_artifact(
        key=f"{call.profile}-{call.stage}".replace("_", "-"),
        description=STAGES[call.stage].summary,
        markdown=(
            f"# {call.stage}\n{STAGES[call.stage].summary}\n\n{figures(out)}\n\n"
            f"Outputs `{out}` ({result['hash']}), log `{log}`, MLflow run `{stage_record.run_id}`."
        ),
    )
    get_run_logger().info("%s is in %s", call.stage, out)
    return result


def stage_result(stage: str, profile: str) -> StageResult:
    """The result of a stage that DVC has run."""
    return {"stage": stage, "out": str(output_folder(stage, profile)), "hash": output_hashes(profile)[stage]}


@dataclass
class Curriculum:
    """One run of the stages: calls each task, cached where DVC says that its stage is up to date."""

    profile: str
    record: CurriculumRecord
    lock: int | None
    done: dict[str, State[StageResult]] = field(default_factory=dict)

    def __call__(self, task: Task[[StageCall], StageResult]) -> None:
        """Run or skip one stage. Raises what the task raised."""
        stage = task.name
        status = stage_status(stage)
        call = StageCall(stage, self.profile, status.fingerprint, self.record, self.lock)
        if status.clean:
            # DVC may have run the stage without Prefect: give Prefect the result that it would have kept.
            get_result_store().update_for_task(task).write(stage_result(stage, self.profile), key=status.fingerprint)
        else:
            get_run_logger().info("%s is not up to date: %s", stage, status.changes)
        state = task.with_options(refresh_cache=not status.clean)(
            call, return_state=True, wait_for=[self.done[name] for name in STAGES[stage].inputs]
        )
        self.done[stage] = state
        self.record.note(stage, state.name or "")
        state.result()


def json_figures(*files: str) -> Callable[[Path], str]:
    """Key figures as a Markdown table: every number and short text of these JSON files of the output folder."""

    def figures(out: Path) -> str:
        rows = [row for file in files for row in _scalars(read_json(out / file))]
        shown = [f"| {name} | {value} |" for name, value in rows[:60]]
        return "\n".join(["| figure | value |", "|---|---|", *shown])

    return figures


def _scalars(value: Any, prefix: str = "") -> list[tuple[str, Any]]:
    if isinstance(value, dict) and "." in prefix and len(value) > 12:
        return [(f"{prefix} (entries)", len(value))]
    if isinstance(value, dict):
        return [row for key, part in value.items() for row in _scalars(part, f"{prefix}.{key}" if prefix else str(key))]
    if isinstance(value, float):
        return [(prefix, f"{value:.4g}")]
    if isinstance(value, int) or (isinstance(value, str) and len(value) <= 80):
        return [(prefix, value)]
    if isinstance(value, list):
        return [(f"{prefix} (entries)", len(value))]
    return []
