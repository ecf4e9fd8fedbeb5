"""Stage 1 data: a thought and the SQL that follows from it (BIRD-RL, section 3.1).

The reference teacher writes the thought with the solution at hand: what is wrong, from the rewinder's bug
record, and each change as an edit sentence. The pair is kept only if the solution is regenerated from thought
and issue alone and passes every test.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from birdrl.agent.answers import format_answer, join_statements
from birdrl.agent.prompting import PromptSet
from birdrl.distill.edits import ThoughtError, apply_edits, write_edits
from birdrl.errors import GoldError
from birdrl.gym.instance import Instance
from birdrl.gym.schema import Schema
from birdrl.rewards.execution import ExecutionScorer


@dataclass(frozen=True)
class Rejected:
    """An instance that gave no imitation sample, and why. `gate` is a short name to count by."""

    instance_id: str
    gate: str
    reason: str


@dataclass(frozen=True)
class Thought:
    """`diagnosis` says what is wrong, `edits` what to do about it; either may be used alone in a turn."""

    diagnosis: str
    edits: str

    @property
    def text(self) -> str:
        return f"{self.diagnosis} {self.edits}".strip()


def hide_solution(instance: Instance) -> Instance:
    """What somebody without the answer knows: issue, tables and statement; no solution, no tests, no bug record."""
    return instance.model_copy(update={"sol_sql": [], "test_cases": [], "bug": None, "source": {}})


def write_thought(instance: Instance) -> Thought:
    """The teacher's thought, written with the solution at hand. Raises ThoughtError when it cannot be put in words."""
    if not instance.sol_sql:
        raise ThoughtError("the instance has no solution to write a thought from")
    edits = write_edits(join_statements(instance.issue_sql), join_statements(instance.sol_sql))
    return Thought(instance.bug.cause if instance.bug else "", " ".join(edits))


def regenerate(hidden: Instance, thought: str) -> list[str]:
    """The solution that follows from a thought for an instance whose solution is hidden. Raises ThoughtError."""
    return [apply_edits(join_statements(hidden.issue_sql), thought)]


def prove(instance: Instance, thought: str, scorer: ExecutionScorer) -> list[str] | Rejected:
    """The regenerated SQL if it passes every test, else the reason. Raises InfraError when the machinery fails."""
    try:
        regenerated = regenerate(hide_solution(instance), thought)
        score = scorer.score(instance, regenerated)
    except ThoughtError as error:
        return Rejected(instance.instance_id, "regeneration", str(error))
    except GoldError as error:
        return Rejected(instance.instance_id, "gold", str(error))
    if score.passed < score.total:
        return Rejected(instance.instance_id, "tests", f"passes {score.passed} of {score.total} tests: {score.reason}")
    return regenerated


def build_pair(
    instance: Instance, schema: Schema, prompts: PromptSet, scorer: ExecutionScorer
) -> dict[str, Any] | Rejected:
    """A row of `pairs.jsonl`, or why there is none. Raises InfraError when the machinery fails."""
    try:
        thought = write_thought(instance).text
    except ThoughtError as error:
        return Rejected(instance.instance_id, "thought", str(error))
    solution = prove(instance, thought, scorer)
    if isinstance(solution, Rejected):
        return solution
    answer = {"role": "assistant", "content": format_answer(thought, solution)}
    return {
        **identity(instance),
        "messages": [*prompts.reasoning(instance, schema), answer],
        "thought": thought,
        "sol_sql": solution,
    }


def identity(instance: Instance) -> dict[str, str]:
    """The columns that say which instance a row is about."""
    return {
        "instance_id": instance.instance_id,
        "db_id": instance.db_id,
        "category": instance.category,
        "kind": instance.bug.kind if instance.bug else "unknown",
    }
