"""The registered estimators, and the engine's own loss on top of them, against an independent reference."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from birdrl.params import Params
from birdrl.training.recipes import grpo_overrides
from birdrl.training.rollout_settings import RolloutSettings
from training import grpo_reference as reference
from training.grpo_reference import Sample

pytest.importorskip("verl")
from tensordict import TensorDict
from verl.trainer.ppo.core_algos import compute_grpo_outcome_advantage, get_adv_estimator_fn, kl_penalty
from verl.utils import tensordict_utils as tu
from verl.utils.config import omega_conf_to_dataclass
from verl.workers.utils.losses import ppo_loss

from birdrl.training.advantage import EPSILON, GRPO, STEP_WISE

PROMPT = 2  # tokens before the response
QUICK = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


class Engine:
    """verl's configuration as the recipe writes it, and verl's own functions on it."""

    def __init__(self, params: Params, folder: Path, **rl: Any) -> None:
        from hydra import compose, initialize_config_module

        training = params.rl_agentic.model_copy(update=rl)
        rollout = RolloutSettings(
            agent=params.agent, tools=True, templates="x", seed=0, group_size=training.group_size,
            prompts_per_step=training.prompts_per_step, max_failure_share=0.0, log="x", reward=training.reward,
        )  # fmt: skip
        overrides = grpo_overrides(
            "rl_agentic", training, params.engine, rollout, model=folder, data=folder, folder=folder,
            settings=folder, loop_config=folder,
        )  # fmt: skip
        with initialize_config_module("verl.trainer.config", version_base=None):
            config = compose("ppo_trainer", [o for o in overrides if not o.startswith("hydra.")])
        self.algorithm = config.algorithm
        self.actor = omega_conf_to_dataclass(config.actor_rollout_ref.actor)

    def advantages(self, samples: list[Sample]) -> torch.Tensor:
        """Shape (samples, tokens): the reward stands on the last token, as verl's agent loop puts it."""
        mask = padded([sample.mask for sample in samples], torch.int64)
        rewards = torch.zeros(mask.shape, dtype=torch.float64)
        for row, sample in enumerate(samples):
            rewards[row, len(sample.mask) - 1] = sample.reward
        index = np.array([sample.group for sample in samples], dtype=object)
        estimator = get_adv_estimator_fn(self.algorithm.adv_estimator)
        found, returns = estimator(token_level_rewards=rewards, response_mask=mask, index=index, config=self.algorithm)
        assert torch.equal(found, returns)
        return found

    def loss(self, samples: list[Sample]) -> tuple[float, list[list[float]]]:
        """verl's loss, and its derivative by every token's log-probability."""
        advantages = self.advantages(samples)
        now = [torch.tensor(sample.now, dtype=torch.float64, requires_grad=True) for sample in samples]
        # The model's output at a place is about the next token: shifted left by one, over prompt and response.
        outputs = [torch.cat([torch.zeros(PROMPT - 1), row, torch.zeros(1)]) for row in now]
        lengths = [len(sample.mask) for sample in samples]
        data = TensorDict(
            {
                "prompts": nested([torch.ones(PROMPT, dtype=torch.int64)] * len(samples)),
                "responses": nested([torch.ones(length, dtype=torch.int64) for length in lengths]),
                "response_mask": nested([torch.tensor(sample.mask) for sample in samples]),
                "old_log_probs": nested([torch.tensor(sample.old, dtype=torch.float64) for sample in samples]),
                "ref_log_prob": nested([torch.tensor(sample.ref, dtype=torch.float64) for sample in samples]),
                "advantages": nested([advantages[row, :length] for row, length in enumerate(lengths)]),
            },
            batch_size=len(samples),
        )
        tu.assign_non_tensor(data, dp_size=1, batch_num_tokens=None, global_batch_size=None)
        loss, _ = ppo_loss(self.actor, {"log_probs": nested(outputs)}, data)
        loss.backward()
        return loss.item(), [row.grad.tolist() for row in now]


def padded(rows: list[Any], dtype: torch.dtype) -> torch.Tensor:
    return torch.nn.utils.rnn.pad_sequence([torch.tensor(row, dtype=dtype) for row in rows], batch_first=True)


def nested(rows: list[torch.Tensor]) -> torch.Tensor:
    return torch.nested.as_nested_tensor(rows, layout=torch.jagged)


