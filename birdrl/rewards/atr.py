"""The aggregated trajectory reward, ATR (SQL-ASTRA 2.3): one scalar from the scores of a trajectory's turns.

Known from the paper: improvements count +1.0 and degradations -1.5 times their size, changes below a threshold tau
count as stagnation, and with binary scores [0, 0] earns -0.10 and [1, 0] earns -0.60. The formula itself is ours; it
meets all of that:

    delta_t = r_t - r_(t-1),  r_0 = 0 (the virtual start: nothing retrieved yet)
    g_t     = up * delta_t  above tau,  -|down| * |delta_t|  below -tau,  m_stay between
    R       = sum_t g_t - step_cost * T + const

Small falls are free, so drifting down in steps below tau and jumping back would pay; `step_cost >= up * tau`, which
the parameters enforce, makes every closed cycle negative (2.3, 3: no limit cycles).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from birdrl.params import AtrParams

Direction = Literal["rise", "fall", "stay"]


@dataclass(frozen=True)
class Transition:
    """One step: its change of score, how it is classed, and what it earns before costs."""

    delta: float
    direction: Direction
    gain: float


@dataclass(frozen=True)
class AtrScore:
    """`reward` = `gain` + `cost`; `gain` is the sum over transitions, `cost` is what turns and `const` take away."""

    reward: float
    gain: float
    cost: float
    transitions: tuple[Transition, ...]


def transitions(scores: Sequence[float], params: AtrParams) -> tuple[Transition, ...]:
    """The transitions between turn scores r_1..r_T in [0, 1], with the virtual start if `params` has it."""
    levels = [0.0, *scores] if params.virtual_start else list(scores)
    return tuple(_transition(after - before, params) for before, after in pairwise(levels))


def atr(scores: Sequence[float], params: AtrParams, *, max_turns: int) -> AtrScore:
    """The reward of a trajectory whose turns scored `scores`.

    Without any score (no SQL was run or handed in) it is `params.no_action(max_turns)`.
    """
    if not scores:
        nothing = params.no_action(max_turns)
        return AtrScore(nothing, 0.0, nothing, ())
    steps = transitions(scores, params)
    gain = sum(step.gain for step in steps)
    cost = params.const - params.step_cost * len(scores)
    return AtrScore(gain + cost, gain, cost, steps)


def _transition(delta: float, params: AtrParams) -> Transition:
    if delta > params.tau:
        return Transition(delta, "rise", params.up * delta)
    if delta < -params.tau:
        return Transition(delta, "fall", params.down * -delta)
    return Transition(delta, "stay", params.m_stay)
