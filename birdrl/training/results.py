"""What a training run leaves for people and later stages: step figures, rollouts, a summary. No wall-clock times."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from birdrl.files import read_jsonl
from birdrl.training.engine import read_metrics
from birdrl.training.rollout_settings import POOL_METRICS

NAMES = {
    "train/loss": "loss",
    "train/lr": "lr",
    "train/grad_norm": "grad_norm",
    "train/global_tokens": "tokens",
    "critic/score/mean": "reward",
    "critic/score/max": "reward_max",
    "critic/score/min": "reward_min",
    "critic/advantages/mean": "advantage",
    "actor/kl_loss": "kl",
    "actor/pg_loss": "loss",
    "actor/entropy": "entropy",
    "actor/grad_norm": "grad_norm",
    "actor/lr": "lr",
    "actor/pg_clipfrac": "clip_share",
    "response_length/mean": "response_tokens",
    "training/rollout_probs_diff_max": "rollout_probs_diff_max",
}


def step_rows(attempts: Iterable[Path]) -> list[dict[str, Any]]:
    """One row a step, `{"step": n, "loss"/"reward"/"kl"...: x}`, from the metrics files of all attempts in order.

    A step that a resumed attempt did again replaces the earlier one.
    """
    steps: dict[int, dict[str, Any]] = {}
    for path in attempts:
        for line in read_metrics(path):
            data = line["data"]
            row = {short: data[name] for name, short in NAMES.items() if name in data}
            row |= {
                name: value
                for name, value in data.items()
                if name.startswith("rollout/") and not name.startswith(POOL_METRICS)
            }
            steps[int(line["step"])] = {"step": int(line["step"]), **row}
    return [steps[step] for step in sorted(steps)]


def rollout_rows(rollouts: Path, records: Sequence[Mapping[str, Any]]) -> dict[int, list[dict[str, Any]]]:
    """Per step, the trajectories that were trained on: the engine's texts joined with the agent loop's records."""
    by_key = {f"{record['uid']}_{record['session']}_0": record for record in records}
    steps: dict[int, list[dict[str, Any]]] = {}
    for path in rollouts.glob("*.jsonl"):
        rows = []
        for line in read_jsonl(path):
            record = by_key.get(line["uid"])
            if record is None:  # verl fills a batch that lost trajectories up with empty ones
                continue
            rows.append({**_kept(record), "prompt": line["input"], "response": line["output"]})
        steps[int(path.stem)] = sorted(rows, key=lambda row: (row["index"], row["session"]))
    return steps


def failure_rows(records: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The trajectories that left their group because the machinery or the instance failed."""
    return [_kept(record) for record in records if record["blame"] in ("infra", "gold")]


def _kept(record: Mapping[str, Any]) -> dict[str, Any]:
    """A record without what differs from run to run."""
    return {name: value for name, value in record.items() if name not in ("uid", "pool")}


def sft_summary(rows: Sequence[Mapping[str, Any]], data: Mapping[str, int], parameters: int) -> dict[str, float]:
    """Flat figures of an imitation run."""
    return {
        "steps": len(rows),
        "tokens": sum(row["tokens"] for row in rows),
        "loss_first": rows[0]["loss"],
        "loss_last": rows[-1]["loss"],
        "parameters": parameters,
        **data,
    }


def rl_summary(
    rows: Sequence[Mapping[str, Any]], records: Sequence[Mapping[str, Any]], data: Mapping[str, int], parameters: int
) -> dict[str, float]:
    """Flat figures of a reinforcement run; `records` are the agent loop's, failures included."""
    done = [record for record in records if record["blame"] not in ("infra", "gold")]
    return {
        "steps": len(rows),
        "trajectories": len(done),
        "reward_first": rows[0]["reward"],
        "reward_last": rows[-1]["reward"],
        "reward_mean": sum(row["reward"] for row in rows) / len(rows),
        "solved": sum(record["solved"] for record in done) / len(done),
        "turns": sum(record["turns"] for record in done) / len(done),
        "tool_calls": sum(record["tool_calls"] for record in done),
        "tool_errors": sum(record["tool_errors"] for record in done),
        "failures_infra": sum(record["blame"] == "infra" for record in records),
        "failures_gold": sum(record["blame"] == "gold" for record in records),
        "kl_last": rows[-1].get("kl", 0.0),
        "rollout_probs_diff_max": max(row.get("rollout_probs_diff_max", 0.0) for row in rows),
        "parameters": parameters,
        **data,
    }
