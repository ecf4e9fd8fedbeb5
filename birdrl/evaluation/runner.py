"""Run one policy on many instances: as one trajectory ends, the next instance takes its place.

What is generated together depends on the tokens alone, never on how long SQL took: after every step of the policy
the SQL of the turns that ended is run, and all of them go on together.

Every instance ends as one `Record`. Where the machinery or the instance failed, the record says so and has no
reward: such instances are counted apart, never as failures of the policy.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, Literal

from birdrl.agent.episode import Episode, StopReason
from birdrl.agent.prompting import Messages, PromptSet
from birdrl.agent.tools import TOOLS
from birdrl.errors import GoldError, InfraError
from birdrl.evaluation.policy import Generation, Policy
from birdrl.gym.instance import Instance
from birdrl.gym.templates import TemplateStore
from birdrl.params import AgentParams
from birdrl.rewards.execution import Blame, ExecutionScorer
from birdrl.sql.pool import ReplicaPool

Protocol = Literal["reasoning", "agentic"]


@dataclass(frozen=True)
class Record:
    """How one instance went. `excluded` is empty, or why it does not count: infra, gold, prompt_too_long."""

    instance: Instance
    excluded: str
    reason: str
    reward: float | None = None
    passed: int = 0
    total: int = 0
    stop: StopReason | None = None
    turns: int = 0
    tool_calls: int = 0
    tool_errors: int = 0
    response_tokens: int = 0
    final_sql: list[str] | None = None
    messages: Messages = field(default_factory=list)

    @property
    def success(self) -> bool:
        """All tests passed (SR of the papers)."""
        return self.total > 0 and self.passed == self.total

    def row(self) -> dict[str, Any]:
        """JSON-ready."""
        instance = self.instance
        return {
            "instance_id": instance.instance_id, "db_id": instance.db_id, "category": instance.category,
            "kind": instance.bug.kind if instance.bug else "unknown", "excluded": self.excluded,
            "reason": self.reason, "success": self.success, "reward": self.reward, "passed": self.passed,
            "total": self.total, "stop": self.stop, "turns": self.turns, "tool_calls": self.tool_calls,
            "tool_errors": self.tool_errors, "response_tokens": self.response_tokens, "final_sql": self.final_sql,
            "messages": self.messages,
        }  # fmt: skip


@dataclass
class _Running:
    """An episode under way: its tokens so far, how many of them came before the first turn, and what it holds."""

    index: int
    instance: Instance
    episode: Episode
    tokens: list[int]
    prompt_length: int
    leases: ExitStack

    @property
    def response_tokens(self) -> int:
        return len(self.tokens) - self.prompt_length


class EpisodeRunner:
    """Runs policies through episodes.

    `batch_size` trajectories are under way at once, each with a replica of its own out of `replicas`; `scorer` must
    draw on another pool, or it would wait for them.
    """

    def __init__(
        self,
        store: TemplateStore,
        replicas: ReplicaPool,
        scorer: ExecutionScorer,
        prompts: PromptSet,
        agent_params: AgentParams,
        batch_size: int,
    ) -> None:
        if replicas.config.workers < batch_size:
            raise ValueError(f"{replicas.config.workers} replicas cannot hold {batch_size} trajectories at once")
        self._store, self._replicas, self._scorer = store, replicas, scorer
        self._prompts, self._batch_size = prompts, batch_size
        # Trajectories wait for one another's turns, which is nobody's fault.
        patience = {"trajectory_timeout_s": agent_params.trajectory_timeout_s * batch_size}
        self._params = agent_params.model_copy(update=patience)

    def run(
        self,
        policy: Policy,
        instances: Sequence[Instance],
        protocol: Protocol,
        on_done: Callable[[], object] = lambda: None,
    ) -> list[Record]:
        """One record per instance, in their order; `on_done` is called after each, not always by this thread."""
        tools = TOOLS if protocol == "agentic" else None
        family = self._prompts.agentic if protocol == "agentic" else self._prompts.reasoning
        messages = [family(instance, self._store.schema(instance.db_id)) for instance in instances]
        tokens = [policy.prompt(dialogue, tools) for dialogue in messages]
        records: dict[int, Record] = {}

        def settle(index: int, record: Record) -> None:
            records[index] = record
            on_done()

        fitting = []
        for index, ids in enumerate(tokens):
            if len(ids) <= self._params.max_prompt_tokens:
                fitting.append(index)
            else:
                reason = f"{len(ids)} tokens, agent.max_prompt_tokens is {self._params.max_prompt_tokens}"
                settle(index, Record(instances[index], "prompt_too_long", reason))
        # Prompts read together are padded to the longest: neighbours in length waste least.
        waiting = deque(sorted(fitting, key=lambda index: len(tokens[index])))
        playing: dict[int, _Running] = {}  # by the number of the turn they wait for
        scores: dict[int, Future[Record]] = {}
        workers = self._params.workers
        with ThreadPoolExecutor(workers) as stepping, ThreadPoolExecutor(workers) as scoring, ExitStack() as held:
            while waiting or playing:
                while waiting and len(playing) < self._batch_size:
                    index = waiting.popleft()
                    try:
                        one = self._open(index, instances[index], messages[index], tokens[index], protocol)
                    except (InfraError, GoldError) as error:
                        settle(index, _excluded(instances[index], error))
                    else:
                        held.enter_context(one.leases)
                        playing[self._ask(policy, one)] = one
                if not playing:
                    continue
                turns = [(playing.pop(ticket), turn) for ticket, turn in policy.advance()]
                for (one, _), outcome in zip(turns, stepping.map(_step, turns), strict=True):
                    if isinstance(outcome, str) and self._goes_on(policy, one, outcome):
                        playing[self._ask(policy, one)] = one
                        continue
                    one.leases.close()
                    if isinstance(outcome, InfraError):
                        settle(one.index, _excluded(one.instance, outcome))
                    else:
                        scores[one.index] = scoring.submit(self._score, one)
                        scores[one.index].add_done_callback(lambda _: on_done())
        records |= {index: score.result() for index, score in scores.items()}
        return [records[index] for index in range(len(instances))]

    def _open(self, index: int, instance: Instance, dialogue: Messages, ids: list[int], protocol: Protocol) -> _Running:
        with ExitStack() as leases:
            lease = None
            if protocol == "agentic":
                template = self._store.path(instance.db_id)
                lease = leases.enter_context(self._replicas.acquire(f"evaluate:{instance.instance_id}", template))
            episode = Episode(instance, lease, self._params, tools=protocol == "agentic", prompt=dialogue)
            return _Running(index, instance, episode, list(ids), len(ids), leases.pop_all())

    def _ask(self, policy: Policy, one: _Running) -> int:
        left = self._params.max_trajectory_tokens - one.response_tokens
        return policy.submit(one.tokens, min(self._params.max_response_tokens, left))

    def _goes_on(self, policy: Policy, one: _Running, observation: str) -> bool:
        """Show the observation, unless it ends the trajectory by its length."""
        one.tokens += policy.continuation(observation)
        if one.response_tokens < self._params.max_trajectory_tokens:
            return True
        one.episode.end(StopReason.TOKEN_LIMIT)
        return False

    def _score(self, one: _Running) -> Record:
        episode = one.episode
        if episode.blame is Blame.INFRA:
            return Record(one.instance, "infra", f"the trajectory ended by {episode.stop} without its own fault")
        try:
            score = self._scorer.score(one.instance, episode.final_sql or [])
        except (InfraError, GoldError) as error:
            return _excluded(one.instance, error)
        return Record(
            one.instance,
            excluded="",
            reason=score.reason,
            reward=score.reward,
            passed=score.passed,
            total=score.total,
            stop=episode.stop,
            turns=episode.turns,
            tool_calls=episode.tool_calls,
            tool_errors=episode.tool_errors,
            response_tokens=one.response_tokens,
            final_sql=episode.final_sql,
            messages=episode.transcript(),
        )


def _step(turn: tuple[_Running, Generation]) -> str | InfraError | None:
    """Take one assistant turn: its observation, None when it ended the trajectory, or why it could not be taken."""
    one, generation = turn
    one.tokens += generation.ids
    try:
        return one.episode.step(generation.text).observation
    except InfraError as error:
        return error


def _excluded(instance: Instance, error: InfraError | GoldError) -> Record:
    return Record(instance, "infra" if isinstance(error, InfraError) else "gold", str(error))
