"""Run one policy on many instances: episodes in lockstep, one batch of generation per turn.

Every instance ends as one `Record`. Where the machinery or the instance failed, the record says so and has no
reward: such instances are counted apart, never as failures of the policy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, Literal

from birdrl.agent.episode import Episode, StopReason
from birdrl.agent.prompting import Messages, PromptSet
from birdrl.agent.tools import TOOLS
from birdrl.errors import GoldError, InfraError
from birdrl.evaluation.policy import Policy
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
    """An episode under way: its tokens so far, and how many of them came after the prompt."""

    instance: Instance
    episode: Episode
    tokens: list[int]
    prompt_length: int

    @property
    def response_tokens(self) -> int:
        return len(self.tokens) - self.prompt_length


class EpisodeRunner:
    """Runs policies through episodes.

    `replicas` holds one replica per trajectory of a batch, so it needs at least `batch_size` workers; `scorer`
    must draw on another pool, or a batch that holds every replica would wait for itself.
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
            raise ValueError(f"{replicas.config.workers} replicas cannot hold a batch of {batch_size} trajectories")
        self._store, self._replicas, self._scorer = store, replicas, scorer
        self._prompts, self._batch_size = prompts, batch_size
        # The episodes of a batch wait for one another's turns, which is nobody's fault.
        patience = {"trajectory_timeout_s": agent_params.trajectory_timeout_s * batch_size}
        self._params = agent_params.model_copy(update=patience)

    def run(
        self,
        policy: Policy,
        instances: Sequence[Instance],
        protocol: Protocol,
        on_done: Callable[[], object] = lambda: None,
    ) -> list[Record]:
        """One record per instance, in their order; `on_done` is called after each."""
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
        # Sequences of one batch are padded to the longest: neighbours in length waste least.
        fitting.sort(key=lambda index: len(tokens[index]))
        with ThreadPoolExecutor(max_workers=self._params.workers) as threads:
            for start in range(0, len(fitting), self._batch_size):
                batch = fitting[start : start + self._batch_size]
                chosen = [(index, instances[index], messages[index], tokens[index]) for index in batch]
                for index, record in self._batch(policy, chosen, protocol, threads):
                    settle(index, record)
        return [records[index] for index in range(len(instances))]

    def _batch(
        self,
        policy: Policy,
        chosen: Sequence[tuple[int, Instance, Messages, list[int]]],
        protocol: Protocol,
        threads: ThreadPoolExecutor,
    ) -> Iterator[tuple[int, Record]]:
        """Play one batch to its end; replicas are handed back before scoring starts."""
        running: dict[int, _Running] = {}
        failed: dict[int, Record] = {}
        with ExitStack() as leases:
            for index, instance, dialogue, ids in chosen:
                try:
                    running[index] = self._open(instance, dialogue, ids, protocol, leases)
                except (InfraError, GoldError) as error:
                    failed[index] = _excluded(instance, error)
            active = dict(running)
            while active:
                active = self._turn(policy, active, failed, threads)
        yield from failed.items()
        scored = {index: one for index, one in running.items() if index not in failed}
        yield from zip(scored, threads.map(self._score, scored.values()), strict=True)

    def _open(
        self, instance: Instance, dialogue: Messages, ids: list[int], protocol: Protocol, leases: ExitStack
    ) -> _Running:
        lease = None
        if protocol == "agentic":
            template = self._store.path(instance.db_id)
            lease = leases.enter_context(self._replicas.acquire(f"evaluate:{instance.instance_id}", template))
        episode = Episode(instance, lease, self._params, tools=protocol == "agentic", prompt=dialogue)
        return _Running(instance, episode, list(ids), len(ids))

    def _turn(
        self, policy: Policy, active: dict[int, _Running], failed: dict[int, Record], threads: ThreadPoolExecutor
    ) -> dict[int, _Running]:
        """One assistant turn of every active episode; returns those that go on."""
        limits = [
            min(self._params.max_response_tokens, self._params.max_trajectory_tokens - one.response_tokens)
            for one in active.values()
        ]
        turns = policy.generate([one.tokens for one in active.values()], limits)
        for one, turn in zip(active.values(), turns, strict=True):
            one.tokens += turn.ids

        def step(item: tuple[_Running, str]) -> str | InfraError | None:
            one, text = item
            try:
                return one.episode.step(text).observation
            except InfraError as error:
                return error

        texts = [turn.text for turn in turns]
        going_on = {}
        for index, outcome in zip(active, threads.map(step, zip(active.values(), texts, strict=True)), strict=True):
            one = active[index]
            if isinstance(outcome, InfraError):
                failed[index] = _excluded(one.instance, outcome)
            elif outcome is not None:
                one.tokens += policy.continuation(outcome)
                if one.response_tokens < self._params.max_trajectory_tokens:
                    going_on[index] = one
                else:
                    one.episode.end(StopReason.TOKEN_LIMIT)
        return going_on

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


def _excluded(instance: Instance, error: InfraError | GoldError) -> Record:
    return Record(instance, "infra" if isinstance(error, InfraError) else "gold", str(error))
