"""The four training stages (BIRD-RL, section 4; papers' Table 6)."""

from __future__ import annotations

from birdrl.stages.registry import StageContext


def run_sft_reasoning(context: StageContext) -> None:
    """Stage 1: imitate thought and corrected SQL in one turn."""
    from birdrl.training.runs import train_sft

    train_sft(
        context, context.params.sft_reasoning, policy="policy_init", data="distill_reasoning", file="pairs.jsonl",
        tools=False,
    )  # fmt: skip


def run_sft_tools(context: StageContext) -> None:
    """Stage 2: imitate tool-use trajectories with real observations."""
    from birdrl.training.runs import train_sft

    train_sft(
        context, context.params.sft_tools, policy="sft_reasoning", data="distill_trajectories",
        file="trajectories.jsonl", tools=True,
    )  # fmt: skip


def run_rl_reasoning(context: StageContext) -> None:
    """Stage 3: GRPO on single-turn answers."""
    from birdrl.training.runs import train_rl

    train_rl(context, context.params.rl_reasoning, policy="sft_tools", tools=False)


def run_rl_agentic(context: StageContext) -> None:
    """Stage 4: GRPO on multi-turn trajectories, each on a private replica."""
    from birdrl.training.runs import train_rl

    train_rl(context, context.params.rl_agentic, policy="rl_reasoning", tools=True)
