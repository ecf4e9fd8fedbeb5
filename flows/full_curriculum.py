"""The full curriculum: data, four training stages, evaluation, report.

`python -m flows.full_curriculum --profile smoke` runs it here and now, on the server of `make up` where one is up and
on a temporary one otherwise. `python -m flows.full_curriculum serve` offers it as `birdrl/full-curriculum`.
"""

from __future__ import annotations

import sys
from typing import Any

from prefect import flow

from flows._session import main, session
from tasks.audit import audit
from tasks.distill_reasoning import distill_reasoning
from tasks.distill_trajectories import distill_trajectories
from tasks.evaluate import evaluate
from tasks.gym import gym
from tasks.policy_init import policy_init
from tasks.quality import quality
from tasks.quality_trajectories import quality_trajectories
from tasks.report import report
from tasks.rl_agentic import rl_agentic
from tasks.rl_reasoning import rl_reasoning
from tasks.sft_reasoning import sft_reasoning
from tasks.sft_tools import sft_tools
from tasks.templates import templates


@flow(name="birdrl", log_prints=False, validate_parameters=True)
def full_curriculum(profile: str = "demo", overrides: dict[str, Any] = {}) -> None:  # noqa: B006 - Prefect's schema
    """Train a SQL agent from databases and verified SQL to an evaluated checkpoint.

    Args:
        profile: A block of params.yaml, for example `demo` or `smoke`.
        overrides: Single parameters changed, by dotted key: `{"sft_tools.learning_rate": 0.0002}`.
    """
    with session(profile, overrides) as run:
        # data
        run(templates)
        run(gym)
        run(audit)
        run(quality)
        run(distill_reasoning)
        run(distill_trajectories)
        run(quality_trajectories)
        # the four stages
        run(policy_init)
        run(sft_reasoning)
        run(sft_tools)
        run(rl_reasoning)
        run(rl_agentic)
        # what came of it
        run(evaluate)
        run(report)


if __name__ == "__main__":
    sys.exit(main(full_curriculum))
