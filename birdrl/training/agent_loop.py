"""Rollouts in verl's agent-loop worker: one trajectory on one private replica.

Used by stages 3 and 4, and by anybody's verl run through its configuration (docs/plug_and_play.md). The response mask
is 1 exactly on sampled tokens.
"""

from __future__ import annotations

import asyncio
import functools
import time
import uuid
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from verl.experimental.agent_loop.agent_loop import AgentLoopBase, AgentLoopMetrics, AgentLoopOutput

from birdrl.agent.episode import Episode, StopReason
from birdrl.agent.tools import EXECUTE, SUBMIT, TOOLS
from birdrl.errors import GoldError, InfraError, InputError
from birdrl.gym.instance import Instance
from birdrl.rewards.execution import Blame
from birdrl.training.dialogue import Tokens, dialogue_for
from birdrl.training.environment import rollout_environment
from birdrl.training.rewarded import reward_record, rewarded_output
from birdrl.training.rollout_settings import append_record, sampling_seed
from birdrl.training.rows import instance_of, row_index


@dataclass(frozen=True)
class Place:
    """Where a trajectory belongs: training step, row of the data, member of the group."""

    step: int
    index: int
    session: int


@dataclass
class Trajectory:
    """A trajectory under way: its tokens, the versions of the weights that wrote them, and where the time went."""

    tokens: Tokens
    weight_versions: list[int] = field(default_factory=list)
    generate_s: float = 0.0
    tools_s: float = 0.0


