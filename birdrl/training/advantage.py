"""Advantage estimators, registered with the engine when this module is imported.

`birdrl_grpo` is the group-relative advantage of BIRD-RL's Eq. 4 over the valid samples of a group. A sample without
a token to train on (its trajectory failed by no fault of the policy, or it only fills the batch up) is not valid: the
engine's own estimator would count its zero reward into the mean and deviation of its siblings. A group with fewer than
two valid samples has nothing to be relative to and gets zero.

`birdrl_step_wise` is SQL-ASTRA's ablation (3.3.1): what a turn earns is the advantage of that turn's tokens, without
any group.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import torch
from verl.trainer.ppo.core_algos import register_adv_est

GRPO = "birdrl_grpo"
STEP_WISE = "birdrl_step_wise"
EPSILON = 1e-6  # of Eq. 4's denominator


@register_adv_est(GRPO)  # type: ignore[untyped-decorator]
def group_relative_advantage(
    token_level_rewards: torch.Tensor,
    response_mask: torch.Tensor,
    index: Sequence[Any],
    config: Any = None,
    **_: Any,
) -> tuple[torch.Tensor, torch.Tensor]:
    """`A_i = (r_i - mean) / (std + 1e-6)` on every sampled token, or `r_i - mean` without `norm_adv_by_std_in_grpo`.

    `token_level_rewards` and `response_mask` have shape (samples, tokens), `index` names each sample's group; a
    sample's reward is the sum over its tokens, the deviation is that of a sample (N - 1). Returns the advantages twice,
    as advantages and as returns. Raises ValueError for a reward that is no number.
    """
    rewards = token_level_rewards.sum(dim=-1)
    valid = response_mask.bool().any(dim=-1)
    if not torch.isfinite(rewards[valid]).all():
        raise ValueError("a trained sample's reward is not a finite number")
    groups: dict[Any, list[int]] = defaultdict(list)
    for row in torch.nonzero(valid).flatten().tolist():
        groups[index[row]].append(row)
    by_deviation = config is None or config.get("norm_adv_by_std_in_grpo", True)
    advantages = torch.zeros_like(rewards)
    with torch.no_grad():
        for rows in groups.values():
            if len(rows) < 2:
                continue
            group = rewards[rows]
            centred = group - group.mean()
            advantages[rows] = centred / (group.std() + EPSILON) if by_deviation else centred
        spread = advantages.unsqueeze(-1) * response_mask
    return spread, spread


@register_adv_est(STEP_WISE)  # type: ignore[untyped-decorator]
def step_wise_advantage(
    token_level_rewards: torch.Tensor, response_mask: torch.Tensor, **_: Any
) -> tuple[torch.Tensor, torch.Tensor]:
    """What each turn earned, on the tokens of that turn.

    A turn is a run of sampled tokens; its reward stands on its tokens, wherever. Shapes as above.
    """
    with torch.no_grad():
        sampled = response_mask.bool()
        starts = sampled & ~torch.nn.functional.pad(sampled, (1, 0))[:, :-1]
        turns = torch.cumsum(starts, dim=-1) * sampled  # 0 where nothing was sampled
        totals = torch.zeros(turns.shape[0], int(turns.max()) + 1, dtype=token_level_rewards.dtype)
        totals.scatter_add_(1, turns, token_level_rewards * sampled)
        spread = totals.gather(1, turns) * sampled
    return spread, spread
