"""Who grades: an LLM judge of trajectories and the verifier of a bug checklist (BIRD-RL, Appendix B.2, Figures 13-16).

The policy's text goes into the prompts with its control markers broken and cut to a length; what comes back is held
to a form. An answer that is not of that form counts as zero marks, and is counted.
"""

from __future__ import annotations

from typing import Annotated, Protocol

from pydantic import BaseModel, ConfigDict, Field

from birdrl.agent.answers import join_statements
from birdrl.agent.prompting import PromptSet
from birdrl.agent.templating import neutral
from birdrl.endpoint import Endpoint
from birdrl.gym.instance import Instance
from birdrl.gym.schema import Schema
from birdrl.params import JudgeParams, RubricParams
from birdrl.rewards.auxiliary import SOLUTION_GRADES, TRAJECTORY_GRADES
from birdrl.rewards.trajectory import Trajectory


class Schemas(Protocol):
    """Where a database's schema comes from."""

    def schema(self, db_id: str) -> Schema: ...


class _Form(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Grades(_Form):
    """The judge's answer: q_traj in [0, 5], q_sol in [0, 10]."""

    trajectory: Annotated[float, Field(ge=0, le=TRAJECTORY_GRADES)]
    solution: Annotated[float, Field(ge=0, le=SOLUTION_GRADES)]
    reason: str = Field(max_length=2_000)


class Faults(_Form):
    """The known bugs of an issue, as extracted."""

    faults: list[str]


class Named(_Form):
    """Numbers, from 1, of the known bugs that the reasoning names."""

    named: list[int]


class Judge:
    """Grades trajectories."""

    def __init__(self, endpoint: Endpoint, prompts: PromptSet, schemas: Schemas, params: JudgeParams) -> None:
        self._endpoint, self._prompts, self._schemas, self._params = endpoint, prompts, schemas, params

    def grade(self, trajectory: Trajectory) -> Grades | None:
        """The grades, None when the answer is unusable. Raises InfraError when there is no answer."""
        instance = trajectory.instance
        story = "\n\n".join(f"[{message['role']}]\n{message['content']}" for message in trajectory.messages)
        messages = self._prompts.about_issue(
            "judge",
            instance,
            self._schemas.schema(instance.db_id),
            trajectory=neutral(_middle_cut(story, self._params.max_chars)),
            final_sql=neutral(join_statements(trajectory.final_sql or ())),
        )
        return self._endpoint.ask(messages, Grades)


class Rubric:
    """Says how many of an issue's known bugs a trajectory's reasoning names."""

    def __init__(self, endpoint: Endpoint, prompts: PromptSet, schemas: Schemas, params: RubricParams) -> None:
        self._endpoint, self._prompts, self._schemas, self._params = endpoint, prompts, schemas, params

    def named(self, trajectory: Trajectory) -> tuple[int, int] | None:
        """(N_id, N_bug), None when an answer is unusable. Raises InfraError when there is no answer."""
        instance = trajectory.instance
        bugs = self.checklist(instance)
        if bugs is None:
            return None
        if not bugs or not trajectory.reasoning:
            return 0, len(bugs)
        messages = self._prompts.about_issue(
            "rubric_verification",
            instance,
            self._schemas.schema(instance.db_id),
            checklist=neutral("\n".join(f"{number}. {bug}" for number, bug in enumerate(bugs, 1))),
            reasoning=neutral(_middle_cut(trajectory.reasoning, self._params.max_chars)),
        )
        answer = self._endpoint.ask(messages, Named)
        if answer is None:
            return None
        return len({number for number in answer.named if 1 <= number <= len(bugs)}), len(bugs)

    def checklist(self, instance: Instance) -> list[str] | None:
        """The known bugs of an issue; asked for once, as the endpoint keeps its answers."""
        if self._params.checklist == "bug_record" and instance.bug is not None:
            return [instance.bug.cause]
        schema = self._schemas.schema(instance.db_id)
        answer = self._endpoint.ask(self._prompts.about_issue("rubric_extraction", instance, schema), Faults)
        return None if answer is None else [fault for fault in answer.faults if fault.strip()]


def _middle_cut(text: str, limit: int) -> str:
    """At most `limit` characters, the beginning and the end of the text."""
    if len(text) <= limit:
        return text
    mark = "\n... (cut) ...\n"
    half = (limit - len(mark)) // 2
    return text[:half] + mark + text[-half:]