class SqlAgentLoop(AgentLoopBase):  # type: ignore[misc]
    """verl makes one per trajectory (`agent_loop_config_path`, with `settings` naming a file of RolloutSettings).

    Tools of `multi_turn.tool_config_path` replace the built-in descriptions, not what they do. Raises InputError when
    the engine's configuration does not fit the settings.
    """

    def __init__(self, *args: Any, settings: str, tools: Any = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.environment = rollout_environment(settings)
        self.settings = self.environment.settings
        self.settings.check_engine(self.config)
        schemas = described_tools(tools.tools if tools else []) if self.settings.tools else None
        self.dialogue = dialogue_for(self.tokenizer, self.continuous_token_builder, schemas)

    async def run(self, sampling_params: dict[str, Any], **row: Any) -> AgentLoopOutput | list[AgentLoopOutput]:
        """One trajectory with its reward, or an empty list.

        An empty list takes the sample out of its GRPO group: the machinery or the instance failed, which says
        nothing about the policy. Every trajectory leaves a line in the stage's log; the sampler counts them.
        """
        if "session_id" not in row:
            raise InputError("birdrl's agent loop needs verl's V1 trainer; set trainer.use_v1=True")
        instance = instance_of(row, scored=self.settings.reward_by == "birdrl")
        place = Place(int(row["global_steps"]), row_index(row), int(row["session_id"]))
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
        agent = self.settings.agent
        trajectory = Trajectory(Tokens(self.dialogue.start(messages)))
        if len(trajectory.tokens.prompt) > agent.max_prompt_tokens:
            raise GoldError(
                f"{instance.instance_id}: its prompt has {len(trajectory.tokens.prompt)} tokens, "
                f"agent.max_prompt_tokens allows {agent.max_prompt_tokens}; raise it or leave the row out"
            )
        name = f"{instance.instance_id}/{place.step}/{place.session}/{uuid.uuid4().hex}"
        lease = await self.environment.acquire(name, instance)
        try:
            make = functools.partial(Episode, instance, lease, agent, tools=self.settings.tools, prompt=messages)
            episode = await self.environment.run(make)
            while episode.stop is None:
                seed = sampling_seed(self.settings.seed, place.step, place.index, place.session, episode.turns)
                await self._turn(episode, trajectory, {**sampling_params, "seed": seed}, name)
        finally:
            if lease is not None:
                lease.release()
        if episode.blame is Blame.INFRA:
            raise InfraError(
                f"{instance.instance_id}: the trajectory ended as {episode.stop} by no fault of the policy"
            )
        started = time.monotonic()
        earned = await self.environment.reward(episode)
        tokens = trajectory.tokens
        output = rewarded_output(
            earned,
            prompt_ids=tokens.prompt,
            response_ids=tokens.response,
            response_mask=tokens.mask,
            response_logprobs=tokens.log_probs,
            num_turns=episode.turns,
            metrics=AgentLoopMetrics(
                generate_sequences=trajectory.generate_s,
                tool_calls=trajectory.tools_s,
                compute_score=time.monotonic() - started,
            ),
            extra_fields={
                "min_global_steps": min(trajectory.weight_versions),
                "max_global_steps": max(trajectory.weight_versions),
                # For a reward function of the engine's, which gets them in its extra_info.
                "final_sql": episode.final_sql,
                "stop": str(episode.stop),
                "tool_calls": episode.tool_calls,
                "tool_errors": episode.tool_errors,
            },
        )
        outcome = {
            "blame": episode.blame.value,
            "reward": None,
            "reason": "",
            **({} if earned is None else reward_record(earned)),
            "stop": str(episode.stop),
            "turns": episode.turns,
            "tool_calls": episode.tool_calls,
            "tool_errors": episode.tool_errors,
            "response_tokens": sum(tokens.mask),
            "final_sql": episode.final_sql,
        }
        return output, outcome

    async def _turn(self, episode: Episode, trajectory: Trajectory, sampling_params: dict[str, Any], name: str) -> None:
        """Sample one assistant turn, take it, and append what the environment answers."""
        tokens = trajectory.tokens
        room = self.settings.response_tokens - len(tokens.response)
        limit = sampling_params["max_tokens"] = min(self.settings.agent.max_response_tokens, room)
        started = time.monotonic()
        try:
            generated = await asyncio.wait_for(
                self.server_manager.generate(
                    request_id=name, prompt_ids=tokens.prompt + tokens.response, sampling_params=sampling_params
                ),
                max(0.1, episode.seconds_left),
            )
        except TimeoutError:
            episode.end(StopReason.TIMEOUT)  # who is to blame depends on where the time went before
            return
        finally:
            trajectory.generate_s += time.monotonic() - started
        ids = list(generated.token_ids)
        if not ids or generated.stop_reason == "aborted":
            raise InfraError(f"{name}: the rollout server gave up after {len(ids)} tokens")
        tokens.add_sampled(ids, list(generated.log_probs or [0.0] * len(ids)))
        trajectory.weight_versions.append(int(generated.extra_fields.get("global_steps") or 0))
        marked = ids[-1] == self.tokenizer.eos_token_id
        text = self.tokenizer.decode(ids[:-1] if marked else ids, skip_special_tokens=False)
        started = time.monotonic()
        after = await self.environment.run(functools.partial(episode.step, text))
        trajectory.tools_s += time.monotonic() - started
        if after.observation is None:
            return
        if not marked and len(ids) >= limit and not self.dialogue.closes_turns:
            episode.end(StopReason.TOKEN_LIMIT)
            return
        longer = self.dialogue.observe(tokens, episode.transcript(), ended=marked)
        if len(longer.response) >= self.settings.response_tokens:
            episode.end(StopReason.TOKEN_LIMIT)
            return
        trajectory.tokens = longer


def described_tools(tools: Sequence[Any]) -> list[dict[str, Any]]:
    """Schemas for the prompt: ours, or those of the engine's tool file. Raises InputError for other tools."""
    if not tools:
        return TOOLS
    schemas = [tool.tool_schema.model_dump(exclude_unset=True, exclude_none=True) for tool in tools]
    for schema in schemas:
        function = schema["function"]
        if function["name"] not in (EXECUTE, SUBMIT) or "sql" not in function["parameters"]["properties"]:
            raise InputError(
                f"multi_turn.tool_config_path: tool {function['name']!r}; this loop has {EXECUTE} and {SUBMIT}, each "
                "with a parameter 'sql'"
            )
    if {schema["function"]["name"] for schema in schemas} != {EXECUTE, SUBMIT}:
        raise InputError(f"multi_turn.tool_config_path: both {EXECUTE} and {SUBMIT} are needed")
    return schemas
