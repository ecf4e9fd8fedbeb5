"""Typed parameters: one section per stage, one sentence per field.

`params.yaml` holds a block per profile; `active.yaml` names the profile of this checkout and may override
single values. Unknown keys and wrong values are errors that name the key, the file and what is allowed.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from birdrl.errors import InputError


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class TemplatesParams(Section):
    source: Literal["generated", "directory"] = Field(
        "generated", description="Our own domains, or a folder of SQLite files."
    )
    directory: str = Field(
        "", description="Folder with <db>/<db>.sqlite or <db>/<db>_template.sqlite, for source 'directory'."
    )
    skip: list[str] = Field(default_factory=list, description="Database ids of the folder to leave out.")
    scale: float = Field(1.0, gt=0, le=100, description="Row-count factor of the generated domains.")
    evaluation_domains: bool = Field(
        False, description="Generate also the domains that a gym of the paper's size is evaluated on."
    )


class GymRates(Section):
    """Per accepted issue; where the bug kinds alone bring less, scenes are put around issues. 0: as the kinds bring."""

    preprocess: float = Field(0.0, ge=0, le=5, description="Preprocess statements (Table 7: 3,512 of 5,000 = 0.70).")
    clean_up: float = Field(0.0, ge=0, le=5, description="Clean-up statements (Table 7: 969 of 5,000 = 0.19).")
    multi_sql: float = Field(
        0.0, ge=0, le=1, description="Issues of several statements (Table 7: 454 of 5,000 = 0.09)."
    )


class EndpointParams(Section):
    url: str = Field("", description="Base URL of an OpenAI-compatible endpoint, ending in /v1; empty: none.")
    model: str = Field("", description="Model name that the endpoint knows.")
    key_variable: str = Field(
        "OPENAI_API_KEY", description="Environment variable that holds the key; a server without keys needs none."
    )
    temperature: float = Field(0.0, ge=0, description="Sampling temperature of answers.")
    max_tokens: int = Field(512, ge=1, description="Tokens of one answer.")
    timeout_s: float = Field(
        60.0,
        gt=0,
        description="Seconds without a byte that end a try; a question has as many for each try, and a minute a pause.",
    )
    retries: int = Field(5, ge=0, description="Further tries, with growing pauses, after a failed request.")
    structured: Literal["json_schema", "json_object", "text"] = Field(
        "json_schema", description="How the endpoint is held to JSON: by schema, to any object, by the prompt alone."
    )
    budget_tokens: int | None = Field(
        2_000_000, ge=1, description="Tokens that all answers in the cache may have cost; beyond, the run stops."
    )
    cache: str = Field("artifacts/cache/endpoint", description="Folder of answers; a question is paid for once.")


class TeacherParams(Section):
    rounds: int = Field(3, ge=1, le=3, description="Tries of each step: adapting, perturbing, describing (paper: 3).")
    tags: list[str] = Field(
        ["sql", "sqlite", "mysql", "postgresql", "sql-server", "oracle"],
        description="A post needs one of these tags; empty: any post.",
    )
    databases_per_post: int = Field(2, ge=1, description="Databases that a post is moved to, at most.")
    requests: int = Field(4, ge=1, description="Questions to the endpoint at a time.")
    endpoint: EndpointParams = Field(
        default_factory=lambda: EndpointParams.model_validate({}), description="Who writes."
    )


class GymParams(Section):
    train_instances: int = Field(ge=1, description="Accepted instances wanted for training.")
    eval_instances: int = Field(
        ge=0, description="Accepted instances wanted for evaluation, on other databases; 0: every database trains."
    )
    eval_databases: list[str] = Field(
        default_factory=list, description="Database ids held out for evaluation; empty: a seeded choice by eval_share."
    )
    eval_share: float = Field(0.3, gt=0, lt=1, description="Share of databases held out when eval_databases is empty.")
    gold_sql: list[str] = Field(
        default_factory=list, description="Files of verified SQL (BIRD or Spider JSON); empty: the query generator."
    )
    rewinder: Literal["taxonomy", "teacher"] = Field(
        "taxonomy", description="Who writes the bug: the embedded taxonomy, or a language model from people's posts."
    )
    posts: list[str] = Field(
        default_factory=list, description="For the teacher: Posts.xml of a Stack Overflow dump, or JSON lines of posts."
    )
    exclude_posts: str = Field(
        "", description="File of post ids, one a line, that must not be used: those of an evaluation set."
    )
    teacher: TeacherParams = Field(
        default_factory=lambda: TeacherParams.model_validate({}), description="The language model as rewinder."
    )
    shares: dict[Literal["query", "management", "personalization"], float] = Field(
        {"query": 0.62, "management": 0.22, "personalization": 0.16},
        description="Wanted category shares; the paper's Table 7 has 3,094 / 1,087 / 819 of 5,000.",
    )
    kinds: list[str] = Field(
        default_factory=list, description="Bug kinds, or families of them, to draw from; empty: the whole taxonomy."
    )
    text_style: Literal["brief", "report"] = Field(
        "brief", description="Issue texts: the facts alone, or a report with context, observations and attempts."
    )
    max_words: int = Field(45, ge=10, description="Words of an issue text; longer ones do not pass the gates.")
    max_sql_chars: int = Field(320, ge=40, description="Characters of the issue's or the solution's SQL.")
    mutation_weight: float = Field(
        1.0, gt=0, description="How often a kind that edits verified SQL is drawn, against one that constructs its own."
    )
    complex_share: float = Field(
        0.0, ge=0, le=1, description="Share of generated queries of several steps (long CTE chains and reports)."
    )
    rates: GymRates = Field(
        default_factory=lambda: GymRates.model_validate({}), description="Scenes: preprocess, clean-up, scripts."
    )
    near_text: float = Field(
        0.85,
        gt=0,
        le=1,
        description="Two issues of a database closer than this in text, and than near_sql in SQL, are one.",
    )
    near_sql: float = Field(0.90, gt=0, le=1, description="See near_text; 1 for both turns the check off.")
    statement_timeout_s: float = Field(
        2.0, gt=0, description="Limit of a statement in rollouts, seconds; the gates wait longer."
    )
    workers: int = Field(2, ge=1, description="Processes that build side by side, each with one for its SQL.")


class AuditParams(Section):
    text_threshold: float = Field(
        0.85, gt=0, le=1, description="Issue-text TF-IDF cosine above which a pair may be flagged."
    )
    sql_threshold: float = Field(
        0.90, gt=0, le=1, description="Buggy-SQL TF-IDF cosine above which a pair may be flagged."
    )
    closest_pairs: int = Field(20, ge=1, description="How many of the closest train x eval pairs the report shows.")
    exclude: list[
        Literal[
            "near_duplicate", "exact_copy", "same_source", "same_text", "same_sql", "same_masked_sql", "same_solution",
            "same_result",
        ]
    ] = Field(
        ["near_duplicate", "exact_copy", "same_source"],
        description="What a training issue may not share with an evaluation issue; the rest is only reported.",
    )  # fmt: skip
    results: bool = Field(True, description="Execute all solutions and compare their result tables, too.")
    exhaustive_rows: int = Field(
        50_000, ge=0, description="More training rows than this are compared in bounded memory, with the same flags."
    )
    workers: int = Field(2, ge=1, description="Processes that execute SQL or compare.")


class QualityParams(Section):
    min_train_instances: int = Field(1, ge=0, description="Fewer accepted training instances fail the run.")
    min_eval_instances: int = Field(1, ge=0, description="Fewer accepted evaluation instances fail the run.")
    min_bug_kinds: int = Field(10, ge=1, description="Fewer distinct bug kinds in training fail the run.")
    gate_sample: int | None = Field(
        100, ge=0, description="Instances of each side whose solution and buggy SQL are executed again; none: all."
    )
    workers: int = Field(2, ge=1, description="SQL worker processes.")
    history: int = Field(10, ge=1, description="How many of the latest runs' Data Docs are kept.")
    licence: str = Field("", description="Licence of databases and queries from outside, for the data set card.")
    origin: str = Field("", description="Where databases and queries from outside come from, for the data set card.")


class DistillParams(Section):
    teacher: Literal["reference"] = Field(
        "reference", description="Who writes thoughts: the embedded reference teacher."
    )
    limit: int | None = Field(None, ge=1, description="At most this many training instances are distilled.")


class QualityTrajectoriesParams(Section):
    min_trajectories: int = Field(1, ge=0, description="Fewer trajectories fail the run.")
    gate_sample: int | None = Field(
        100, ge=0, description="Trajectories whose submission is executed again; none: all."
    )
    history: int = Field(10, ge=1, description="How many of the latest runs' Data Docs are kept.")


class AgentParams(Section):
    prompts: str = Field("compact", description="Prompt set under birdrl/agent/prompts.")
    max_turns: int = Field(5, ge=1, description="Assistant turns per trajectory (BIRD-RL Table 6: 5).")
    max_response_tokens: int = Field(128, ge=8, description="Tokens of one assistant turn.")
    max_prompt_tokens: int = Field(768, ge=32, description="Tokens of the first prompt; longer instances are left out.")
    max_trajectory_tokens: int = Field(768, ge=32, description="Tokens after the first prompt, observations included.")
    observation_rows: int = Field(5, ge=1, description="Rows of a result that the policy sees.")
    observation_bytes: int = Field(
        400, ge=80, description="Bytes of an observation, rows, names and messages together, as UTF-8."
    )
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


class CsmrParams(Section):
    alpha: float = Field(0.8, gt=0, lt=1, description="Most that a result which is not perfect can earn.")
    perfect: Literal["bird", "multiset", "ordered"] = Field(
        "bird", description="When rows are the same: as a set (paper), with repetitions, in order where order counts."
    )
    dedup_columns: bool = Field(
        False, description="Count equal columns once; then junk copies of a right column are paid for (ours: no)."
    )
    bird_compat: bool = Field(
        False, description="Two results without rows are equal whatever their columns, as in BIRD's own script."
    )


class AtrParams(Section):
    up: float = Field(1.0, gt=0, description="Transition matrix entry of an improvement.")
    down: float = Field(-1.5, lt=0, description="Transition matrix entry of a degradation; |down| >= up.")
    m_stay: float = Field(0.0, description="Reward of a step that neither improves nor degrades (ours: 0).")
    tau: float = Field(0.05, ge=0, lt=1, description="Stagnation threshold: smaller changes count as none (ours).")
    step_cost: float = Field(
        0.05, ge=0, description="Cost of a scored turn (ours); at least up * tau, or cycles of small steps pay."
    )
    const: float = Field(0.0, le=0, description="Added once per trajectory (ours).")
    virtual_start: bool = Field(True, description="Score 0 stands before the first turn (ours).")
    no_action_reward: float | None = Field(
        None, description="Of a trajectory without SQL; none: a turn's cost below the longest fruitless trajectory."
    )
    score_turns: Literal["all", "answer_like"] = Field(
        "all", description="Every turn's query (paper), or only those that do not merely look at the database (ours)."
    )

    @model_validator(mode="after")
    def _no_profitable_cycle(self) -> AtrParams:
        if -self.down < self.up:
            raise ValueError(f"|down| must be at least up, or oscillating pays; got {self.down} and {self.up}")
        least = self.up * self.tau + max(self.m_stay, 0.0)
        if self.step_cost < least:
            raise ValueError(
                f"step_cost must be at least up * tau + max(m_stay, 0) = {least:g}, or falling in steps below tau and "
                f"jumping back pays; got {self.step_cost}"
            )
        return self

    def no_action(self, max_turns: int) -> float:
        """What a trajectory without SQL earns: below every fruitless one of up to `max_turns` turns, so that doing
        nothing never pays. Raises ValueError when the given number does not lie there."""
        fruitless = self.const + (min(self.m_stay, 0.0) - self.step_cost) * max_turns
        if self.no_action_reward is None:
            return fruitless - max(self.step_cost, 0.05)
        if self.no_action_reward >= fruitless:
            raise ValueError(
                f"reward.atr.no_action_reward is {self.no_action_reward:g}, not below the {fruitless:g} that "
                f"{max_turns} fruitless turns earn: doing nothing would pay"
            )
        return self.no_action_reward


class PartialParams(Section):
    executable: float = Field(0.1, ge=0, description="Weight of SQL that runs, w_exec (ours).")
    schema_linking: float = Field(0.1, ge=0, description="Weight of the schema-linking score, w_sl (ours).")
    schema_score: Literal["f1", "jaccard"] = Field("f1", description="Overlap of schema items.")


class JudgeParams(Section):
    weight: float = Field(0.2, ge=0, description="Lambda: reward of full marks (ours).")
    max_chars: int = Field(12_000, ge=200, description="Characters of a trajectory that the judge sees.")


class RubricParams(Section):
    executable: float = Field(0.1, ge=0, description="Weight of SQL that runs, w_e (ours).")
    bugs: float = Field(0.1, ge=0, description="Weight of the share of known bugs that the reasoning names (ours).")
    checklist: Literal["bug_record", "endpoint"] = Field(
        "bug_record", description="Known bugs: the instance's own record where it has one (ours), or asked for."
    )
    max_chars: int = Field(12_000, ge=200, description="Characters of reasoning that the verifier sees.")


# Terms of the peers' rewards and their weights. Terms are in [-1, 1] or [0, 1]; see birdrl/rewards/peers.py.
PEER_WEIGHTS: dict[str, dict[str, float]] = {
    "skyrl_sql": {"result": 1.0, "format": 1.0},
    "arctic": {"result": 1.0, "executable": 0.1},
    "sql_r1": {"format": 1.0, "executable": 2.0, "result": 3.0, "length": 0.5, "share": 1.0},
    "reasoning_sql": {"result": 3.0, "judge": 2.0, "executable": 1.0, "schema": 1.0, "bigrams": 1.0, "format": 1.0},
    "mtir_sql": {"format": 0.1, "executable": 0.1, "result": 1.0},
    "sql_trail": {"result": 5.0, "turns": 2.0, "schema": 1.0, "bigrams": 1.0, "executable": 1.0, "format": 1.0},
    "think2sql": {"cells": 1.0, "format": 1.0, "tags": 1.0},
}
RewardKind = Literal[
    "execution", "csmr", "atr", "step_wise", "skyrl_sql", "arctic", "sql_r1", "reasoning_sql", "mtir_sql",
    "sql_trail", "think2sql",
]  # fmt: skip
RewardPreset = Literal[
    "bird_rl", "bird_rl_strict", "bird_rl_partial", "bird_rl_judge", "bird_rl_rubric", "csmr", "astra", "astra_const",
    "astra_binary", "symmetric", "step_wise", "skyrl_sql", "arctic", "sql_r1", "reasoning_sql", "mtir_sql", "sql_trail",
    "think2sql",
]  # fmt: skip
PRESETS: dict[str, dict[str, Any]] = {
    "bird_rl": {"kind": "execution"},
    "bird_rl_partial": {"kind": "execution", "auxiliary": "partial"},
    "bird_rl_judge": {"kind": "execution", "auxiliary": "judge"},
    "bird_rl_rubric": {"kind": "execution", "auxiliary": "rubric"},
    "bird_rl_strict": {"kind": "execution", "every_database": True},
    "csmr": {"kind": "csmr", "every_database": True},
    "astra": {"kind": "atr", "every_database": True},
    "astra_const": {
        "kind": "atr",
        "every_database": True,
        "atr": {"tau": 0.0, "step_cost": 0.0, "const": -0.1, "no_action_reward": -0.2},
    },
    "astra_binary": {"kind": "atr", "every_database": True, "turn_score": "binary"},
    "symmetric": {"kind": "atr", "every_database": True, "atr": {"down": -1.0}},
    "step_wise": {"kind": "step_wise", "every_database": True},
    **{name: {"kind": name} for name in PEER_WEIGHTS},
}


class RewardParams(Section):
    """What a trajectory earns. `preset` names values for all other fields; a field that is given wins."""

    preset: RewardPreset = Field(
        "bird_rl", description="Named reward: BIRD-RL's or an ablation of it, SQL-ASTRA's, or a peer's."
    )
    kind: RewardKind = Field(
        "execution",
        description="Of the final SQL (execution: share of tests passed, Eq. 5; csmr), of all turns (atr, step_wise), "
        "or a peer's form.",
    )
    every_database: bool = Field(
        False,
        description="Ours: a test counts only if it passes on every database that the instance tries it on, and a "
        "CSMR value is the least of them, so that constants earn nothing; false: as in the papers.",
    )
    auxiliary: Literal["none", "partial", "judge", "rubric"] = Field(
        "none", description="For kind execution: what a trajectory gets that passes no test (Appendix B.2)."
    )
    turn_score: Literal["csmr", "binary"] = Field(
        "csmr", description="For atr and step_wise: dense score of a turn, or 1 only where all is right."
    )
    csmr: CsmrParams = Field(
        default_factory=lambda: CsmrParams.model_validate({}), description="Column-set matching (SQL-ASTRA 2.2.1)."
    )
    atr: AtrParams = Field(
        default_factory=lambda: AtrParams.model_validate({}), description="Aggregated trajectory reward (2.3)."
    )
    partial: PartialParams = Field(
        default_factory=lambda: PartialParams.model_validate({}), description="Partial correctness (B.2)."
    )
    judge: JudgeParams = Field(
        default_factory=lambda: JudgeParams.model_validate({}), description="LLM as a judge (B.2)."
    )
    rubric: RubricParams = Field(
        default_factory=lambda: RubricParams.model_validate({}), description="Heuristic rubric (B.2)."
    )
    weights: dict[str, float] = Field(
        default_factory=dict, description="For a peer's form: weights of its terms that differ from the published."
    )
    endpoint: EndpointParams = Field(
        default_factory=lambda: EndpointParams.model_validate({}), description="Who judges, where a reward needs it."
    )

    @model_validator(mode="before")
    @classmethod
    def _fill_from_preset(cls, values: Any) -> Any:
        if not isinstance(values, Mapping):
            return values
        return _merged(PRESETS.get(str(values.get("preset", "bird_rl")), {}), values)

    @model_validator(mode="after")
    def _consistent(self) -> RewardParams:
        if self.auxiliary != "none" and self.kind != "execution":
            raise ValueError(f"auxiliary {self.auxiliary!r} goes with kind 'execution' only, not with {self.kind!r}")
        unknown = sorted(set(self.weights) - set(PEER_WEIGHTS.get(self.kind, {})))
        if unknown:
            terms = ", ".join(PEER_WEIGHTS.get(self.kind, {})) or "none"
            raise ValueError(f"weights: {self.kind!r} has no term {unknown[0]!r}; its terms are: {terms}")
        if self.needs_endpoint and not (self.endpoint.url and self.endpoint.model):
            raise ValueError("this reward asks a language model: give endpoint.url and endpoint.model")
        return self

    @property
    def needs_endpoint(self) -> bool:
        """Whether scoring a trajectory can ask a language model."""
        return self.auxiliary in ("judge", "rubric") or self.term_weights.get("judge", 0.0) != 0

    @property
    def most_auxiliary(self) -> float:
        """The most that a trajectory can earn which passes no test."""
        most = {
            "none": 0.0,
            "partial": self.partial.executable + self.partial.schema_linking,
            "judge": self.judge.weight,
            "rubric": self.rubric.executable + self.rubric.bugs,
        }
        return most[self.auxiliary]

    @property
    def term_weights(self) -> dict[str, float]:
        """Weights of the terms of a peer's form; empty for the papers' own rewards."""
        return {**PEER_WEIGHTS.get(self.kind, {}), **self.weights}


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
    normalise_std: bool = Field(
        True, description="Divide advantages by the group's standard deviation; false: as in Dr. GRPO."
    )
    ratio: Literal["token", "sequence"] = Field(
        "token",
        description="Importance ratio: of each token, averaged over tokens (the authors' engine), or of the whole "
        "output, averaged over outputs (GSPO: Eq. 4's ratio, to the power of 1 / length).",
    )
    reward: RewardParams = Field(
        default_factory=lambda: RewardParams.model_validate({}), description="What a trajectory earns."
    )
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
    quality_trajectories: QualityTrajectoriesParams = Field(
        default_factory=lambda: QualityTrajectoriesParams.model_validate({}), description="Checks of trajectories."
    )
    policy_init: PolicyInitParams
    sft_reasoning: SftParams
    sft_tools: SftToolsParams
    rl_reasoning: RlParams
    rl_agentic: RlParams
    evaluate: EvaluateParams
    report: ReportParams

    @model_validator(mode="after")
    def _doing_nothing_does_not_pay(self) -> Params:
        for stage, turns in ((self.rl_reasoning, 1), (self.rl_agentic, self.agent.max_turns)):
            if stage.reward.kind == "atr":
                stage.reward.atr.no_action(turns)
        return self


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
    values = with_overrides(profiles[profile], overrides or {})
    return validate_params(values, f"{path}, profile {profile!r}" + (", with overrides" if overrides else ""))


def with_overrides(values: Mapping[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of nested values with dotted keys replaced."""
    changed = deepcopy(dict(values))
    for key, value in overrides.items():
        section = changed
        *parents, leaf = key.split(".")
        for parent in parents:
            if not isinstance(section.get(parent), dict):
                section[parent] = {}
            section = section[parent]
        section[leaf] = value
    return changed


def validate_params(values: Any, where: str) -> Params:
    """Params from plain values. Raises InputError that names the key, the place and what is allowed."""
    try:
        return Params.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"])
        message = first["msg"].removeprefix("Value error, ")
        if first["type"] == "extra_forbidden":
            message = f"unknown key; allowed here: {', '.join(_fields_at(first['loc'][:-1]))}"
        if first["type"] == "value_error":  # it says itself what was given
            raise InputError(f"{where}: {key + ': ' if key else ''}{message}") from error
        raise InputError(f"{where}: {key}: {message} (got {first.get('input')!r})") from error


def _merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """`over` on top of `base`, mappings merged key by key."""
    result = dict(base)
    for key, value in over.items():
        below = result.get(key)
        result[key] = _merged(below, value) if isinstance(below, Mapping) and isinstance(value, Mapping) else value
    return result


def _fields_at(location: tuple[int | str, ...]) -> list[str]:
    model: type[BaseModel] = Params
    for part in location:
        annotation = model.model_fields[str(part)].annotation
        if not (isinstance(annotation, type) and issubclass(annotation, BaseModel)):
            return []
        model = annotation
    return sorted(model.model_fields)
