"""Stage 2 data: tool-use trajectories with real observations (BIRD-RL, section 3.2; f-plan of SWE-SQL).

Backward, the teacher writes a plan with the solution at hand (the thought of stage 1). Forward, it acts in a
real episode and sees only the issue and the plan, not the solution. The trajectory is kept only if what it
submits passes every test and no SQL in it comes from nowhere.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

from birdrl.agent.answers import join_statements
from birdrl.agent.episode import Episode, StopReason
from birdrl.agent.prompting import Messages, PromptSet
from birdrl.agent.tools import EXECUTE, SUBMIT, ToolCall, format_tool_call, parse_tool_calls
from birdrl.distill.edits import ThoughtError
from birdrl.distill.reasoning import Rejected, Thought, hide_solution, identity, regenerate, write_thought
from birdrl.errors import GoldError
from birdrl.gym.instance import Instance
from birdrl.gym.schema import Schema
from birdrl.gym.templates import TemplateStore
from birdrl.params import AgentParams
from birdrl.rewards.execution import ExecutionScorer
from birdrl.sql.pool import ReplicaPool

# What the teacher says when its test of the repair ran as expected; one sentence costs few tokens to learn.
CONFIRMATIONS = ("The result fits.", "That runs and fits the request.", "This is what was asked for.")


@dataclass(frozen=True)
class Turn:
    """A thought and one action. `sql` None stands for the repair that follows from the plan."""

    says: str
    tool: str
    sql: str | None


def plan_turns(hidden: Instance, thought: Thought, rng: random.Random, max_turns: int) -> list[Turn]:
    """The turns of a trajectory, drawn by `rng`: test and submit; reproduce and submit; or all three.

    Only query issues get the third form: elsewhere the reported SQL and the repair would change the same
    replica one after the other.
    """
    reported = join_statements(hidden.issue_sql)
    test = Turn(thought.text, EXECUTE, None)
    hand_in = Turn(rng.choice(CONFIRMATIONS), SUBMIT, None)
    reproduce = Turn(thought.diagnosis or "First see what it does.", EXECUTE, reported)
    forms = [[test, hand_in], [reproduce, Turn(thought.edits, SUBMIT, None)]]
    weights = [0.7, 0.3]
    if hidden.category == "query":
        forms.append([reproduce, Turn(thought.edits, EXECUTE, None), hand_in])
        weights = [0.6, 0.25, 0.15]
    fitting = [(form, weight) for form, weight in zip(forms, weights, strict=True) if len(form) <= max_turns]
    if not fitting:
        return [Turn(thought.text, SUBMIT, None)]
    return rng.choices([form for form, _ in fitting], [weight for _, weight in fitting])[0]


class TrajectoryTeacher:
    """Makes trajectories; thread-safe. Raises InfraError when the machinery fails."""

    def __init__(
        self,
        store: TemplateStore,
        pool: ReplicaPool,
        scorer: ExecutionScorer,
        prompts: PromptSet,
        agent_params: AgentParams,
        seed: int,
    ) -> None:
        self._store, self._pool, self._scorer = store, pool, scorer
        self._prompts, self._agent_params, self._seed = prompts, agent_params, seed

    def build(self, instance: Instance) -> dict[str, Any] | Rejected:
        """A row of `trajectories.jsonl`, or why there is none."""
        try:
            thought = write_thought(instance)
            episode = self._act(hide_solution(instance), thought, self._store.schema(instance.db_id))
        except ThoughtError as error:
            return Rejected(instance.instance_id, "thought", str(error))
        except GoldError as error:
            return Rejected(instance.instance_id, "gold", str(error))
        return self._check(instance, episode)

    def _act(self, hidden: Instance, thought: Thought, schema: Schema) -> Episode:
        """Forward: without the solution. The repair is what the plan makes of the reported SQL."""
        rng = random.Random(f"{self._seed}:{hidden.instance_id}")
        (repair,) = regenerate(hidden, thought.text)
        template = self._store.path(hidden.db_id)
        with self._pool.acquire(f"distill:{hidden.instance_id}", template) as lease:
            prompt = self._prompts.agentic(hidden, schema)
            episode = Episode(hidden, lease, self._agent_params, tools=True, prompt=prompt)
            for turn in plan_turns(hidden, thought, rng, self._agent_params.max_turns):
                sql = repair if turn.sql is None else turn.sql
                errors = episode.tool_errors
                episode.step(f"{turn.says}\n{format_tool_call(turn.tool, sql)}")
                if turn.sql is None and episode.tool_errors > errors:
                    break  # the repair does not run here: say nothing more, the trajectory is of no use
            return episode

    def _check(self, instance: Instance, episode: Episode) -> dict[str, Any] | Rejected:
        name = instance.instance_id
        if episode.stop is not StopReason.SUBMITTED or episode.final_sql is None:
            return Rejected(name, "rollout", f"ended without a submission ({episode.stop or 'the repair failed'})")
        messages = episode.transcript()
        leak = find_leak(instance, messages)
        if leak:
            return Rejected(name, "leak", leak)
        try:
            score = self._scorer.score(instance, episode.final_sql)
        except GoldError as error:
            return Rejected(name, "gold", str(error))
        if score.passed < score.total:
            return Rejected(name, "tests", f"passes {score.passed} of {score.total} tests: {score.reason}")
        return {
            **identity(instance),
            "messages": messages,
            "turns": episode.turns,
            "final_sql": episode.final_sql,
        }


def find_leak(instance: Instance, messages: Messages) -> str:
    """Why the trajectory shows SQL that nothing in it justifies; empty when there is no such SQL.

    Justified is the reported SQL, and what the thoughts so far make of it without the solution.
    """
    hidden = hide_solution(instance)
    thoughts = ""
    for message in messages:
        if message["role"] != "assistant":
            continue
        thoughts += message["content"].split("<tool_call>")[0]
        for call in parse_tool_calls(message["content"]):
            if not isinstance(call, ToolCall) or call.sql == join_statements(hidden.issue_sql):
                continue
            try:
                justified = [call.sql] == regenerate(hidden, thoughts)
            except ThoughtError as error:
                return f"{call.name} runs SQL before a thought leads to it ({error})"
            if not justified:
                return f"{call.name} runs SQL that the thoughts do not lead to"
    return ""
