"""Gate columns: for each row "passes" or why it does not; nothing where the row was not tried.

Gates that execute SQL use the pool and the scorer of training, on a seeded sample of the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from typing import Any

from pydantic import ValidationError

from birdrl.errors import GoldError, InputError
from birdrl.files import read_jsonl
from birdrl.gym.instance import Instance
from birdrl.gym.templates import TemplateStore
from birdrl.gym.text_measures import text_leaks
from birdrl.rewards.execution import ExecutionScorer
from birdrl.sql.pool import PoolConfig, ReplicaPool

PASSES = "passes"
NOTHING = ["SELECT 1 WHERE 0"]  # runs and does nothing
SHOWN_CHARS = 200  # of a reason

Column = list[str | None]


def instance_gates(
    rows: Sequence[Mapping[str, Any]], store: TemplateStore, *, sample: int | None, seed: str, workers: int
) -> dict[str, Column]:
    """Columns `form_gate`, `text_gate` and, executed for `sample` rows, `solution_gate`, `issue_gate`, `empty_gate`.

    Raises InfraError when SQL workers fail.
    """
    instances = [as_instance(row) for row in rows]
    able = {
        n: found for n, found in enumerate(instances) if isinstance(found, Instance) and found.db_id in store.db_ids
    }
    tried = some(able, sample, seed)
    with ReplicaPool(PoolConfig(workers=workers)) as pool, ThreadPoolExecutor(workers) as threads:
        scorer = ExecutionScorer(store, pool)

        def column(gate: Callable[[Instance, ExecutionScorer], str | None]) -> Column:
            return spread(len(rows), tried, threads.map(lambda number: gate(able[number], scorer), tried))

        return {
            "form_gate": [PASSES if isinstance(found, Instance) else found for found in instances],
            "text_gate": [_text_gate(found) if isinstance(found, Instance) else None for found in instances],
            "solution_gate": column(solution_gate),
            "issue_gate": column(issue_gate),
            "empty_gate": column(empty_gate),
        }


def read_rows(path: Path) -> list[dict[str, Any]]:
    """All rows of a JSON-lines file as they are. Raises InputError for a line that is no JSON object."""
    return list(read_jsonl(path))


def solution_gate(instance: Instance, scorer: ExecutionScorer, sql: Sequence[str] | None = None) -> str:
    """Whether the solution, or other SQL, passes all tests."""
    try:
        score = scorer.score(instance, instance.sol_sql if sql is None else sql)
    except (GoldError, InputError) as error:  # InputError: the template is damaged, which its own suite tells
        return short(str(error))
    return PASSES if score.passed == score.total else short(f"passes {score.passed} of {score.total}: {score.reason}")


def issue_gate(instance: Instance, scorer: ExecutionScorer) -> str | None:
    """Whether the buggy SQL fails a test."""
    return _must_fail(instance, scorer, instance.issue_sql, "the issue passes all tests")


def empty_gate(instance: Instance, scorer: ExecutionScorer) -> str | None:
    """Whether a statement without effect and without rows earns less than the solution."""
    return _must_fail(instance, scorer, NOTHING, "doing nothing passes all tests")


def statements(value: Any) -> list[str]:
    """The non-blank statements of a field that should be a list of texts; anything else counts as none."""
    return [s for s in value if isinstance(s, str) and s.strip()] if isinstance(value, list) else []


def as_instance(row: Mapping[str, Any]) -> Instance | str:
    """The row as an instance, or why it is none."""
    try:
        return Instance.model_validate(row)
    except ValidationError as error:
        first = error.errors()[0]
        return short(f"{'.'.join(map(str, first['loc']))}: {first['msg']}")


def _text_gate(instance: Instance) -> str:
    found = text_leaks(instance)
    return short(f"the text {found[0]}") if found else PASSES


def _must_fail(instance: Instance, scorer: ExecutionScorer, sql: Sequence[str], otherwise: str) -> str | None:
    """Passes where the SQL does not; None where the solution does not work, which its own gate tells."""
    try:
        score = scorer.score(instance, sql)
    except (GoldError, InputError):
        return None
    return otherwise if score.passed == score.total else PASSES


def some(able: Mapping[int, Instance], sample: int | None, seed: str) -> list[int]:
    """At most `sample` row numbers, a seeded choice, in order."""
    numbers = sorted(able)
    return numbers if sample is None or sample >= len(numbers) else sorted(Random(seed).sample(numbers, sample))


def spread(rows: int, numbers: Sequence[int], verdicts: Iterable[str | None]) -> Column:
    """A column of `rows` values with these verdicts at these numbers, nothing elsewhere."""
    column: Column = [None] * rows
    for number, verdict in zip(numbers, verdicts, strict=True):
        column[number] = verdict
    return column


def short(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= SHOWN_CHARS else f"{flat[:SHOWN_CHARS]}..."
