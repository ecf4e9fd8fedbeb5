"""Trajectory aggregation: the paper's anchors, every computed value, and that no cycle pays."""

from __future__ import annotations

import itertools
import os
from collections import defaultdict
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from birdrl.errors import InputError
from birdrl.params import PRESETS, AtrParams, RewardParams, validate_params
from birdrl.rewards.atr import atr, transitions

CYCLES = int(os.environ.get("BIRDRL_CYCLES", "100"))  # 200000 for the size of the derivation's own check


def preset(name: str, **changes: Any) -> AtrParams:
    return RewardParams.model_validate({"preset": name, "atr": changes}).atr


ASTRA, CONST, SYMMETRIC = preset("astra"), preset("astra_const"), preset("symmetric")


def reward(scores: list[float], params: AtrParams = ASTRA) -> float:
    return atr(scores, params, max_turns=3).reward


def test_the_papers_anchors() -> None:
    assert reward([0, 0]) == pytest.approx(-0.10)
    assert reward([1, 0]) == pytest.approx(-0.60)


@pytest.mark.parametrize(
    ("scores", "value"),
    [
        ([0], -0.05), ([1], 0.95), ([0, 0], -0.10), ([0, 1], 0.90), ([1, 0], -0.60), ([1, 1], 0.90),
        ([0, 0, 0], -0.15), ([0, 0, 1], 0.85), ([0, 1, 0], -0.65), ([0, 1, 1], 0.85), ([1, 0, 0], -0.65),
        ([1, 0, 1], 0.35), ([1, 1, 0], -0.65), ([1, 1, 1], 0.85),
        ([0.2, 0.4, 0.8], 0.65), ([0, 0.4, 0.8], 0.65), ([0.2, 0.6, 1], 0.85), ([0.4, 0.8, 0.4], 0.05),
        ([0.4, 0.4, 0.4], 0.25), ([0.8, 0.4, 0.8], 0.45), ([0.8, 0.8, 0.8], 0.65), ([0, 0, 0.8], 0.65),
        ([0.8, 0.4, 0], -0.55),
    ],
)  # fmt: skip
def test_values_of_the_default(scores: list[float], value: float) -> None:
    assert reward(scores) == pytest.approx(value)


@pytest.mark.parametrize(
    ("params", "values"),
    [
        (ASTRA, [-0.10, -0.60, 0.90, 0.90, 0.95]),
        (CONST, [-0.10, -0.60, 0.90, 0.90, 0.90]),
    ],
)
def test_presets_agree_on_the_anchors(params: AtrParams, values: list[float]) -> None:
    assert [reward(scores, params) for scores in ([0, 0], [1, 0], [0, 1], [1, 1], [1])] == pytest.approx(values)


def test_the_symmetric_preset_only_costs_its_turns_in_a_cycle() -> None:
    assert reward([0, 1, 0], SYMMETRIC) == pytest.approx(-0.15)
    assert reward([0, 1, 0]) < reward([0, 1, 0], SYMMETRIC)


def test_without_a_start_and_a_cost_the_anchors_do_not_hold() -> None:
    """The plain sum over transitions, which the configuration refuses, is not what the paper reports."""
    plain = ASTRA.model_copy(update={"virtual_start": False, "step_cost": 0.0})
    assert [reward(s, plain) for s in ([0, 0], [1, 0], [0, 1], [1, 1], [1])] == [0, -1.5, 1, 0, 0]


def test_a_fall_weighs_more_than_a_rise() -> None:
    assert ASTRA.up < -ASTRA.down
    assert SYMMETRIC.up == -SYMMETRIC.down


def shape(scores: tuple[float, ...]) -> str:
    first, second = ((b > a) - (b < a) for a, b in itertools.pairwise(scores))
    names = {
        (1, 1): "mono-increase", (1, 0): "increase-plateau", (0, 1): "plateau-increase", (0, 0): "stagnation",
        (-1, 1): "fall-rise", (1, -1): "rise-fall", (-1, 0): "dec-plateau", (0, -1): "plateau-dec",
        (-1, -1): "mono-decrease",
    }  # fmt: skip
    return names[first, second]


