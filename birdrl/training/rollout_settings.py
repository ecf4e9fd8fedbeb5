"""What agent loop and sampler, which live in processes that the engine starts, need to know of a stage."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from birdrl.files import write_text
from birdrl.params import AgentParams

POOL_METRICS = "rollout/pool/"  # tracked, but no result: they depend on how fast the machine was


class RolloutSettings(BaseModel):
    """Written to a file by the stage, named in the engine's configuration, read in every rollout process."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    agent: AgentParams
    tools: bool
    templates: str
    seed: int
    group_size: int
    prompts_per_step: int
    max_failure_share: float
    log: str
    agent_workers: int = 1  # rollout processes that share a step's trajectories and the replicas

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
        return cls.model_validate_json(Path(path).read_text(encoding="utf-8"))


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
