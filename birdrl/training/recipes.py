"""The engine's configuration: one function per recipe, typed parameters in, Hydra overrides out."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from birdrl.errors import InputError
from birdrl.params import EngineParams, RlParams, SftParams
from birdrl.training.rollout_settings import RolloutSettings

SFT_MODULE = "verl.trainer.sft_trainer"
RL_MODULE = "verl.trainer.main_ppo"
KEPT_CHECKPOINTS = 2  # the previous one stays until the next is complete
PROJECT = "birdrl"
MIN_LR_RATIO = 0.1
RAY_CPUS = 8  # logical: actors of a rollout mostly wait for each other
OBJECT_STORE_BYTES = 2_000_000_000
# Importance ratio of a token and mean over tokens; or of an output (GSPO, Eq. 4's ratio to the power of 1 / length) and
# mean over outputs.
LOSSES: dict[str, dict[str, str]] = {
    "token": {"policy_loss.loss_mode": "vanilla", "loss_agg_mode": "token-mean"},
    "sequence": {"policy_loss.loss_mode": "gspo", "loss_agg_mode": "seq-mean-token-mean"},
}


def gpus() -> int:
    """GPUs of one node for training, from BIRDRL_GPUS."""
    return int(os.environ.get("BIRDRL_GPUS", "1"))


def sft_steps(params: SftParams, samples: int) -> int:
    """Optimiser steps of a run; the incomplete last batch of a pass is left out. Raises InputError for none."""
    per_epoch = samples // params.batch_size
    if per_epoch == 0:
        raise InputError(f"{samples} samples do not fill one batch of {params.batch_size}; lower batch_size")
    steps = per_epoch * params.epochs
    return steps if params.max_steps is None else min(params.max_steps, steps)


def sft_overrides(
    name: str, params: SftParams, engine: EngineParams, *, model: Path, data: Path, checkpoints: Path, steps: int
) -> list[str]:
    """Full fine-tuning with warm-up and cosine decay, loss on assistant tokens only (stages 1 and 2)."""
    return hydra_overrides(
        {
            "data.train_files": str(data),
            "data.train_batch_size": params.batch_size,
            "data.micro_batch_size_per_gpu": largest_divisor(
                params.batch_size // _ranks(engine), params.micro_batch_size
            ),
            "data.use_dynamic_bsz": False,
            "data.max_length": params.max_length,
            "data.num_workers": 0,
            "data.custom_cls.path": "pkg://birdrl.training.sft_dataset",
            "data.custom_cls.name": "TokenisedSamples",
            "model.path": str(model),
            **_model_options("model", engine),
            **_engine_options("engine", engine),
            "engine.strategy": "fsdp2",
            "optim.lr": params.learning_rate,
            "optim.weight_decay": params.weight_decay,
            "optim.lr_warmup_steps_ratio": params.warmup_share,
            "optim.lr_scheduler_type": "cosine",
            "optim.min_lr_ratio": MIN_LR_RATIO,
            "optim.zero_indexed_step": False,  # else the first step has learning rate 0
            "+optim.override_optimizer_config.fused": True,
            "checkpoint.save_contents": ["model", "optimizer", "extra", "hf_model"],
            "checkpoint.load_contents": ["model", "optimizer", "extra"],
            "trainer.total_epochs": params.epochs,
            "trainer.total_training_steps": steps,
            "trainer.max_ckpt_to_keep": KEPT_CHECKPOINTS,
            **_trainer_options(name, engine, checkpoints),
        }
    )


def grpo_overrides(
    name: str,
    params: RlParams,
    engine: EngineParams,
    rollout: RolloutSettings,
    *,
    model: Path,
    data: Path,
    folder: Path,
    settings: Path,
    loop_config: Path,
) -> list[str]:
    """GRPO (Eq. 4): group-relative advantage over valid samples, clipped ratio, low-variance KL to the starting policy.

    The starting policy is the previous stage's, and stays the reference. Single-turn and multi-turn runs differ
    only in `rollout`.
    """
    trajectories = params.prompts_per_step * params.group_size
    micro = largest_divisor(trajectories // _ranks(engine), params.micro_batch_size)
    actor, reference, roll = (f"actor_rollout_ref.{part}" for part in ("actor", "ref", "rollout"))
    cpu = engine.device == "cpu"
    step_wise = params.reward.kind == "step_wise"
    options: dict[str, Any] = {
        # Registered by birdrl/training/advantage.py, which imports the engine and so is not imported here.
        "algorithm.adv_estimator": "birdrl_step_wise" if step_wise else "birdrl_grpo",
        "algorithm.norm_adv_by_std_in_grpo": params.normalise_std,
        "algorithm.use_kl_in_reward": False,
        "data.train_files": str(data),
        "data.val_files": str(data),  # the engine wants one; validation is off
        "data.train_batch_size": params.prompts_per_step,
        "data.val_batch_size": params.prompts_per_step,
        "data.max_prompt_length": rollout.agent.max_prompt_tokens,
        "data.max_response_length": rollout.response_tokens,
        "data.filter_overlong_prompts": False,  # done when the data was written
        "data.dataloader_num_workers": 0,
        "data.shuffle": False,  # the file's order is the seeded one
        "actor_rollout_ref.model.path": str(model),
        **_model_options("actor_rollout_ref.model", engine),
        **_engine_options(f"{actor}.fsdp_config", engine),
        **_engine_options(f"{reference}.fsdp_config", engine),
        f"{actor}.strategy": "fsdp2",
        f"{reference}.strategy": "fsdp2",
        f"{actor}.use_torch_compile": not cpu,
        f"{actor}.use_kl_loss": params.kl_coef > 0,
        f"{actor}.kl_loss_coef": params.kl_coef,
        f"{actor}.kl_loss_type": "low_var_kl",
        f"{actor}.entropy_coeff": 0,
        f"{actor}.clip_ratio": params.clip_ratio,
        **{f"{actor}.{key}": value for key, value in LOSSES[params.ratio].items()},
        f"{actor}.ppo_mini_batch_size": params.prompts_per_step,
        f"{actor}.ppo_micro_batch_size_per_gpu": micro,
        f"{actor}.optim.lr": params.learning_rate,
        f"{actor}.checkpoint.save_contents": ["model", "optimizer", "extra", "hf_model"],
        f"{actor}.checkpoint.load_contents": ["model", "optimizer", "extra"],
        f"{reference}.log_prob_micro_batch_size_per_gpu": micro,
        f"{roll}.name": "hf_cpu" if cpu else "vllm",
        f"{roll}.tensor_model_parallel_size": 1,
        f"{roll}.n": params.group_size,
        f"{roll}.temperature": params.temperature,
        f"{roll}.seed": rollout.seed,
        f"{roll}.calculate_log_probs": True,
        f"{roll}.log_prob_micro_batch_size_per_gpu": micro,
        f"{roll}.agent.num_workers": rollout.agent_workers,
        f"{roll}.agent.agent_loop_config_path": str(loop_config),
        f"{roll}.agent.default_agent_loop": "birdrl",
        "reward.num_workers": 1,  # idle: the agent loop brings its reward along
        "trainer.v1.sampler.custom_sampler.path": "pkg://birdrl.training.sampler",
        "trainer.v1.sampler.custom_sampler.name": "GroupSampler",
        "+trainer.v1.sampler.sampler_kwargs.settings": str(settings),
        "trainer.total_epochs": 1,
        "trainer.total_training_steps": params.steps,
        "trainer.val_before_train": False,
        "trainer.max_actor_ckpt_to_keep": KEPT_CHECKPOINTS,
        "trainer.rollout_data_dir": str(folder / "rollouts"),
        **_trainer_options(name, engine, folder / "checkpoints"),
    }
    if cpu:
        options |= {
            f"{roll}.max_num_seqs": 64,
            "ray_kwargs.ray_init.num_cpus": RAY_CPUS,
            "+ray_kwargs.ray_init.address": "local",
            "+ray_kwargs.ray_init.num_gpus": 1,  # logical: how verl counts its workers
            "+ray_kwargs.ray_init.include_dashboard": False,
            "+ray_kwargs.ray_init.object_store_memory": OBJECT_STORE_BYTES,
            "transfer_queue.backend.SimpleStorage.num_data_storage_units": 1,
        }
    return hydra_overrides(options)


def hydra_overrides(options: Mapping[str, Any]) -> list[str]:
    """`key=value` in Hydra's grammar, with strings quoted."""
    return [f"{key}={_hydra_value(value)}" for key, value in options.items()]


