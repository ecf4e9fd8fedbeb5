"""One trajectory: the loop of thought, SQL action and observation on one leased replica (BIRD-RL, Algorithm 1).

Free of any engine: rollouts in training, the embedded teacher and evaluation all step this class, so a turn
means the same everywhere. What a policy writes never raises. What the machinery does wrong (InfraError) or the
instance does wrong (GoldError) always raises, so that neither can be taken for a reward of zero.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from birdrl.agent.answers import parse_answer
from birdrl.agent.templating import neutral, observation_message
from birdrl.agent.tools import SUBMIT, MalformedCall, ToolCall, parse_tool_calls
from birdrl.errors import GoldError, InfraError
from birdrl.gym.instance import Instance
from birdrl.params import AgentParams
from birdrl.rewards.execution import Blame
from birdrl.rewards.trajectory import Query, Trajectory, Turn
from birdrl.sql.lease import SCRIPT_FACTOR
from birdrl.sql.observation import ObservationBudget, cut_text, render

if TYPE_CHECKING:
    from birdrl.sql.lease import Lease
    from birdrl.sql.results import StatementResult

MAX_CALLS_PER_TURN = 4
LAST_TURN_NOTE = "(last turn: submit now)"


class StopReason(StrEnum):
    """Why a trajectory ended."""

    SUBMITTED = "submitted"  # submit_solution
    ANSWERED = "answered"  # single turn: a fenced block
    NO_ANSWER = "no_answer"  # single turn: no usable block
    NO_TOOL_CALL = "no_tool_call"
    MAX_TURNS = "max_turns"
    TOKEN_LIMIT = "token_limit"  # set by whoever counts tokens
    TIMEOUT = "timeout"
    POLICY_KILLED = "policy_killed"  # it runs SQL again after a statement that took its session along
    INFRA = "infra"


@dataclass(frozen=True)
class Step:
    """What follows an assistant turn: an observation to go on with, or the reason to stop. Exactly one is set."""

    observation: str | None
    stop: StopReason | None


class Episode:
    """One trajectory on one lease. The caller owns the lease and releases it.

    With `tools=False` a single turn holds the whole answer; nothing is executed and no lease is needed.
    Raises GoldError when the instance's `preprocess_sql` fails, InfraError when the replica does.
    """

    def __init__(
        self,
        instance: Instance,
        lease: Lease | None,
        agent_params: AgentParams,
        *,
        tools: bool,
        prompt: Sequence[dict[str, str]] = (),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if tools and lease is None:
            raise ValueError("an episode with tools needs a lease")
        self.instance = instance
        self.params = agent_params
        self.tools = tools
        self.turns = 0
        self.tool_calls = 0
        self.tool_errors = 0
        self.stop: StopReason | None = None
        self.sql_seconds = 0.0
        # The one place that decides what a policy sees: teacher, rollouts and evaluation all come through here.
        self._budget = ObservationBudget(agent_params.observation_rows, agent_params.observation_bytes)
        self._lease = lease
        self._clock = clock
        self._messages = list(prompt)
        self._submitted: list[str] | None = None
        self._last_sql: str | None = None
        self._killed = False
        self._done: list[Turn] = []
        self._queries: list[Query] = []  # since the last whole turn
        self._malformed = 0
        if tools:
            self._preprocess()
        self._deadline = clock() + agent_params.trajectory_timeout_s

    @property
    def seconds_left(self) -> float:
        """Until the trajectory's wall-clock limit; not positive: it is over. Preprocessing does not count."""
        return self._deadline - self._clock()

    @property
    def final_sql(self) -> list[str] | None:
        """The SQL to score: the submission, else by `agent.final_sql` the last SQL run (section 3.4), else None."""
        if self._submitted is not None:
            return list(self._submitted)
        if self.params.final_sql == "submit_or_last" and self._last_sql is not None:
            return [self._last_sql]
        return None

    @property
    def blame(self) -> Blame:
        """Who is at fault for how the trajectory ended; NONE when there is SQL to score."""
        if self.stop is StopReason.INFRA:
            return Blame.INFRA
        if self.stop is StopReason.TIMEOUT and self.sql_seconds < self.params.trajectory_timeout_s / 2:
            # Its SQL took the smaller part of the time: the machine was slow, not the policy.
            return Blame.INFRA
        if self.stop is not None and self.final_sql is None:
            return Blame.POLICY
        return Blame.NONE

    def transcript(self) -> list[dict[str, str]]:
        """The prompt given at construction and every message since; tool calls as text in `content`."""
        return [dict(message) for message in self._messages]

    def trajectory(self) -> Trajectory:
        """What rewards need to know of the episode so far. Calls taken one by one count as a turn each."""
        final = self.final_sql
        apart = [Turn("", (query,)) for query in self._queries]
        return Trajectory(
            instance=self.instance,
            turns=(*self._done, *apart),
            final_sql=None if final is None else tuple(final),
            tools=self.tools,
            max_turns=self.params.max_turns if self.tools else 1,
            stop="" if self.stop is None else str(self.stop),
            blame=self.blame,
            messages=self.transcript(),
        )

    def step(self, assistant_text: str) -> Step:
        """Take one assistant turn. Raises InfraError, after which the trajectory counts for nothing."""
        if self.stop is not None:
            raise ValueError(f"the trajectory of {self.instance.instance_id} has ended ({self.stop})")
        self.turns += 1
        self._messages.append({"role": "assistant", "content": assistant_text})
        try:
            return self._tool_turn(assistant_text) if self.tools else self._answer(assistant_text)
        finally:
            self._done.append(Turn(assistant_text, tuple(self._queries), self._malformed))
            self._queries, self._malformed = [], 0

    def call(self, call: ToolCall | MalformedCall, *, budget: ObservationBudget | None = None) -> str:
        """Take one tool call: the observation, or an empty text with `stop` set when the call ends the trajectory.

        For engines that parse turns themselves; `step` does it for whole turns. `budget` defaults to
        that of a whole observation. Raises InfraError, after which the trajectory counts for nothing.
        """
        if isinstance(call, MalformedCall):
            self.tool_errors += 1
            self._malformed += 1
            return f"Error: {call.reason}"
        self.tool_calls += 1
        left = self.seconds_left
        if call.name == SUBMIT:
            # A submission on the last allowed turn counts, and one beyond the time limit that was written within it.
            self._submitted = [call.sql]
            self._queries.append(Query(call.sql, submitted=True))
            self.stop = StopReason.SUBMITTED
        elif self._killed:
            self.stop = StopReason.POLICY_KILLED
        elif left <= 0:
            self.stop = StopReason.TIMEOUT
        if self.stop is not None:
            return ""
        try:
            results = self._execute(call, left)
        except InfraError:
            self.stop = StopReason.INFRA
            raise
        self._killed = any(result.status == "killed" for result in results)
        return neutral(render(results, budget or self._budget))

    def end(self, reason: StopReason) -> Step:
        """Stop from outside, for limits that the episode cannot see (tokens, time while the policy writes)."""
        self.stop = reason
        return Step(None, reason)

    def _answer(self, text: str) -> Step:
        self._submitted = parse_answer(text)
        if self._submitted is None:
            return self.end(StopReason.NO_ANSWER)
        self._queries += [Query(sql, submitted=True) for sql in self._submitted]
        return self.end(StopReason.ANSWERED)

    def _tool_turn(self, text: str) -> Step:
        calls = parse_tool_calls(text)
        if not calls:
            written = parse_answer(text)
            self._last_sql = written[0] if written else self._last_sql
            return self.end(StopReason.NO_TOOL_CALL)
        observations = []
        budget = self._budget.share(min(len(calls), MAX_CALLS_PER_TURN))
        for call in calls[:MAX_CALLS_PER_TURN]:
            observations.append(self.call(call, budget=budget))
            if self.stop is not None:
                return Step(None, self.stop)
        if len(calls) > MAX_CALLS_PER_TURN:
            self.tool_errors += 1
            observations.append(f"Error: only the first {MAX_CALLS_PER_TURN} calls of a turn are run.")
        if self.turns >= self.params.max_turns:
            return self.end(StopReason.MAX_TURNS)
        if self.seconds_left <= 0:
            return self.end(StopReason.TIMEOUT)
        observation = cut_text("\n".join(observations), self._budget.bytes)
        if self.turns == self.params.max_turns - 1:
            observation += f"\n{LAST_TURN_NOTE}"
        # All observations of a turn are one message: two tool messages in a row break the engine's templates.
        self._messages.append(observation_message(observation))
        return Step(observation, None)

    def _execute(self, call: ToolCall, seconds_left: float) -> list[StatementResult]:
        assert self._lease is not None
        self._last_sql = call.sql
        statement_s = self.params.statement_timeout_s
        results = self._lease.execute(
            call.sql,
            timeout_s=min(statement_s, seconds_left),
            script_timeout_s=min(SCRIPT_FACTOR * statement_s, seconds_left),
        )
        self.sql_seconds += sum(result.elapsed_s for result in results)
        failed = not results or any(result.status != "ok" for result in results)
        self.tool_errors += failed
        self._queries.append(Query(call.sql, ok=not failed))
        return results

    def _preprocess(self) -> None:
        assert self._lease is not None
        for script in self.instance.preprocess_sql:
            for result in self._lease.execute(script):
                if result.status != "ok":
                    raise GoldError(
                        f"instance {self.instance.instance_id}, preprocess_sql {script!r}: {result.status}, "
                        f"{result.message}; correct or remove the instance"
                    )