def batch(seed: int, *, failed: bool = True) -> list[Sample]:
    """Groups of one to four trajectories with two turns each and an observation between; some failed."""
    rng = random.Random(seed)
    samples = []
    for group in range(rng.randint(1, 3)):
        for _ in range(rng.randint(1, 4)):
            turns = [rng.randint(1, 3) for _ in range(3)]
            mask = (1,) * turns[0] + (0,) * turns[1] + (1,) * turns[2]
            if failed and rng.random() < 0.2:
                mask = (0,) * len(mask)
            old = [rng.uniform(-3, -0.1) for _ in mask]
            samples.append(
                Sample(
                    f"group-{group}", rng.choice([0.0, 0.25, 1.0, -0.6]), mask,
                    tuple(value + rng.uniform(-0.5, 0.5) for value in old), tuple(old),
                    tuple(value + rng.uniform(-0.5, 0.5) for value in old),
                )
            )  # fmt: skip
    if not any(sample.valid for sample in samples):
        samples[0] = replace(samples[0], mask=(1,) * len(samples[0].mask))
    return samples


@pytest.fixture(scope="module")
def engines(params: Params, tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[bool, str], Engine]:
    folder = tmp_path_factory.mktemp("engine")
    return {
        (std, ratio): Engine(params, folder, normalise_std=std, ratio=ratio, kl_coef=0.05)
        for std in (True, False)
        for ratio in ("token", "sequence")
    }


@pytest.mark.parametrize("ratio", ["token", "sequence"])
@pytest.mark.parametrize("std", [True, False])
@QUICK
@given(seed=st.integers(0, 10**9))
def test_loss_and_gradient_are_those_of_the_reference(
    engines: dict[tuple[bool, str], Engine], std: bool, ratio: str, seed: int
) -> None:
    samples, engine = batch(seed), engines[std, ratio]
    kind = {"normalise_std": std, "ratio": ratio, "epsilon": 0.2, "beta": 0.05}
    loss, gradient = engine.loss(samples)
    assert loss == pytest.approx(reference.loss(samples, **kind), abs=1e-9)
    for ours, theirs in zip(gradient, reference.gradient(samples, **kind), strict=True):
        assert ours == pytest.approx(theirs, abs=1e-5)


@pytest.mark.parametrize("ratio", ["token", "sequence"])
@QUICK
@given(seed=st.integers(0, 10**9), noise=st.floats(-5, 5))
def test_what_the_environment_said_does_not_change_the_loss(
    engines: dict[tuple[bool, str], Engine], ratio: str, seed: int, noise: float
) -> None:
    """Masked tokens: any log-probabilities, under any of the three policies, leave loss and gradient as they are."""
    samples, engine = batch(seed), engines[True, ratio]
    rng = random.Random(seed)

    def other(sample: Sample, values: tuple[float, ...]) -> tuple[float, ...]:
        return tuple(
            value if sampled else -abs(noise) * rng.random() for value, sampled in zip(values, sample.mask, strict=True)
        )

    changed = [replace(s, now=other(s, s.now), old=other(s, s.old), ref=other(s, s.ref)) for s in samples]
    before, after = engine.loss(samples), engine.loss(changed)
    assert before == after, "to the last bit"
    for sample, row in zip(samples, after[1], strict=True):
        assert all(slope == 0 for slope, sampled in zip(row, sample.mask, strict=True) if not sampled)


@QUICK
@given(seed=st.integers(0, 10**9), reward=st.floats(-100, 100))
def test_a_failed_sample_leaves_its_group(engines: dict[tuple[bool, str], Engine], seed: int, reward: float) -> None:
    engine, samples = engines[True, "token"], batch(seed, failed=False)
    failed = replace(samples[0], mask=(0,) * len(samples[0].mask), reward=reward)
    width = max(len(sample.mask) for sample in samples)
    alone = torch.nn.functional.pad(engine.advantages(samples), (0, width - max(len(s.mask) for s in samples)))
    together = engine.advantages([*samples, failed])
    assert torch.equal(together[:-1], alone)
    assert not together[-1].any()


