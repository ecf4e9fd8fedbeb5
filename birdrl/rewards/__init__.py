"""Rewards of a trajectory."""

from birdrl.rewards.execution import Blame, ExecutionScore, ExecutionScorer, TestOutcome

__all__ = ["Blame", "ExecutionScore", "ExecutionScorer", "TestOutcome"]
