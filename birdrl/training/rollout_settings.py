"""What agent loop and sampler, which live in processes that the engine starts, need to know of a stage."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from birdrl.errors import InputError
from birdrl.files import write_text
from birdrl.params import AgentParams, RewardParams

POOL_METRICS = "rollout/pool/"  # tracked, but no result: they depend on how fast the machine was


class RolloutSettings(BaseModel):
    """A YAML or JSON file, named in the engine's configuration and read in every rollout process.

    Stages write it; a run of somebody else's brings its own (docs/plug_and_play.md).
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    templates: str = Field(description="Template store, or a folder of <db>/<db>.sqlite files.")
    group_size: int = Field(ge=1, description="Trajectories per prompt; rollout.n.")
    prompts_per_step: int = Field(ge=1, description="Prompts per step; data.train_batch_size.")
    log: str = Field(description="JSON-lines file that gets a record of every trajectory.")
    agent: AgentParams = Field(default_factory=AgentParams, description="Limits of a trajectory.")
    agent_workers: int = Field(1, ge=1, description="Processes that run trajectories; rollout.agent.num_workers.")
    tools: bool = Field(True, description="Multi-turn with the two tools, or one answer in a fenced block.")
    reward_by: Literal["birdrl", "engine"] = Field(
        "birdrl", description="Who scores: `reward`, or the engine's reward function with our fields."
    )
    reward: RewardParams = Field(
        default_factory=lambda: RewardParams.model_validate({}), description="What it earns (docs/rewards.md)."
    )
    max_failure_share: float = Field(0.02, ge=0, le=1, description="Share of a step that may fail by nobody's policy.")
    seed: int = Field(0, description="Of the sampling seeds, which the rollout server may ignore.")

    @property
    def trajectories_per_step(self) -> int:
        return self.group_size * self.prompts_per_step

    @property
    def response_tokens(self) -> int:
        """Longest response: of one turn, or of a trajectory with its observations."""
        return self.agent.max_trajectory_tokens if self.tools else self.agent.max_response_tokens

    def write(self, path: Path) -> None:
        write_text(path, self.model_dump_json(indent=2) + "\n")

    @classmethod
    def read(cls, path: str | Path) -> RolloutSettings:
        """Raises InputError that names the file and the key."""
        try:
            return cls.model_validate(yaml.safe_load(Path(path).read_text(encoding="utf-8")))
        except (OSError, yaml.YAMLError) as error:
            raise InputError(f"{path}: cannot be read ({error}); name an existing YAML or JSON file") from error
        except ValidationError as error:
            first = error.errors()[0]
            key = ".".join(map(str, first["loc"])) or "the file"
            raise InputError(
                f"{path}, {key}: {first['msg']}; the keys are described in docs/plug_and_play.md"
            ) from error

    def check_engine(self, config: Any) -> None:
        """Raise InputError unless the engine's configuration says the same about sizes as this file."""
        rollout = config.actor_rollout_ref.rollout
        equal = {
            "group_size": (self.group_size, "actor_rollout_ref.rollout.n", rollout.n),
            "prompts_per_step": (self.prompts_per_step, "data.train_batch_size", config.data.train_batch_size),
            "agent_workers": (
                self.agent_workers,
                "actor_rollout_ref.rollout.agent.num_workers",
                rollout.agent.num_workers,
            ),
        }
        at_most = {
            "agent.max_prompt_tokens": (self.agent.max_prompt_tokens, "data.max_prompt_length", rollout.prompt_length),
            "agent.max_trajectory_tokens" if self.tools else "agent.max_response_tokens": (
                self.response_tokens, "data.max_response_length", rollout.response_length
            ),
        }  # fmt: skip
        wrong = [f"{key} is {own}, {other} is {value}" for key, (own, other, value) in equal.items() if own != value]
        wrong += [
            f"{key} is {own}, {other} only {value}" for key, (own, other, value) in at_most.items() if own > value
        ]
        if wrong:
            raise InputError(f"the engine's configuration and birdrl's settings differ: {'; '.join(wrong)}")


def sampling_seed(seed: int, step: int, index: int, session: int, turn: int) -> int:
    """Seed of one turn's samples, below 2**62: the same run samples the same, every turn of it differently."""
    text = json.dumps([seed, step, index, session, turn])
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 2


def append_record(log: str | Path, record: dict[str, Any]) -> None:
    """Append one JSON line in a single write, so that lines of several processes do not mix."""
    line = json.dumps(record, ensure_ascii=False) + "\n"
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        os.write(descriptor, line.encode())
    finally:
        os.close(descriptor)


def read_records(log: str | Path, start: int) -> list[dict[str, Any]]:
    """The records from byte `start` on; none when there is no file yet."""
    try:
        with open(log, "rb") as file:
            file.seek(start)
            return [json.loads(line) for line in file]
    except FileNotFoundError:
        return []
