"""Gate zero: before anything is trained or scored, the reward is right about the answers that are known.

The gold earns 1, the issue less than 1, an empty answer 0, and scoring again says the same. Judged is as `birdrl score`
judges predictions, by the same `Judge`: by test cases, or without any by the mode's comparison with the gold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from birdrl.errors import InfraError
from birdrl.scoring.judge import Judge, Verdict
from birdrl.scoring.tasks import Task


@dataclass(frozen=True)
class GateResult:
    """`reasons`: what does not hold, empty if the instance passes."""

    instance_id: str
    reasons: tuple[str, ...]


def check(
    tasks: Sequence[Task], judge: Judge, workers: int, on_done: Callable[[], object] = lambda: None
) -> Iterator[GateResult]:
    """One result per instance, in order. Raises InfraError when the machinery fails, which says nothing of a gate."""

    def run(task: Task) -> GateResult:
        result = GateResult(task.instance_id, tuple(_failures(task, judge)))
        on_done()
        return result

    with ThreadPoolExecutor(workers) as threads:
        yield from threads.map(run, tasks)


def _failures(task: Task, judge: Judge) -> Iterator[str]:
    gold = _judged(judge, task, task.sol_sql)
    if gold.verdict is None:
        yield gold.reason
        return
    if gold.verdict != 1:
        yield f"the gold earns {gold.passed / gold.total:g}, not 1: {gold.reason}"
    if _differ(_judged(judge, task, task.sol_sql), gold):
        yield "the gold earns something else the second time"
    if task.issue_sql:
        issue = _judged(judge, task, task.issue_sql)
        if issue.verdict == 1:
            yield "the issue passes every test" if task.test_cases else "the issue is as right as the gold"
        if _differ(_judged(judge, task, task.issue_sql), issue):
            yield "the issue earns something else the second time"
    for empty in ((), ("",), ("-- nothing",)):
        if _judged(judge, task, empty).passed:
            yield f"the empty answer {list(empty)} earns something"


def _judged(judge: Judge, task: Task, sqls: Sequence[str]) -> Verdict:
    verdict = judge.judge(task, sqls)
    if verdict.blame == "infra":
        raise InfraError(verdict.reason)
    return verdict


def _differ(one: Verdict, other: Verdict) -> bool:
    return (one.verdict, one.passed) != (other.verdict, other.passed)
