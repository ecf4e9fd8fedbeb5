"""Proxy rewards for trajectories that pass no test (BIRD-RL, Appendix B.2; an ablation there, and worse than none).

    R = R_exec if R_exec > 0 else R_aux

The structure of each R_aux is the paper's, the weights are ours. A proxy must never reach what one passed test of an
instance is worth: a training run refuses weights (`RewardParams.most_auxiliary`) that would.
"""

from __future__ import annotations

from birdrl.params import JudgeParams, PartialParams, RubricParams

TRAJECTORY_GRADES = 5.0
SOLUTION_GRADES = 10.0
Q_MAX = TRAJECTORY_GRADES + SOLUTION_GRADES


def gated(executed: float, auxiliary: dict[str, float]) -> dict[str, float]:
    """Parts of the reward: the execution reward alone, unless it is 0."""
    return {"execution": executed} if executed > 0 else {"execution": 0.0, **auxiliary}


def partial_parts(executable: bool, overlap: float, params: PartialParams) -> dict[str, float]:
    """(d) `w_exec I_exec + w_sl SL`; `overlap` is the schema-linking score in [0, 1]."""
    return {
        "partial/executable": params.executable * executable,
        "partial/schema_linking": params.schema_linking * overlap,
    }


def judge_parts(trajectory: float, solution: float, params: JudgeParams) -> dict[str, float]:
    """(e) `lambda (q_traj + q_sol) / Q_max`; grades in [0, 5] and [0, 10]."""
    return {
        "judge/trajectory": params.weight * trajectory / Q_MAX,
        "judge/solution": params.weight * solution / Q_MAX,
    }


def rubric_parts(executable: bool, named: int, bugs: int, params: RubricParams) -> dict[str, float]:
    """(f) `w_e I_exec + w_b N_id / N_bug`; without known bugs the second term is 0."""
    return {
        "rubric/executable": params.executable * executable,
        "rubric/bugs": params.bugs * named / bugs if bugs else 0.0,
    }
