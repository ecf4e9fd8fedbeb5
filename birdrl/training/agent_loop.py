"""Rollouts of stages 3 and 4 in verl's agent-loop worker: one trajectory on one private replica.

Token in, token out: the ids that the policy sampled are the ids that are trained on, and nothing is ever tokenised
again. The response mask is 1 exactly on sampled tokens.
"""

from __future__ import annotations

import asyncio
import functools
import re
import time
import uuid
from collections.abc import Awaitable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from verl.experimental.agent_loop.agent_loop import AgentLoopBase, AgentLoopMetrics, AgentLoopOutput

from birdrl.agent.episode import Episode, StopReason
from birdrl.agent.tools import TOOLS
from birdrl.errors import GoldError, InfraError
from birdrl.gym.instance import Instance
from birdrl.gym.templates import TemplateStore
from birdrl.rewards.execution import Blame, ExecutionScorer
from birdrl.sql.lease import Lease
from birdrl.sql.pool import PoolConfig, PoolCounters, ReplicaPool
from birdrl.training.rollout_settings import RolloutSettings, append_record, sampling_seed
from birdrl.training.tokens import prompt_ids, suffix_ids

MAX_REPLICAS = 64


class RolloutEnvironment:
    """Databases, replicas and scorer of one rollout process."""

    def __init__(self, settings: RolloutSettings) -> None:
        self.settings = settings
        agent = settings.agent
        self.store = TemplateStore(Path(settings.templates))
        # Every trajectory of a step holds a replica while the policy generates for all of them together: fewer
        # replicas than trajectories would make batches small. Scoring has a pool of its own, so that a trajectory
        # that waits for its score never waits for one that holds a replica.
        replicas = min(MAX_REPLICAS, settings.trajectories_per_step) if settings.tools else 0
        limits: dict[str, Any] = {
            "statement_timeout_s": agent.statement_timeout_s,
            "acquire_timeout_s": agent.trajectory_timeout_s,
            "lease_timeout_s": 2 * agent.trajectory_timeout_s,
        }
        if settings.agent_workers > 1:  # each holds its share of the replicas (Appendix B.5)
            replicas = max(replicas, settings.agent_workers) if replicas else 0
            limits |= {"agent_workers": settings.agent_workers, "agent_worker": agent_worker_number()}
        self.replicas = ReplicaPool(PoolConfig(workers=replicas, **limits)) if replicas else None
        scoring = ReplicaPool(PoolConfig(workers=max(agent.workers, settings.agent_workers), **limits))
        self.scorer = ExecutionScorer(self.store, scoring)
        self._pools = {"scoring": scoring} | ({"tools": self.replicas} if self.replicas else {})
        self._counted = {name: PoolCounters() for name in self._pools}

    async def acquire(self, trajectory_id: str, instance: Instance) -> Lease | None:
        if self.replicas is None:
            return None
        return await self.replicas.acquire_async(trajectory_id, self.store.path(instance.db_id))

    def take_counters(self) -> dict[str, dict[str, float]]:
        """Per pool, what it counted since the last call: every event is handed out once, so records add up."""
        now = {name: pool.counters for name, pool in self._pools.items()}
        taken = {name: asdict(now[name].since(self._counted[name])) for name in now}
        self._counted = now
        return taken


def agent_worker_number() -> int:
    """Which of the agent-loop processes this is, from 1: the engine says so in the name of the actor.

    Raises InfraError outside such an actor: a guess could give two processes the same replicas.
    """
    import ray

    name = ray.get_runtime_context().get_actor_name() or ""
    found = re.fullmatch(r"agent_loop_worker_(\d+)_\w+", name)
    if not found:
        raise InfraError(
            f"with more than one agent worker, each must be an actor of the engine's; this one is {name!r}"
        )
    return int(found[1]) + 1


@functools.lru_cache(maxsize=1)
def rollout_environment(settings_path: str) -> RolloutEnvironment:
    """The environment of this process; made once."""
    return RolloutEnvironment(RolloutSettings.read(settings_path))


@dataclass(frozen=True)
class Place:
    """Where a trajectory belongs: training step, row of the data, member of the group."""

    step: int
    index: int
    session: int


@dataclass
class Trajectory:
    """Tokens of a trajectory under way; `response`, `mask` and `log_probs` are equally long."""

    prompt: list[int]
    response: list[int] = field(default_factory=list)
    mask: list[int] = field(default_factory=list)
    log_probs: list[float] = field(default_factory=list)
    weight_versions: list[int] = field(default_factory=list)
    generate_s: float = 0.0
    tools_s: float = 0.0

    def add_sampled(self, ids: list[int], log_probs: list[float]) -> None:
        self.response += ids
        self.mask += [1] * len(ids)
        self.log_probs += log_probs

    def add_given(self, ids: list[int]) -> None:
        self.response += ids
        self.mask += [0] * len(ids)
        self.log_probs += [0.0] * len(ids)


