"""The engine accepts the configuration that the recipes write, on both devices."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from birdrl.errors import InputError
from birdrl.params import Params, RewardParams
from birdrl.training.recipes import grpo_overrides, hydra_overrides, largest_divisor, sft_overrides, sft_steps
from birdrl.training.rollout_settings import RolloutSettings, sampling_seed

verl = pytest.importorskip("verl")


def compose(name: str, overrides: list[str]) -> Any:
    from hydra import compose as hydra_compose
    from hydra import initialize_config_module

    with initialize_config_module("verl.trainer.config", version_base=None):
        return hydra_compose(name, [o for o in overrides if not o.startswith("hydra.")])


def rollout_settings(params: Params, tmp_path: Path, *, tools: bool) -> RolloutSettings:
    return RolloutSettings(
        agent=params.agent, tools=tools, templates="x", seed=3, group_size=4, prompts_per_step=3,
        max_failure_share=0.02, log=str(tmp_path / "log.jsonl"),
    )  # fmt: skip


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("tools", [False, True])
def test_reinforcement_configuration_is_valid(params: Params, tmp_path: Path, device: str, tools: bool) -> None:
    from verl.trainer.ppo.utils import need_critic, need_reference_policy
    from verl.utils.config import validate_config

    engine = params.engine.model_copy(update={"device": device})
    rl = params.rl_agentic.model_copy(update={"group_size": 4, "prompts_per_step": 3, "micro_batch_size": 5})
    rollout = rollout_settings(params, tmp_path, tools=tools)
    overrides = grpo_overrides(
        "rl_agentic", rl, engine, rollout, model=tmp_path, data=tmp_path / "a.parquet", folder=tmp_path,
        settings=tmp_path / "s.json", loop_config=tmp_path / "l.yaml",
    )  # fmt: skip
    config = compose("ppo_trainer", overrides)
    validate_config(config, use_reference_policy=need_reference_policy(config), use_critic=need_critic(config))
    actor = config.actor_rollout_ref.actor
    assert need_reference_policy(config)
    assert (actor.kl_loss_type, actor.clip_ratio, actor.ppo_micro_batch_size_per_gpu) == ("low_var_kl", 0.2, 4)
    assert (actor.use_kl_loss, actor.kl_loss_coef) == (True, rl.kl_coef)
    assert config.actor_rollout_ref.rollout.name == ("hf_cpu" if device == "cpu" else "vllm")
    assert config.data.max_response_length == (200 if tools else 12)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, ("birdrl_grpo", True, "vanilla", "token-mean")),
        ({"normalise_std": False}, ("birdrl_grpo", False, "vanilla", "token-mean")),
        ({"ratio": "sequence"}, ("birdrl_grpo", True, "gspo", "seq-mean-token-mean")),
        ({"reward": RewardParams.model_validate({"preset": "step_wise"})},
         ("birdrl_step_wise", True, "vanilla", "token-mean")),
    ],
)  # fmt: skip
def test_advantage_and_ratio_are_what_the_parameters_say(
    params: Params, tmp_path: Path, changes: dict[str, Any], expected: tuple[object, ...]
) -> None:
    overrides = grpo_overrides(
        "rl_agentic", params.rl_agentic.model_copy(update=changes), params.engine,
        rollout_settings(params, tmp_path, tools=True), model=tmp_path, data=tmp_path, folder=tmp_path,
        settings=tmp_path, loop_config=tmp_path,
    )  # fmt: skip
    config = compose("ppo_trainer", overrides)
    actor = config.actor_rollout_ref.actor
    found = (config.algorithm.adv_estimator, config.algorithm.norm_adv_by_std_in_grpo, actor.policy_loss.loss_mode,
             actor.loss_agg_mode)  # fmt: skip
    assert found == expected


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_imitation_configuration_is_valid(params: Params, tmp_path: Path, device: str) -> None:
    engine = params.engine.model_copy(update={"device": device})
    overrides = sft_overrides(
        "sft_tools", params.sft_reasoning, engine, model=tmp_path, data=tmp_path / "it's.parquet",
        checkpoints=tmp_path / "c", steps=7,
    )  # fmt: skip
    config = compose("sft_trainer_engine", overrides)
    assert config.trainer.total_training_steps == 7
    assert config.data.train_files.endswith("it's.parquet")
    assert config.trainer.device == device


@pytest.mark.parametrize(
    ("samples", "changes", "steps"),
    [(13, {}, 3), (100, {"max_steps": None, "epochs": 2}, 50), (9, {"max_steps": 50}, 2)],
)
def test_steps(params: Params, samples: int, changes: dict[str, Any], steps: int) -> None:
    assert sft_steps(params.sft_reasoning.model_copy(update=changes), samples) == steps


def test_too_few_samples_are_an_error(params: Params) -> None:
    with pytest.raises(InputError, match="lower batch_size"):
        sft_steps(params.sft_reasoning, 3)


def test_mlflow_only_when_asked_for(params: Params, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def loggers() -> str:
        overrides = sft_overrides(
            "x", params.sft_reasoning, params.engine, model=tmp_path, data=tmp_path, checkpoints=tmp_path, steps=1
        )
        return next(o for o in overrides if o.startswith("trainer.logger="))

    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    assert "mlflow" not in loggers()
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "sqlite:///x.db")
    assert "mlflow" in loggers()


def test_small_helpers() -> None:
    assert [largest_divisor(12, n) for n in (1, 5, 8, 99)] == [1, 4, 6, 12]
    assert hydra_overrides({"a": None, "b": True, "c": ["x", 1]}) == ["a=null", "b=True", "c=['x',1]"]
    seeds = {sampling_seed(1, step, index, session, turn) for step in (1, 2) for index in (0, 1) for session in (0, 1)
             for turn in (0, 1)}  # fmt: skip
    assert len(seeds) == 16
    assert all(0 <= seed < 2**62 for seed in seeds)
