"""The four training stages (BIRD-RL, section 4; papers' Table 6)."""

from __future__ import annotations

from birdrl.stages.registry import StageContext


def run_sft_reasoning(context: StageContext) -> None:
    """Stage 1: imitate thought and corrected SQL in one turn."""
    from birdrl.training.data import Samples
    from birdrl.training.runs import train_sft

    pairs = Samples(context.input("distill_reasoning") / "pairs.jsonl", tools=False)
    train_sft(context, context.params.sft_reasoning, policy="policy_init", sources=[pairs])


def run_sft_tools(context: StageContext) -> None:
    """Stage 2: imitate tool-use trajectories with real observations, beside a share of the stage-1 samples."""
    from birdrl.training.data import Samples
    from birdrl.training.runs import train_sft

    params = context.params.sft_tools
    trajectories = Samples(context.input("distill_trajectories") / "trajectories.jsonl", tools=True)
    replay = Samples(context.input("distill_reasoning") / "pairs.jsonl", tools=False, share=params.replay_share)
    train_sft(context, params, policy="sft_reasoning", sources=[trajectories, replay])


def run_rl_reasoning(context: StageContext) -> None:
    """Stage 3: GRPO on single-turn answers."""
    from birdrl.training.runs import train_rl

    train_rl(context, context.params.rl_reasoning, policy="sft_tools", tools=False)


def run_rl_agentic(context: StageContext) -> None:
    """Stage 4: GRPO on multi-turn trajectories, each on a private replica."""
    from birdrl.training.runs import train_rl

    train_rl(context, context.params.rl_agentic, policy="rl_reasoning", tools=True)
