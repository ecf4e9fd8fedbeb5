"""What the report reads: the files that the stages left, in one object."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from birdrl.errors import InputError
from birdrl.files import read_json
from birdrl.report.curves import read_metrics
from birdrl.report.labels import TRAINING_STAGES


@dataclass(frozen=True)
class ReportInputs:
    """Parsed outputs of all earlier stages. `metrics` and `summaries` are by training stage."""

    profile: str
    title: str
    seed: int
    params: Mapping[str, Any]
    results: Mapping[str, Any]
    templates: Mapping[str, Any]
    gym: Mapping[str, Any]
    audit: Mapping[str, Any]
    quality: Mapping[str, Any]
    distill: Mapping[str, Mapping[str, Any]]
    policy: Mapping[str, Any]
    metrics: Mapping[str, list[dict[str, float]]]
    summaries: Mapping[str, Mapping[str, Any]]


def read_inputs(
    folder: Callable[[str], Path], *, profile: str, title: str, seed: int, params: Mapping[str, Any]
) -> ReportInputs:
    """Read everything; `folder` gives a stage's output folder. Raises InputError naming what is missing or broken."""
    results = read_json(folder("evaluate") / "results.json")
    if not isinstance(results, dict) or not results.get("policies"):
        raise InputError(f"{folder('evaluate') / 'results.json'}: no policies; run `birdrl run evaluate` again")
    return ReportInputs(
        profile=profile,
        title=title,
        seed=seed,
        params=params,
        results=results,
        templates=read_json(folder("templates") / "manifest.json"),
        gym=read_json(folder("gym") / "stats.json"),
        audit=read_json(folder("audit") / "report.json"),
        quality={
            "suites": [
                suite
                for stage in ("quality", "quality_trajectories")
                for suite in read_json(folder(stage) / "summary.json")["suites"]
            ]
        },
        distill={
            name: read_json(folder(name) / "stats.json") for name in ("distill_reasoning", "distill_trajectories")
        },
        policy=read_json(folder("policy_init") / "policy.json"),
        metrics={name: read_metrics(folder(name) / "metrics.jsonl") for name in TRAINING_STAGES},
        summaries={name: read_json(folder(name) / "summary.json") for name in TRAINING_STAGES},
    )
