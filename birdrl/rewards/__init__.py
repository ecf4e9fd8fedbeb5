"""Rewards of a trajectory.

`execution` is the share of tests passed (BIRD-RL, Eq. 5), `csmr` and `atr` are SQL-ASTRA's, `auxiliary` with `judge`
holds BIRD-RL's proxies, `peers` other systems' forms; `rewarder` composes them by one configuration
(`birdrl.params.RewardParams`). `diagnostics` looks at sets of trajectories.
"""

from birdrl.rewards.execution import Blame, ExecutionScore, ExecutionScorer, ResultPair, TestOutcome

__all__ = ["Blame", "ExecutionScore", "ExecutionScorer", "ResultPair", "TestOutcome"]