def test_shapes_of_three_turns() -> None:
    """Section 4.2: steady improvement has the highest mean of all shapes."""
    by_shape: dict[str, list[float]] = defaultdict(list)
    for scores in itertools.product([0, 0.2, 0.4, 0.6, 0.8, 1], repeat=3):
        by_shape[shape(scores)].append(reward(list(scores)))
    means = {name: round(sum(found) / len(found), 3) for name, found in by_shape.items()}
    assert means == {
        "mono-increase": 0.700, "increase-plateau": 0.583, "plateau-increase": 0.583, "stagnation": 0.350,
        "fall-rise": 0.286, "rise-fall": -0.095, "dec-plateau": -0.117, "plateau-dec": -0.117, "mono-decrease": -0.350,
    }  # fmt: skip
    assert {name: len(found) for name, found in by_shape.items()} == {
        "mono-increase": 20, "increase-plateau": 15, "plateau-increase": 15, "stagnation": 6, "fall-rise": 55,
        "rise-fall": 55, "dec-plateau": 15, "plateau-dec": 15, "mono-decrease": 20,
    }  # fmt: skip
    assert max(means, key=means.__getitem__) == "mono-increase"


def test_doing_nothing_is_worse_than_three_fruitless_turns() -> None:
    assert reward([]) == pytest.approx(-0.20)
    assert reward([]) < reward([0, 0, 0])
    assert reward([], CONST) < reward([0, 0, 0], CONST)
    assert atr([], ASTRA, max_turns=10).reward < atr([0] * 10, ASTRA, max_turns=10).reward


def test_without_the_virtual_start_the_first_score_is_free() -> None:
    assert reward([0.6, 0.8], preset("astra", virtual_start=False)) == pytest.approx(0.2 - 0.1)


def test_transitions_are_classed_by_tau() -> None:
    steps = transitions([0.05, 0.5, 0.45, 0.3], ASTRA)
    assert [step.direction for step in steps] == ["stay", "rise", "stay", "fall"]
    assert steps[3].gain == pytest.approx(-1.5 * 0.15)
    assert transitions([0.0], preset("astra", m_stay=-0.02))[0].gain == -0.02


# --- properties

SCORES = st.floats(0, 1)
SOME = settings(max_examples=CYCLES)


@SOME
@given(st.lists(SCORES, min_size=1, max_size=6), SCORES)
def test_no_closed_cycle_pays(path: list[float], start: float) -> None:
    """Coming back to where it was never earns more than having stayed there (2.3, 3)."""
    cycle = [start, *path, start]
    assert reward(cycle) < reward([start])
    moved = max(abs(score - start) for score in path)
    assert reward(cycle, CONST) < reward([start], CONST) + (1e-9 if moved < 1e-6 else 0.0)


@SOME
@given(st.lists(SCORES, min_size=1, max_size=6), SCORES)
def test_what_a_closed_cycle_earns(path: list[float], start: float) -> None:
    """Without a dead zone half of its rise is lost, beside its turns; nothing is where both entries are equal."""
    levels = [start, *path, start]
    rise = sum(max(after - before, 0.0) for before, after in itertools.pairwise(levels))
    for down, lost in ((-1.5, 0.5), (-1.0, 0.0)):
        exact = preset("astra", tau=0.0, down=down)
        assert reward(levels, exact) - reward([start], exact) == pytest.approx(-lost * rise - 0.05 * (len(path) + 1))


@SOME
@given(SCORES, SCORES, SCORES)
def test_in_three_turns_two_thirds_of_a_dead_zone_are_cost_enough(a: float, b: float, start: float) -> None:
    """Which only a limit of three turns makes so; the configuration asks for what holds with any number."""
    short = ASTRA.model_copy(update={"step_cost": 1.001 * 2 / 3 * ASTRA.tau})
    assert reward([start, a, b, start], short) < reward([start], short)


def test_where_two_thirds_of_a_dead_zone_are_not_enough() -> None:
    falls = [1 - 0.0499 * fall for fall in range(5)]
    short = ASTRA.model_copy(update={"step_cost": 1.001 * 2 / 3 * ASTRA.tau})
    assert reward([*falls, 1.0], short) > reward([1.0], short), "in five turns"
    less = ASTRA.model_copy(update={"step_cost": 0.99 * 2 / 3 * ASTRA.tau})
    assert reward([*falls[:3], 1.0], less) > reward([1.0], less), "a little less, in three"


@SOME
@given(st.lists(st.floats(0, 0.05), min_size=1, max_size=8), st.floats(0.4, 1))
def test_drifting_down_in_small_steps_and_jumping_back_does_not_pay(falls: list[float], start: float) -> None:
    path = list(itertools.accumulate(falls, lambda level, fall: level - fall, initial=start))
    assert reward([*path, start]) < reward([start])


@SOME
@given(st.lists(SCORES, min_size=1, max_size=6))
def test_a_turn_that_changes_nothing_costs_exactly_a_turn(scores: list[float]) -> None:
    assert reward([*scores, scores[-1]]) == pytest.approx(reward(scores) - ASTRA.step_cost)


