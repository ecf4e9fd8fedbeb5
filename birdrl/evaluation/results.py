"""From records to the numbers of the table: success with its interval, by category and by bug kind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from birdrl.evaluation.intervals import wilson
from birdrl.evaluation.runner import Protocol, Record
from birdrl.gym.instance import CATEGORIES


def summarise(policy: str, protocol: Protocol, records: Sequence[Record]) -> dict[str, Any]:
    """One entry of `results.json`. Success is the share of scored instances whose tests all pass; instances that
    the machinery or their own reference failed are under `excluded` and in no mean."""
    scored = [record for record in records if not record.excluded]
    categories = {name: [r for r in scored if r.instance.category == name] for name in CATEGORIES}
    kinds = sorted({_kind(record) for record in scored})
    return {
        "policy": policy,
        "protocol": protocol,
        "instances": len(scored),
        **_rate(scored),
        "by_category": {name: _rate(group) for name, group in categories.items() if group},
        "by_kind": {name: _rate([r for r in scored if _kind(r) == name]) for name in kinds},
        "mean_reward": _mean([record.reward or 0.0 for record in scored]),
        "mean_turns": _mean([record.turns for record in scored]),
        "mean_tool_calls": _mean([record.tool_calls for record in scored]),
        "mean_response_tokens": _mean([record.response_tokens for record in scored]),
        "tool_errors": sum(record.tool_errors for record in scored),
        "tool_errors_per_trajectory": _mean([record.tool_errors for record in scored]),
        "stop_reasons": dict(sorted(Counter(str(record.stop) for record in scored).items())),
        "excluded": dict(sorted(Counter(record.excluded for record in records if record.excluded).items())),
    }


def _rate(records: Sequence[Record]) -> dict[str, Any]:
    successes = sum(record.success for record in records)
    low, high = wilson(successes, len(records))
    return {
        "n": len(records),
        "successes": successes,
        "success": round(successes / len(records), 6) if records else None,
        "interval": [round(low, 6), round(high, 6)],
    }


def _mean(values: Sequence[float]) -> float | None:
    return round(sum(values) / len(values), 6) if values else None


def _kind(record: Record) -> str:
    return record.instance.bug.kind if record.instance.bug else "unknown"