class SqlAgentLoop(AgentLoopBase):  # type: ignore[misc]
    """verl makes one per trajectory (`agent_loop_config_path`, with `settings` naming the stage's settings file)."""

    def __init__(self, *args: Any, settings: str, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.environment = rollout_environment(settings)
        self.settings = self.environment.settings

    async def run(self, sampling_params: dict[str, Any], **row: Any) -> AgentLoopOutput | list[AgentLoopOutput]:
        """One trajectory with its execution reward, or an empty list.

        An empty list takes the sample out of its GRPO group: the machinery or the instance failed, which says
        nothing about the policy. Every trajectory leaves a line in the stage's log; the sampler counts them.
        """
        instance = Instance.model_validate_json(row["extra_info"]["instance"])
        place = Place(int(row["global_steps"]), int(row["extra_info"]["index"]), int(row["session_id"]))
        output: AgentLoopOutput | list[AgentLoopOutput]
        record: dict[str, Any] = {"uid": str(row["uid"]), **asdict(place), "instance_id": instance.instance_id}
        try:
            output, outcome = await self._rollout(instance, list(row["raw_prompt"]), sampling_params, place)
        except (InfraError, GoldError) as error:
            blame = Blame.GOLD if isinstance(error, GoldError) else Blame.INFRA
            output, outcome = [], {"blame": blame.value, "reason": str(error)}
        append_record(self.settings.log, {**record, **outcome, "pool": self.environment.take_counters()})
        return output

    async def _rollout(
        self, instance: Instance, messages: list[Any], sampling_params: dict[str, Any], place: Place
    ) -> tuple[AgentLoopOutput, dict[str, Any]]:
        tools, agent = self.settings.tools, self.settings.agent
        trajectory = Trajectory(prompt_ids(self.tokenizer, messages, TOOLS if tools else None))
        if len(trajectory.prompt) > agent.max_prompt_tokens:
            raise ValueError(f"{instance.instance_id}: prompt of {len(trajectory.prompt)} tokens; the data is stale")
        name = f"{instance.instance_id}/{place.step}/{place.session}/{uuid.uuid4().hex}"
        lease = await self.environment.acquire(name, instance)
        try:
            episode = await asyncio.to_thread(Episode, instance, lease, agent, tools=tools)
            deadline = time.monotonic() + agent.trajectory_timeout_s
            while episode.stop is None:
                seed = sampling_seed(self.settings.seed, place.step, place.index, place.session, episode.turns)
                await self._turn(episode, trajectory, {**sampling_params, "seed": seed}, name, deadline)
        finally:
            if lease is not None:
                await asyncio.to_thread(lease.release)
        if episode.blame is Blame.INFRA:
            raise InfraError(
                f"{instance.instance_id}: the trajectory ended as {episode.stop} by no fault of the policy"
            )
        started = time.monotonic()
        score = await asyncio.to_thread(self.environment.scorer.score, instance, episode.final_sql or [])
        output = AgentLoopOutput(
            prompt_ids=trajectory.prompt,
            response_ids=trajectory.response,
            response_mask=trajectory.mask,
            response_logprobs=trajectory.log_probs,
            reward_score=score.reward,
            num_turns=episode.turns,
            metrics=AgentLoopMetrics(
                generate_sequences=trajectory.generate_s,
                tool_calls=trajectory.tools_s,
                compute_score=time.monotonic() - started,
            ),
            extra_fields={
                "min_global_steps": min(trajectory.weight_versions),
                "max_global_steps": max(trajectory.weight_versions),
            },
        )
        outcome = {
            "blame": (episode.blame if episode.blame is not Blame.NONE else score.blame).value,
            "reward": score.reward,
            "stop": str(episode.stop),
            "turns": episode.turns,
            "tool_calls": episode.tool_calls,
            "tool_errors": episode.tool_errors,
            "response_tokens": sum(trajectory.mask),
            "final_sql": episode.final_sql,
            "reason": score.reason,
        }
        return output, outcome

    async def _turn(
        self, episode: Episode, trajectory: Trajectory, sampling_params: dict[str, Any], name: str, deadline: float
    ) -> None:
        """Sample one assistant turn, take it, and append what the environment answers."""
        room = self.settings.response_tokens - len(trajectory.response)
        sampling_params["max_tokens"] = min(self.settings.agent.max_response_tokens, room)
        started = time.monotonic()
        generated = await _before(
            deadline,
            self.server_manager.generate(
                request_id=name,
                prompt_ids=trajectory.prompt + trajectory.response,
                sampling_params=sampling_params,
            ),
        )
        trajectory.generate_s += time.monotonic() - started
        ids = list(generated.token_ids)
        if not ids:
            raise InfraError(f"{name}: the rollout server returned no token")
        trajectory.add_sampled(ids, list(generated.log_probs or [0.0] * len(ids)))
        trajectory.weight_versions.append(int(generated.extra_fields.get("global_steps") or 0))
        ended = ids[-1] == self.tokenizer.eos_token_id
        text = self.tokenizer.decode(ids[:-1] if ended else ids, skip_special_tokens=False)
        started = time.monotonic()
        after = await asyncio.to_thread(episode.step, text)
        trajectory.tools_s += time.monotonic() - started
        if after.observation is None:
            return
        given = suffix_ids(self.tokenizer, after.observation)
        if not ended:  # cut at max_response_tokens: the environment closes the turn
            given = [self.tokenizer.eos_token_id, *given]
        if len(trajectory.response) + len(given) >= self.settings.response_tokens:
            episode.end(StopReason.TOKEN_LIMIT)
            return
        trajectory.add_given(given)


async def _before(deadline: float, work: Awaitable[Any]) -> Any:
    try:
        return await asyncio.wait_for(work, max(0.1, deadline - time.monotonic()))
    except TimeoutError as error:
        raise InfraError("generation did not end within agent.trajectory_timeout_s; the machine is too slow") from error
