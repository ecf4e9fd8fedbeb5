"""Stage `quality_trajectories`: what the teacher wrote against its expectations, before anything is learnt from it."""

from __future__ import annotations

from collections.abc import Mapping

import great_expectations.expectations as gxe
import pandas as pd

from birdrl.gym.instance import CATEGORIES, Instance, read_instances
from birdrl.gym.templates import TemplateStore
from birdrl.stages.registry import StageContext
from tasks import gates
from tasks.frames import trajectory_frame
from tasks.gate_columns import read_rows
from tasks.gates import on_its_column
from tasks.trajectory_gates import trajectory_gates
from tasks.validation import Suite, between, check

ERROR_SHARE = 0.5  # trajectories with a failed statement above which it is mentioned


def run(ctx: StageContext) -> None:
    """Validate the trajectories; write `docs/` (Data Docs) and `summary.json`.

    Raises QualityError naming the broken expectations, their first offending rows and their Data Docs; these and the
    latest runs before stay in `artifacts/<profile>/quality_trajectories-history`.
    """
    params = ctx.params.quality_trajectories
    instances = {instance.instance_id: instance for instance in read_instances(ctx.input("audit") / "train.jsonl")}
    rows = read_rows(ctx.input("distill_trajectories") / "trajectories.jsonl")
    columns = trajectory_gates(
        rows,
        instances,
        TemplateStore(ctx.input("templates")),
        sample=params.gate_sample,
        seed=str(ctx.seed),
        workers=ctx.params.agent.workers,
    )
    frame = trajectory_frame(rows).assign(**{name: pd.Series(v, dtype=object) for name, v in columns.items()})
    check(
        trajectory_suites(frame, instances, max_turns=ctx.params.agent.max_turns, min_rows=params.min_trajectories),
        ctx.out,
        ctx.root / f"{ctx.name}-history",
        keep=params.history,
    )


def trajectory_suites(
    frame: pd.DataFrame, instances: Mapping[str, Instance], *, max_turns: int, min_rows: int
) -> list[Suite]:
    """All suites of the stage (columns: see tasks.frames and tasks.gate_columns)."""
    keys = ("row", "instance_id")
    frame["in_training"] = frame["instance_id"].isin(set(instances))
    return [
        Suite("trajectories", frame, keys, trajectory_expectations(max_turns, min_rows)),
        Suite("variety", frame, keys, variety_expectations(), hard=False),
    ]


def trajectory_expectations(max_turns: int, min_rows: int) -> list[gxe.Expectation]:
    """What holds for every trajectory that is imitated."""
    return [
        gxe.ExpectTableRowCountToBeBetween(min_value=min_rows, notes="quality_trajectories.min_trajectories."),
        gxe.ExpectColumnValuesToNotBeNull(column="instance_id"),
        gxe.ExpectColumnValuesToBeUnique(column="instance_id"),
        gxe.ExpectColumnValuesToBeInSet(
            column="in_training", value_set=[True], notes="The instance is one that the audit has kept for training."
        ),
        gxe.ExpectColumnValuesToBeInSet(column="category", value_set=list(CATEGORIES)),
        on_its_column(gates.ExpectDialogueToBeWellFormed),
        on_its_column(gates.ExpectNoUnjustifiedSql),
        on_its_column(gates.ExpectSubmissionToPassTheTests, "On quality_trajectories.gate_sample rows."),
        between("turns", 1, max_turns, notes="agent.max_turns."),
        gxe.ExpectColumnValuesToBeInSet(
            column="turns_match", value_set=[True], notes="The number of turns is that of the messages."
        ),
        between("shortest_message", 1, None, notes="Characters of the shortest message."),
    ]


def variety_expectations() -> list[gxe.Expectation]:
    """Trajectories differ and are not full of errors; advisory."""
    return [
        gxe.ExpectColumnUniqueValueCountToBeBetween(column="turns", min_value=2, notes="Several lengths occur."),
        gxe.ExpectColumnMeanToBeBetween(
            column="has_error", max_value=ERROR_SHARE, notes="Share of trajectories with a failed statement."
        ),
    ]
