"""Gate zero: before anything is trained or scored, the reward is right about the answers that are known.

The gold earns 1, the issue less than 1, an empty answer 0, and scoring again says the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from birdrl.errors import GoldError
from birdrl.rewards.execution import ExecutionScorer
from birdrl.scoring.tasks import Task


@dataclass(frozen=True)
class GateResult:
    """`reasons`: what does not hold, empty if the instance passes."""

    instance_id: str
    reasons: tuple[str, ...]


def check(
    tasks: Sequence[Task], scorer: ExecutionScorer, workers: int, on_done: Callable[[], object] = lambda: None
) -> Iterator[GateResult]:
    """One result per instance, in order. Raises InfraError when the machinery fails, which says nothing of a gate."""

    def run(task: Task) -> GateResult:
        result = GateResult(task.instance_id, tuple(_failures(task, scorer)))
        on_done()
        return result

    with ThreadPoolExecutor(workers) as threads:
        yield from threads.map(run, tasks)


def _failures(task: Task, scorer: ExecutionScorer) -> Iterator[str]:
    try:
        gold = scorer.score(task, task.sol_sql)
        if gold.reward != 1:
            yield f"the gold earns {gold.reward:g}, not 1: {gold.reason}"
        if scorer.score(task, task.sol_sql).tests != gold.tests:
            yield "the gold earns something else the second time"
        if task.issue_sql:
            issue = scorer.score(task, task.issue_sql)
            if issue.reward >= 1:
                yield "the issue passes every test"
            if scorer.score(task, task.issue_sql).reward != issue.reward:
                yield "the issue earns something else the second time"
        for empty in ((), ("",), ("-- nothing",)):
            if scorer.score(task, empty).reward != 0:
                yield f"the empty answer {list(empty)} earns something"
    except GoldError as error:
        yield str(error)
