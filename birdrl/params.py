"""Typed parameters: one section per stage, one sentence per field.

`params.yaml` holds a block per profile; `active.yaml` names the profile of this checkout and may override
single values. Unknown keys and wrong values are errors that name the key, the file and what is allowed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from birdrl.errors import InputError


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class TemplatesParams(Section):
    source: Literal["generated", "directory"] = Field(
        "generated", description="Our own domains, or a folder of SQLite files."
    )
    directory: str = Field(
        "", description="Folder with <db>/<db>.sqlite or <db>/<db>_template.sqlite, for source 'directory'."
    )
    skip: list[str] = Field(default_factory=list, description="Database ids of the folder to leave out.")
    scale: float = Field(1.0, gt=0, le=100, description="Row-count factor of the generated domains.")


class GymParams(Section):
    train_instances: int = Field(ge=1, description="Accepted instances wanted for training.")
    eval_instances: int = Field(ge=1, description="Accepted instances wanted for evaluation, on other databases.")
    eval_databases: list[str] = Field(
        default_factory=list, description="Database ids held out for evaluation; empty: a seeded choice by eval_share."
    )
    eval_share: float = Field(0.3, gt=0, lt=1, description="Share of databases held out when eval_databases is empty.")
    gold_sql: list[str] = Field(
        default_factory=list, description="Files of verified SQL (BIRD or Spider JSON); empty: the query generator."
    )
    rewinder: Literal["taxonomy"] = Field("taxonomy", description="Who writes the bug: the embedded taxonomy.")
    shares: dict[Literal["query", "management", "personalization"], float] = Field(
        {"query": 0.62, "management": 0.22, "personalization": 0.16},
        description="Wanted category shares; the paper's Table 7 has 3,094 / 1,087 / 819 of 5,000.",
    )
    statement_timeout_s: float = Field(2.0, gt=0, description="Time limit of one statement in the gates, seconds.")
    workers: int = Field(2, ge=1, description="SQL worker processes.")


class AuditParams(Section):
    text_threshold: float = Field(
        0.85, gt=0, le=1, description="Issue-text TF-IDF cosine above which a pair may be flagged."
    )
    sql_threshold: float = Field(
        0.90, gt=0, le=1, description="Buggy-SQL TF-IDF cosine above which a pair may be flagged."
    )
    closest_pairs: int = Field(20, ge=1, description="How many of the closest train x eval pairs the report shows.")


class QualityParams(Section):
    min_train_instances: int = Field(1, ge=0, description="Fewer accepted training instances fail the run.")
    min_eval_instances: int = Field(1, ge=0, description="Fewer accepted evaluation instances fail the run.")
    min_bug_kinds: int = Field(10, ge=1, description="Fewer distinct bug kinds in training fail the run.")


class DistillParams(Section):
    teacher: Literal["reference"] = Field(
        "reference", description="Who writes thoughts: the embedded reference teacher."
    )
    limit: int | None = Field(None, ge=1, description="At most this many training instances are distilled.")


class AgentParams(Section):
    prompts: str = Field("compact", description="Prompt set under birdrl/agent/prompts.")
    max_turns: int = Field(5, ge=1, description="Assistant turns per trajectory (BIRD-RL Table 6: 5).")
    max_response_tokens: int = Field(128, ge=8, description="Tokens of one assistant turn.")
    max_prompt_tokens: int = Field(768, ge=32, description="Tokens of the first prompt; longer instances are left out.")
    max_trajectory_tokens: int = Field(768, ge=32, description="Tokens after the first prompt, observations included.")
    observation_rows: int = Field(5, ge=1, description="Rows of a result that the policy sees.")
    observation_chars: int = Field(400, ge=40, description="Characters of an observation that the policy sees.")
    statement_timeout_s: float = Field(2.0, gt=0, description="Time limit of one of the policy's statements, seconds.")
    workers: int = Field(2, ge=1, description="SQL worker processes, one trajectory each.")
    trajectory_timeout_s: float = Field(300.0, gt=0, description="Wall-clock limit of a trajectory, seconds.")
    final_sql: Literal["submit_only", "submit_or_last"] = Field(
        "submit_or_last", description="Without a submission the last query counts (paper) or nothing does."
    )


class PolicyInitParams(Section):
    source: Literal["nano", "smollm2", "huggingface"] = Field(description="Which model training starts from.")
    path: str = Field("", description="Folder in Hugging Face form, for source 'huggingface'.")


class EngineParams(Section):
    python: str = Field("", description="Python of the engine's own environment; empty: this one.")
    device: Literal["cpu", "cuda"] = Field("cpu", description="Where training runs.")
    threads: int = Field(2, ge=1, description="Torch threads of the training process on CPU.")
    agent_workers: int = Field(1, ge=1, description="Processes that run trajectories; they share the replicas.")
    save_every: int = Field(
        50, ge=1, description="Optimiser steps between two checkpoints that a killed run resumes from."
    )


class SftParams(Section):
    max_steps: int | None = Field(None, ge=1, description="Stop after this many optimiser steps.")
    epochs: int = Field(1, ge=1, description="Passes over the data (paper: 3).")
    batch_size: int = Field(8, ge=1, description="Samples per optimiser step (paper: 16).")
    micro_batch_size: int = Field(8, ge=1, description="Samples per forward pass.")
    learning_rate: float = Field(1e-5, gt=0, description="Peak learning rate (paper: 1e-5).")
    warmup_share: float = Field(0.1, ge=0, lt=1, description="Share of steps with rising learning rate.")
    weight_decay: float = Field(0.01, ge=0, description="AdamW weight decay.")
    max_length: int = Field(1024, ge=32, description="Tokens of a sample; longer ones are left out and counted.")


class SftToolsParams(SftParams):
    replay_share: float = Field(
        0.0,
        ge=0,
        le=4,
        description="Stage-1 samples mixed in, per trajectory, so that a small policy keeps the single-turn form "
        "that stage 3 reinforces (ours; the paper mixes in none).",
    )


class RlParams(Section):
    steps: int = Field(ge=1, description="GRPO steps.")
    prompts_per_step: int = Field(4, ge=1, description="Instances per step (paper: 16).")
    group_size: int = Field(
        4, ge=2, description="Rollouts per instance, N of Eq. 4 (paper: 16 in stage 3, 4 in stage 4)."
    )
    micro_batch_size: int = Field(4, ge=1, description="Samples per forward pass.")
    learning_rate: float = Field(1e-6, gt=0, description="Learning rate (paper: 1e-6).")
    kl_coef: float = Field(0.01, ge=0, description="Weight of the KL term, beta of Eq. 4.")
    clip_ratio: float = Field(0.2, gt=0, lt=1, description="Clip range epsilon of Eq. 4.")
    temperature: float = Field(1.0, gt=0, description="Sampling temperature of rollouts.")
    max_failure_share: float = Field(
        0.02, ge=0, le=1, description="Above this share of infra and gold failures in a step the run stops."
    )


class EvaluateParams(Section):
    limit: int | None = Field(None, ge=1, description="At most this many held-out instances, a seeded choice.")
    batch_size: int = Field(16, ge=1, description="Trajectories generated together.")
    protocols: dict[str, Literal["reasoning", "agentic"]] = Field(
        {
            "policy_init": "reasoning",
            "sft_reasoning": "reasoning",
            "sft_tools": "agentic",
            "rl_reasoning": "agentic",
            "rl_agentic": "agentic",
        },
        description="Prompt family per checkpoint: one answer without tools, or the tool-use loop.",
    )


class ReportParams(Section):
    title: str = Field("birdrl curriculum", description="Heading of the report.")


class Params(Section):
    """All parameters of one profile."""

    seed: int = Field(0, ge=0, description="Seed of every random choice.")
    agent: AgentParams = Field(
        default_factory=lambda: AgentParams.model_validate({}), description="The trajectory loop."
    )
    engine: EngineParams = Field(
        default_factory=lambda: EngineParams.model_validate({}), description="The training engine."
    )
    templates: TemplatesParams
    gym: GymParams
    audit: AuditParams
    quality: QualityParams
    distill_reasoning: DistillParams
    distill_trajectories: DistillParams
    policy_init: PolicyInitParams
    sft_reasoning: SftParams
    sft_tools: SftToolsParams
    rl_reasoning: RlParams
    rl_agentic: RlParams
    evaluate: EvaluateParams
    report: ReportParams


def load_params(profile: str, overrides: dict[str, Any] | None = None, path: Path = Path("params.yaml")) -> Params:
    """The parameters of a profile of `path`, with dotted-key overrides (`{"gym.train_instances": 50}`) applied.

    Raises InputError for an unknown profile or key, or a value outside what its field allows.
    """
    try:
        profiles = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"{path}: no such file; run birdrl from the project's root") from None
    except yaml.YAMLError as error:
        raise InputError(f"{path}: not valid YAML ({error})") from error
    if not isinstance(profiles, dict) or profile not in profiles:
        known = ", ".join(sorted(profiles)) if isinstance(profiles, dict) else "none"
        raise InputError(f"{path}: no profile {profile!r}; profiles are: {known}")
    values = profiles[profile]
    for key, value in (overrides or {}).items():
        section = values
        *parents, leaf = key.split(".")
        for parent in parents:
            if not isinstance(section.get(parent), dict):
                section[parent] = {}
            section = section[parent]
        section[leaf] = value
    return validate_params(values, f"{path}, profile {profile!r}" + (", with overrides" if overrides else ""))


def validate_params(values: Any, where: str) -> Params:
    """Params from plain values. Raises InputError that names the key, the place and what is allowed."""
    try:
        return Params.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"])
        message = first["msg"]
        if first["type"] == "extra_forbidden":
            message = f"unknown key; allowed here: {', '.join(_fields_at(first['loc'][:-1]))}"
        raise InputError(f"{where}: {key}: {message} (got {first.get('input')!r})") from error


def _fields_at(location: tuple[int | str, ...]) -> list[str]:
    model: type[BaseModel] = Params
    for part in location:
        annotation = model.model_fields[str(part)].annotation
        if not (isinstance(annotation, type) and issubclass(annotation, BaseModel)):
            return []
        model = annotation
    return sorted(model.model_fields)
