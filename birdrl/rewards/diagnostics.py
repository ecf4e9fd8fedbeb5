"""Two views of what trajectories earned: their energy (SQL-ASTRA 2.3) and the distribution of rewards (4.1).

The energy of a state is V = 1 - Phi, with Phi its CSMR in [0, 1]: V >= 0, and V = 0 exactly when the answer is
right. A trajectory starts at V = 1, nothing retrieved. A step that lowers V dissipates energy; a trajectory without
cycles never comes back to a level that it left.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any


@dataclass(frozen=True)
class Energy:
    """Energy along one trajectory: `levels` V_0..V_T, numbers of steps that lower it and raise it, closed cycles."""

    levels: tuple[float, ...]
    dissipating: int
    rising: int
    cycles: int

    @property
    def steps(self) -> int:
        return len(self.levels) - 1

    @property
    def dissipated(self) -> float:
        """V_0 - V_T, in [0, 1]."""
        return self.levels[0] - self.levels[-1]

    @property
    def monotone(self) -> bool:
        """Whether no step raised the energy."""
        return self.rising == 0


def energy(scores: Sequence[float], *, tau: float = 0.0) -> Energy:
    """The energy along turn scores r_1..r_T; changes of at most `tau` are neither rises nor falls.

    A cycle closes at a step that comes within `tau` of a level that the trajectory stood at and left.
    """
    levels = (1.0, *(1.0 - score for score in scores))
    changes = [after - before for before, after in pairwise(levels)]
    return Energy(
        levels,
        dissipating=sum(change < -tau for change in changes),
        rising=sum(change > tau for change in changes),
        cycles=sum(_closes_a_cycle(levels[: end + 1], tau) for end in range(2, len(levels))),
    )


def energy_report(trajectories: Iterable[Sequence[float]], *, tau: float = 0.0) -> dict[str, Any]:
    """Figures over the turn scores of any set of trajectories: shares of steps and of trajectories.

    Shares are None where there is nothing to divide by.
    """
    found = [energy(scores, tau=tau) for scores in trajectories]
    steps = sum(one.steps for one in found)
    return {
        "trajectories": len(found),
        "steps": steps,
        "dissipating_share": _share(sum(one.dissipating for one in found), steps),
        "rising_share": _share(sum(one.rising for one in found), steps),
        "monotone_share": _share(sum(one.monotone for one in found), len(found)),
        "cycles": sum(one.cycles for one in found),
        "trajectories_with_cycles": sum(one.cycles > 0 for one in found),
        "mean_dissipated": _share(sum(one.dissipated for one in found), len(found)),
        "mean_energy_by_turn": _mean_by_turn([one.levels for one in found]),
    }


@dataclass(frozen=True)
class RewardDistribution:
    """Shares of a policy's answers (SQL-ASTRA 4.1): fully right, with partial credit, without any."""

    answers: int
    right: float
    partial: float
    nothing: float
    partial_of_not_right: float

    def row(self) -> dict[str, Any]:
        return asdict(self)


def reward_distribution(values: Iterable[float]) -> RewardDistribution:
    """The distribution of final values in [0, 1]. Raises ValueError for none or for a value outside."""
    found = list(values)
    if not found:
        raise ValueError("no answer to take a distribution of")
    if not all(0.0 <= value <= 1.0 for value in found):
        raise ValueError("a value outside [0, 1]; a distribution is of CSMR or test pass rates, not of shaped rewards")
    right = sum(value == 1.0 for value in found)
    partial = sum(0.0 < value < 1.0 for value in found)
    wrong = len(found) - right
    return RewardDistribution(
        len(found),
        right / len(found),
        partial / len(found),
        (wrong - partial) / len(found),
        partial / wrong if wrong else 0.0,
    )


def _closes_a_cycle(levels: Sequence[float], tau: float) -> bool:
    end = levels[-1]
    if abs(levels[-2] - end) <= tau:  # it stays where it came back to
        return False
    return any(abs(level - end) <= tau for level in levels[:-2])


def _mean_by_turn(paths: Sequence[Sequence[float]]) -> list[float]:
    """Mean energy at the start and after each turn; a trajectory that ended stays at its last level."""
    longest = max((len(path) for path in paths), default=0)
    return [sum(path[min(turn, len(path) - 1)] for path in paths) / len(paths) for turn in range(longest)]


def _share(part: float, whole: int) -> float | None:
    return part / whole if whole else None
