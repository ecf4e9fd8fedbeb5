"""Training curves out of the metrics that the engine left, under whichever of its names a quantity was logged."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from birdrl.files import read_jsonl

# First name found wins. verl logs SFT under train/, the reward under critic/ and the KL term under actor/.
LOSS = ("train/loss", "loss", "sft/loss")
VALIDATION_LOSS = ("val/loss", "validation/loss")
REWARD = ("critic/rewards/mean", "critic/score/mean", "reward")
KL = ("actor/kl_loss", "kl", "actor/reward_kl_penalty")
FAILURES = ("infra", "gold")


@dataclass(frozen=True)
class Curve:
    """Values of one metric over engine steps, under the name the engine gave it; empty when it was not logged."""

    name: str
    steps: tuple[float, ...]
    values: tuple[float, ...]


def read_metrics(path: Path) -> list[dict[str, float]]:
    """Numeric metrics per engine step, flat; rows of the form `{"step": n, "data": {...}}` are flattened.

    A missing file gives no rows: a stage that logged nothing is reported as such, not as an error.
    """
    if not path.is_file():
        return []
    rows = []
    for place, row in enumerate(read_jsonl(path), 1):
        data = row.get("data")
        flat = {**row, **(data if isinstance(data, dict) else {})}
        numbers = {key: float(value) for key, value in flat.items() if _is_number(value)}
        numbers.setdefault("step", float(place))
        rows.append(numbers)
    return rows


def curve(rows: Sequence[Mapping[str, float]], names: Iterable[str]) -> Curve:
    """The first of `names` that was logged, as a curve; values that are not finite are left out."""
    for name in names:
        points = [(row["step"], row[name]) for row in rows if name in row and abs(row[name]) < float("inf")]
        if points:
            return Curve(name, tuple(step for step, _ in points), tuple(value for _, value in points))
    return Curve("", (), ())


def failures(numbers: Mapping[str, Any]) -> dict[str, float]:
    """Counts of infrastructure and gold failures among flat numbers: `failures_infra` and `rollout/failures/infra`
    are both `infra`."""
    found = {}
    for key, value in sorted(numbers.items()):
        name = key.rsplit("/", 1)[-1].removeprefix("failures_")
        if name in FAILURES and _is_number(value):
            found[name] = float(value)
    return found


def total_failures(rows: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Failures summed over steps, empty when no step logged any count."""
    totals: dict[str, float] = {}
    for row in rows:
        for name, value in failures(row).items():
            totals[name] = totals.get(name, 0.0) + value
    return dict(sorted(totals.items()))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
