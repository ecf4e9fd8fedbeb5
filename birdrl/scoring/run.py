"""Score a whole file of predictions: one row per answer, in the order of the instances."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from birdrl.errors import GoldError, InfraError
from birdrl.files import encodable
from birdrl.gym.schema import Schema
from birdrl.scoring.judge import Judge, Verdict
from birdrl.scoring.metrics import majority
from birdrl.scoring.predictions import Prediction
from birdrl.scoring.r_ves import time_reward
from birdrl.scoring.soft_f1 import soft_f1
from birdrl.scoring.suite import perturbations
from birdrl.scoring.tasks import Task


@dataclass(frozen=True)
class Extras:
    """What to measure beside the verdict. `r_ves`: repetitions of the timing, `suite`: perturbed copies; 0 for none."""

    soft_f1: bool = False
    r_ves: int = 0
    suite: int = 0
    trials: bool = False
    seed: int = 0


def score_all(
    tasks: Sequence[Task],
    predictions: Sequence[Prediction],
    judge: Judge,
    schema: Callable[[str], Schema],
    extras: Extras,
    workers: int,
) -> Iterator[dict[str, Any]]:
    """JSON-ready rows, those of an instance together. Instances run side by side on `workers` threads."""
    by_id = {task.instance_id: task for task in tasks}
    groups = [(by_id[name], list(group)) for name, group in groupby(predictions, lambda p: p.instance_id)]
    with ThreadPoolExecutor(workers) as threads:
        for rows in threads.map(lambda group: _score_instance(group[0], group[1], judge, schema, extras), groups):
            yield from rows


def _score_instance(
    task: Task, answers: list[Prediction], judge: Judge, schema: Callable[[str], Schema], extras: Extras
) -> list[dict[str, Any]]:
    verdicts = [judge.judge(task, answer.sqls) for answer in answers]
    rows = [
        _row(task, answer, verdict, judge, schema, extras) for answer, verdict in zip(answers, verdicts, strict=True)
    ]
    if extras.trials:
        chosen = majority([verdict.table for verdict in verdicts])
        for trial, row in enumerate(rows):
            row["trial"] = trial
            row["voted"] = trial == chosen
    return rows


def _row(
    task: Task, answer: Prediction, verdict: Verdict, judge: Judge, schema: Callable[[str], Schema], extras: Extras
) -> dict[str, Any]:
    row: dict[str, Any] = {
        "id": task.instance_id, "verdict": verdict.verdict, "reason": encodable(verdict.reason),
        "status": verdict.status,
        "blame": verdict.blame, "passed": verdict.passed, "total": verdict.total, "db_id": task.db_id,
        "group": task.group, "seconds": round(verdict.pred_seconds, 6), "gold_seconds": round(verdict.gold_seconds, 6),
    }  # fmt: skip
    if verdict.strict is not None:
        row["strict"] = verdict.strict
        row["disagree"] = verdict.strict != verdict.verdict
    if not task.test_cases and verdict.verdict is not None:
        try:
            row.update(_extras(task, answer, verdict, judge, schema, extras))
        except InfraError as error:  # the verdict stands; the summary counts what is missing
            row["not_measured"] = str(error)
    return row


def _extras(
    task: Task, answer: Prediction, verdict: Verdict, judge: Judge, schema: Callable[[str], Schema], extras: Extras
) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if extras.soft_f1 and verdict.gold_table is not None:
        found.update(_soft_f1(verdict))
    if extras.r_ves:
        found["r_ves_reward"] = _r_ves(task, answer, verdict, judge, extras.r_ves)
    if extras.suite:
        found.update(_suite(task, answer, verdict, judge, schema(task.db_id), extras))
    return found


def _soft_f1(verdict: Verdict) -> dict[str, float | None]:
    """Both variants; 0 without a result, None where the rows are too many to assign."""
    if verdict.gold_table is None or verdict.table is None:
        return {"soft_f1": 0.0, "soft_f1_assigned": 0.0}
    ours, theirs = verdict.table.rows, verdict.gold_table.rows
    try:
        assigned: float | None = soft_f1(ours, theirs, "assigned")
    except ValueError:
        assigned = None
    return {"soft_f1": soft_f1(ours, theirs, "bird"), "soft_f1_assigned": assigned}


def _r_ves(task: Task, answer: Prediction, verdict: Verdict, judge: Judge, repeats: int) -> float | None:
    """0 for a wrong answer; None where only one side can be timed again."""
    if verdict.verdict != 1:
        return 0.0
    timings = judge.timings(task, answer.sqls, repeats)
    return None if timings is None else time_reward(*timings)


def _suite(
    task: Task, answer: Prediction, verdict: Verdict, judge: Judge, schema: Schema, extras: Extras
) -> dict[str, int]:
    """`suite` 1 if right on the database and on all its copies; `suite_copies`: how many could be used."""
    used, right = 0, verdict.verdict == 1
    for setup in perturbations(schema, extras.suite, extras.seed):
        if not right:
            break
        try:
            outcome = judge.compare(task, answer.sqls, setup)
        except GoldError:  # the gold does not run on this copy: it cannot judge anybody
            continue
        used += 1
        right = outcome.verdict == 1
    return {"suite": int(right), "suite_copies": used}
