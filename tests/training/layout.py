"""Parameters and stage contexts of this folder's tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from birdrl.params import Params
from birdrl.stages.registry import StageContext

PARAMS: dict[str, Any] = {
    "seed": 3,
    "agent": {"max_turns": 3, "max_response_tokens": 12, "max_trajectory_tokens": 200, "max_prompt_tokens": 700},
    "engine": {"threads": 2, "save_every": 2},
    "templates": {},
    "gym": {"train_instances": 1, "eval_instances": 1},
    "audit": {},
    "quality": {},
    "distill_reasoning": {},
    "distill_trajectories": {},
    "policy_init": {"source": "nano"},
    "sft_reasoning": {"max_steps": 3, "batch_size": 4, "micro_batch_size": 2, "learning_rate": 1e-3},
    "sft_tools": {"max_steps": 2, "batch_size": 2, "learning_rate": 1e-3},
    "rl_reasoning": {"steps": 2, "prompts_per_step": 2, "group_size": 2, "learning_rate": 1e-4},
    "rl_agentic": {"steps": 2, "prompts_per_step": 2, "group_size": 2, "learning_rate": 1e-4},
    "evaluate": {},
    "report": {},
}


def make_context(stage: str, root: Path, params: Params) -> StageContext:
    out, work = root / f".{stage}.part", root / "work" / stage
    out.mkdir(exist_ok=True)
    work.mkdir(parents=True, exist_ok=True)
    return StageContext(name=stage, params=params, root=root, out=out, work=work)
