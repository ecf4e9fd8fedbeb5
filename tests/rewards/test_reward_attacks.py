"""Every attack of `attacks.json` under every reward: never right, never a gain."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from play import play, run, submit
from shop import OneTemplate, make_instance

from birdrl.agent.prompting import load_prompts
from birdrl.gym.instance import Instance
from birdrl.params import PEER_WEIGHTS, RewardParams
from birdrl.rewards import Blame, ExecutionScore, ExecutionScorer
from birdrl.rewards.rewarder import Outcome, Rewarder, TrajectoryReward
from birdrl.rewards.trajectory import Trajectory
from birdrl.sql import ReplicaPool

FIXTURES: dict[str, Any] = json.loads(Path(__file__).with_name("attacks.json").read_text(encoding="utf-8"))
DENSE = ["csmr", "astra", "astra_const", "symmetric"]
PRESETS = ["bird_rl", "bird_rl_strict", "bird_rl_partial", *DENSE, "step_wise", "astra_binary", *PEER_WEIGHTS]
ALPHA = 0.8


class RememberingScorer(ExecutionScorer):
    """Scores each SQL of an instance once: all rewards look at the same attack."""

    def __init__(self, templates: OneTemplate, pool: ReplicaPool) -> None:
        super().__init__(templates, pool)
        self.known: dict[tuple[str, ...], ExecutionScore] = {}

    def score(self, instance: Instance, pred_sql: Sequence[str]) -> ExecutionScore:
        key = (instance.instance_id, *pred_sql)
        if key not in self.known:
            self.known[key] = super().score(instance, pred_sql)
        return self.known[key]


@pytest.fixture(scope="module")
def rewarders(templates: OneTemplate, pool: ReplicaPool) -> dict[str, Rewarder]:
    scorer = RememberingScorer(templates, pool)
    silent = {"weights": {"judge": 0.0}}  # without a judge: its grades are no part of these attacks
    return {
        name: Rewarder(
            RewardParams.model_validate({"preset": name, **(silent if name == "reasoning_sql" else {})}),
            scorer, templates, pool, load_prompts("compact"),
        )
        for name in PRESETS
    }  # fmt: skip


def said(turn: Any) -> str:
    if isinstance(turn, str):
        return turn
    calls = turn if isinstance(turn, list) else [turn]
    return "".join(
        (run if tool == "run" else submit)(FIXTURES["words"].get(sql, sql))
        for call in calls
        for tool, sql in call.items()
    )


def told(on: str, turns: Sequence[Any], templates: OneTemplate, pool: ReplicaPool) -> Trajectory:
    instance = make_instance(instance_id=on, **FIXTURES["instances"][on])
    return play(instance, [said(turn) for turn in turns], templates, pool)


def named(key: str) -> Any:
    return pytest.mark.parametrize("attack", FIXTURES[key], ids=[attack["name"] for attack in FIXTURES[key]])


@named("attacks")
def test_an_attack_is_never_right(
    attack: dict[str, Any], rewarders: dict[str, Rewarder], templates: OneTemplate, pool: ReplicaPool
) -> None:
    trajectory = told(attack["on"], attack["turns"], templates, pool)
    hits, dense = attack.get("hits", False), attack.get("dense", False)
    for preset, rewarder in rewarders.items():
        earned = rewarder.reward(trajectory)
        assert earned.blame is Blame.POLICY, preset
        assert earned.outcome is not Outcome.SOLVED, preset
        assert earned.reward == pytest.approx(sum(earned.parts.values()))
        check(preset, earned, hits, dense)


def check(preset: str, earned: TrajectoryReward, hits: bool, dense: bool) -> None:
    if preset in ("bird_rl_strict", "astra_binary"):
        assert earned.reward <= 0, preset
    elif preset == "bird_rl":
        assert earned.reward == (0.5 if hits else 0.0), "Eq. 5 pays for the unperturbed test, and for no other"
    elif preset == "bird_rl_partial":
        assert earned.reward <= (0.5 if hits else 0.2)
    elif preset == "step_wise":  # pays each turn for itself, whatever follows: the ablation's known weakness
        assert earned.turn_rewards[-1] <= (ALPHA if dense else 0.0)
    elif preset in DENSE:
        assert earned.reward <= (ALPHA if dense else 0.0), preset
    else:
        assert earned.parts.get(f"{preset}/result", 0.0) <= 0, preset


@named("farming")
def test_more_turns_never_earn_more(
    attack: dict[str, Any], rewarders: dict[str, Rewarder], templates: OneTemplate, pool: ReplicaPool
) -> None:
    farming = told(attack["on"], attack["turns"], templates, pool)
    honest = told(attack["on"], attack["instead_of"], templates, pool)
    assert farming.blame in (Blame.NONE, Blame.POLICY), "slowness of its own is not the machine's fault"
    for preset in ("bird_rl", "bird_rl_strict", "csmr", "astra", "astra_const", "astra_binary", "symmetric"):
        rewarder = rewarders[preset]
        assert rewarder.reward(farming).reward <= rewarder.reward(honest).reward + 1e-9, preset


@pytest.mark.parametrize("name", FIXTURES["instances"])
def test_the_solution_is_right_and_the_issue_is_not(
    name: str, rewarders: dict[str, Rewarder], templates: OneTemplate, pool: ReplicaPool
) -> None:
    """The attacks fail for what they are, not because nothing passes."""
    fixture = FIXTURES["instances"][name]
    solution = told(name, [{"submit": ";".join(fixture["sol_sql"])}], templates, pool)
    issue = told(name, [{"submit": ";".join(fixture["issue_sql"])}], templates, pool)
    for preset, rewarder in rewarders.items():
        right, wrong = rewarder.reward(solution), rewarder.reward(issue)
        assert right.outcome is Outcome.SOLVED, preset
        assert right.blame is Blame.NONE
        assert wrong.outcome is not Outcome.SOLVED, preset
        assert wrong.reward < right.reward, preset
    assert rewarders["bird_rl"].reward(solution).reward == rewarders["csmr"].reward(solution).reward == 1.0
    assert rewarders["astra"].reward(solution).reward == pytest.approx(0.95)


def test_every_fixture_name_is_used_once() -> None:
    names = [attack["name"] for key in ("attacks", "farming") for attack in FIXTURES[key]]
    assert len(names) == len(set(names))
    assert {attack["on"] for key in ("attacks", "farming") for attack in FIXTURES[key]} == set(FIXTURES["instances"])