def largest_divisor(total: int, at_most: int) -> int:
    """The largest divisor of `total` that is not above `at_most`: verl wants batches to split evenly."""
    return next(size for size in range(min(total, at_most), 0, -1) if total % size == 0)


def _hydra_value(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, list):
        return f"[{','.join(_hydra_value(item) for item in value)}]"
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace("'", "\\'")
        return f"'{escaped}'"
    return str(value)


def _ranks(engine: EngineParams) -> int:
    return 1 if engine.device == "cpu" else gpus()


def _model_options(prefix: str, engine: EngineParams) -> dict[str, Any]:
    cpu = engine.device == "cpu"
    return {
        f"{prefix}.use_remove_padding": True,
        f"{prefix}.enable_gradient_checkpointing": not cpu,
        f"+{prefix}.override_config.attn_implementation": "packed_sdpa" if cpu else "flash_attention_2",
    }


def _engine_options(prefix: str, engine: EngineParams) -> dict[str, Any]:
    if engine.device == "cuda":
        return {}
    return {
        f"{prefix}.use_torch_compile": False,
        f"{prefix}.reshard_after_forward": False,  # one rank: nothing to gather again
        f"+{prefix}.mixed_precision.param_dtype": "fp32",
    }


def _trainer_options(name: str, engine: EngineParams, checkpoints: Path) -> dict[str, Any]:
    loggers = ["console", "file"] + (["mlflow"] if os.environ.get("MLFLOW_TRACKING_URI") else [])
    return {
        "trainer.device": engine.device,
        "trainer.nnodes": 1,
        "trainer.n_gpus_per_node": _ranks(engine),
        "trainer.project_name": PROJECT,
        "trainer.experiment_name": name,
        "trainer.logger": loggers,
        "trainer.save_freq": engine.save_every,
        "trainer.test_freq": -1,
        "trainer.default_local_dir": str(checkpoints),
        "trainer.resume_mode": "auto",
        "hydra.run.dir": str(checkpoints.parent / "hydra"),
        "hydra.output_subdir": None,
    }
