"""Energy along trajectories and the distribution of rewards."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from birdrl.params import AtrParams
from birdrl.rewards.atr import atr
from birdrl.rewards.diagnostics import energy, energy_report, reward_distribution


def test_energy_is_what_is_missing() -> None:
    found = energy([0.2, 0.6, 0.6, 1.0])
    assert found.levels == pytest.approx((1.0, 0.8, 0.4, 0.4, 0.0))
    assert (found.dissipating, found.rising, found.cycles, found.steps) == (3, 0, 0, 4)
    assert found.monotone
    assert found.dissipated == 1.0


def test_cycles_close_where_a_level_is_reached_again() -> None:
    assert energy([0.5, 1, 0.5]).cycles == 1
    assert energy([1, 0]).cycles == 1, "back at the start"
    assert energy([0, 1, 0, 1, 0]).cycles == 3
    assert energy([0.5, 0.5, 0.5]).cycles == 0, "staying is no cycle"
    assert energy([0.5, 0.53, 0.5], tau=0.05).cycles == 0


def test_small_changes_are_no_steps() -> None:
    assert energy([0.5, 0.46], tau=0.05).rising == 0
    assert energy([0.5, 0.4], tau=0.05).rising == 1


def test_a_report_over_trajectories() -> None:
    report = energy_report([[0.5, 1.0], [1.0, 0.0], []])
    assert report["trajectories"] == 3
    assert report["steps"] == 4
    assert report["dissipating_share"] == 0.75
    assert report["rising_share"] == 0.25
    assert report["monotone_share"] == pytest.approx(2 / 3)
    assert report["cycles"] == report["trajectories_with_cycles"] == 1
    assert report["mean_dissipated"] == pytest.approx(1 / 3)
    assert report["mean_energy_by_turn"] == pytest.approx([1.0, (0.5 + 0 + 1) / 3, (0 + 1 + 1) / 3])
    assert energy_report([])["dissipating_share"] is None


def test_the_papers_share_of_partial_credit() -> None:
    """4.1: of 1,000 answers 525 are not right, and 137 of all carry partial credit."""
    found = reward_distribution([1.0] * 475 + [0.4] * 137 + [0.0] * 388)
    assert (found.right, found.partial, found.nothing) == (0.475, 0.137, 0.388)
    assert found.partial_of_not_right == pytest.approx(137 / 525)
    assert reward_distribution([1.0]).partial_of_not_right == 0.0


@pytest.mark.parametrize("values", [[], [1.2], [-0.1]])
def test_a_distribution_is_of_values_between_0_and_1(values: list[float]) -> None:
    with pytest.raises(ValueError, match=r"no answer|outside"):
        reward_distribution(values)


SCORES = st.lists(st.floats(0, 1), max_size=6)


@given(SCORES)
def test_energy_is_never_negative_and_zero_only_when_right(scores: list[float]) -> None:
    levels = energy(scores).levels
    assert all(0 <= level <= 1 for level in levels)
    assert all(
        (level == 0) == (score == 1)
        for level, score in zip(levels[1:], scores, strict=True)
        if score < 1e-9 or score == 1
    )


@given(SCORES.filter(bool))
def test_a_trajectory_without_cycles_or_rises_keeps_what_it_dissipates(scores: list[float]) -> None:
    """With no dead zone, ATR of a monotone path is the dissipated energy less the cost of its turns."""
    params = AtrParams.model_validate({"tau": 0.0})
    path = energy(sorted(scores))
    assert path.monotone
    assert path.cycles == 0
    assert atr(sorted(scores), params, max_turns=6).reward == pytest.approx(path.dissipated - 0.05 * len(scores))