@QUICK
@given(seed=st.integers(0, 10**9))
def test_full_groups_get_the_engines_own_numbers(engines: dict[tuple[bool, str], Engine], seed: int) -> None:
    """The default's results are those of verl's `grpo` where nothing failed and nobody is alone."""
    rng = random.Random(seed)
    rewards = torch.zeros(8, 5)
    rewards[:, -1] = torch.tensor([rng.choice([0.0, 0.5, 1.0, rng.random()]) for _ in range(8)])
    mask = torch.tensor([[1, 1, 0, 1, 1]] * 8)
    index = np.array(["a", "b"] * 4, dtype=object)
    for std in (True, False):
        theirs, _ = compute_grpo_outcome_advantage(
            rewards.clone(), mask, index, epsilon=EPSILON, norm_adv_by_std_in_grpo=std
        )
        algorithm = engines[std, "token"].algorithm
        ours, _ = get_adv_estimator_fn(GRPO)(
            token_level_rewards=rewards, response_mask=mask, index=index, config=algorithm
        )
        assert torch.equal(ours, theirs)


def simple(engine: Engine, rewards: list[float]) -> list[float]:
    return engine.advantages([Sample("g", reward, (1,), (0.0,), (0.0,), (0.0,)) for reward in rewards])[:, 0].tolist()


def test_worked_examples(engines: dict[tuple[bool, str], Engine]) -> None:
    with_std, without = engines[True, "token"], engines[False, "token"]
    assert simple(with_std, [1, 0, 0, 0]) == pytest.approx([1.5, -0.5, -0.5, -0.5], abs=1e-4)
    assert simple(with_std, [1, 0.5, 0, 0]) == pytest.approx([1.3056, 0.2611, -0.7833, -0.7833], abs=1e-4)
    assert simple(with_std, [0.5] * 4) == [0, 0, 0, 0]
    assert simple(without, [1, 0, 0, 0]) == pytest.approx([0.75, -0.25, -0.25, -0.25])
    assert simple(with_std, [1.0]) == [0.0], "nothing to be relative to"


@pytest.mark.parametrize(
    ("drift", "penalty"), [(0, 0), (0.1, 0.005171), (-0.1, 0.004837), (0.5, 0.148721), (30, 10), (-30, 10)]
)
def test_the_divergence_of_the_default(engines: dict[tuple[bool, str], Engine], drift: float, penalty: float) -> None:
    """k3 of ref_logp - logp, as the recipe chooses it; the engine cuts it off at 10."""
    kind = engines[True, "token"].actor.kl_loss_type
    found = kl_penalty(torch.zeros(1), torch.tensor([float(drift)]), kind)
    assert found.item() == pytest.approx(penalty, abs=1e-6)


def test_the_engines_own_estimator_counts_what_failed() -> None:
    """Which is why there is one of ours."""
    rewards, mask = torch.tensor([[1.0], [0.5], [0.0]]), torch.tensor([[1], [1], [0]])
    index = np.array(["g"] * 3, dtype=object)
    theirs, _ = compute_grpo_outcome_advantage(rewards.clone(), mask, index)
    ours, _ = get_adv_estimator_fn(GRPO)(token_level_rewards=rewards, response_mask=mask, index=index)
    assert theirs[:, 0].tolist() == pytest.approx([1.0, 0.0, 0.0], abs=1e-4)
    assert ours[:, 0].tolist() == pytest.approx([0.7071, -0.7071, 0.0], abs=1e-4)


def test_a_reward_that_is_no_number_is_an_error() -> None:
    with pytest.raises(ValueError, match="not a finite number"):
        get_adv_estimator_fn(GRPO)(
            token_level_rewards=torch.tensor([[float("nan")], [1.0]]), response_mask=torch.ones(2, 1), index=["g", "g"]
        )


def test_step_wise_rewards_stay_in_their_turns() -> None:
    mask = torch.tensor([[1, 1, 0, 0, 1, 0, 1, 1], [0, 0, 0, 0, 0, 0, 0, 0], [1, 0, 1, 1, 1, 0, 0, 0]])
    rewards = torch.tensor(
        [[0, 0.2, 0, 0, -0.5, 0, 0, 1], [0, 0, 0, 9, 0, 0, 0, 0], [0.3, 0, 0, 0, 0.4, 0, 0, 0]], dtype=torch.float32
    )
    found, _ = get_adv_estimator_fn(STEP_WISE)(token_level_rewards=rewards, response_mask=mask, index=["a", "a", "a"])
    expected = [[0.2, 0.2, 0, 0, -0.5, 0, 1, 1], [0.0] * 8, [0.3, 0, 0.4, 0.4, 0.4, 0, 0, 0]]
    assert torch.equal(found, torch.tensor(expected, dtype=torch.float32))