@SOME
@given(st.lists(SCORES, max_size=6), st.sampled_from([ASTRA, CONST, SYMMETRIC]))
def test_bounds(scores: list[float], params: AtrParams) -> None:
    score = atr(scores, params, max_turns=6 if params is not CONST else 3)
    assert score.reward <= 1.0
    assert score.reward > -len(scores) * (1.5 + 0.05) - 0.4
    assert score.reward == score.gain + score.cost


@SOME
@given(st.lists(SCORES, min_size=1, max_size=6), SCORES, SCORES)
def test_a_better_end_never_earns_less(scores: list[float], a: float, b: float) -> None:
    """Up to the dead zone, in which a rise is not seen: the loss is below up * tau."""
    low, high = sorted((a, b))
    assert reward([*scores, high]) >= reward([*scores, low]) - ASTRA.tau - 1e-9


@SOME
@given(st.lists(st.floats(0.06, 0.2), min_size=1, max_size=5))
def test_a_steady_rise_earns_the_energy_it_dissipates(rises: list[float]) -> None:
    """V_0 - V_T - c T with V = 1 - r, where every step is beyond the dead zone."""
    scores = list(itertools.accumulate(rises))
    assert reward(scores) == pytest.approx(scores[-1] - 0.05 * len(scores))


def test_fruitless_turns_cost_more_and_more() -> None:
    values = [reward([0] * turns) for turns in range(1, 6)]
    assert values == sorted(values, reverse=True)
    assert len(set(values)) == 5


# --- configuration


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"step_cost": 0.04}, "step_cost must be at least"),
        ({"tau": 0.1}, "step_cost must be at least"),
        ({"up": 1.4}, "step_cost must be at least"),
        ({"m_stay": 0.01}, "step_cost must be at least"),
        ({"down": -0.9}, "oscillating pays"),
    ],
)
def test_constants_under_which_a_cycle_pays_are_refused(changes: dict[str, float], named: str) -> None:
    with pytest.raises(ValueError, match=named):
        AtrParams.model_validate(changes)


@pytest.mark.parametrize("name", ["up", "down", "m_stay", "tau", "step_cost", "const", "no_action_reward"])
@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_every_constant_is_a_number(name: str, value: float) -> None:
    with pytest.raises(ValueError, match=name):
        AtrParams.model_validate({name: value})


def test_the_loophole_that_the_check_closes() -> None:
    """Without it ten free falls and one jump would earn half a point."""
    loose = AtrParams.model_construct(**{**ASTRA.model_dump(), "step_cost": 0.0})
    path = [1 - 0.0499 * fall for fall in range(11)]
    assert reward([*path, 1.0], loose) > reward([1.0], loose) + 0.49


def test_every_preset_is_valid_and_a_given_field_wins() -> None:
    endpoint = {"url": "http://127.0.0.1:9/v1", "model": "m"}
    for name, values in PRESETS.items():
        params = RewardParams.model_validate({"preset": name, "endpoint": endpoint})
        assert params.kind == values["kind"]
        assert RewardParams.model_validate_json(params.model_dump_json()) == params
    changed = RewardParams.model_validate({"preset": "astra_const", "atr": {"const": -0.2, "no_action_reward": -0.3}})
    assert (changed.atr.const, changed.atr.step_cost) == (-0.2, 0.0)


@pytest.mark.parametrize(
    ("reward_values", "named"),
    [
        ({"preset": "astra", "auxiliary": "partial"}, "auxiliary 'partial' goes with kind 'execution' only"),
        ({"preset": "arctic", "weights": {"judge": 1}}, "'arctic' has no term 'judge'; its terms are: result"),
        ({"preset": "bird_rl", "weights": {"result": 1}}, "'execution' has no term 'result'; its terms are: none"),
        ({"preset": "bird_rl_judge"}, "give endpoint.url and endpoint.model"),
        ({"preset": "reasoning_sql"}, "give endpoint.url and endpoint.model"),
        ({"preset": "sky"}, "preset"),
        ({"preset": "astra", "atr": {"no_action_reward": -0.2}}, "-0.2, not below the -0.25 that 5 fruitless turns"),
    ],
)
def test_a_wrong_configuration_names_what_is_wrong(reward_values: dict[str, Any], named: str) -> None:
    sections = "templates gym audit quality distill_reasoning distill_trajectories policy_init sft_reasoning sft_tools"
    values: dict[str, Any] = {name: {} for name in f"{sections} evaluate report".split()}
    values["gym"] = {"train_instances": 1, "eval_instances": 1}
    values["policy_init"] = {"source": "nano"}
    values["rl_reasoning"] = {"steps": 1}
    values["rl_agentic"] = {"steps": 1, "reward": reward_values}
    with pytest.raises(InputError) as caught:
        validate_params(values, "params.yaml")
    assert named in str(caught.value)
    assert str(caught.value).startswith("params.yaml: ")
