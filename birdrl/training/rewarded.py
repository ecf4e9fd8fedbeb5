"""A trajectory's reward in the engine's form: the output that is trained on, and the record that is kept of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from verl.experimental.agent_loop.agent_loop import AgentLoopOutput

from birdrl.rewards.rewarder import TrajectoryReward


class TurnRewardedOutput(AgentLoopOutput):  # type: ignore[misc]
    """An output whose turns are rewarded one by one: each reward stands on the last token of its turn."""

    turn_rewards: list[tuple[int, float]]

    def as_dict(self) -> dict[str, Any]:
        output: dict[str, Any] = super().as_dict()
        scores = output["rm_scores"]
        scores.zero_()
        for place, reward in output.pop("turn_rewards"):
            scores[place] = reward
        return output


def rewarded_output(earned: TrajectoryReward | None, **fields: Any) -> AgentLoopOutput:
    """The engine's output with the reward put where it belongs; `fields` are those of an AgentLoopOutput.

    Without a reward the engine asks its own reward function.
    """
    if earned is None:
        return AgentLoopOutput(**fields)
    if not earned.turn_rewards:
        return AgentLoopOutput(reward_score=earned.reward, **fields)
    turns = list(zip(turn_ends(fields["response_mask"]), earned.turn_rewards, strict=True))
    return TurnRewardedOutput(reward_score=earned.reward, turn_rewards=turns, **fields)


def turn_ends(mask: Sequence[int]) -> list[int]:
    """Where each run of sampled tokens ends: an observation stands between any two turns."""
    return [place for place, sampled in enumerate(mask) if sampled and not any(mask[place + 1 : place + 2])]


def reward_record(earned: TrajectoryReward) -> dict[str, Any]:
    """What a stage's log keeps of a reward."""
    return {
        "blame": earned.blame.value,
        "reward": earned.reward,
        "parts": dict(earned.parts),
        "outcome": earned.outcome.value,
        "solved": earned.execution.solved,
        "passed": earned.execution.passed,
        "tests": earned.execution.total,
        "turn_scores": list(earned.turn_scores),
        "unparsable": earned.unparsable,
        "reason": earned.reason,
    }
