"""The words of the report: policies in order of training, categories, and how numbers are shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

MISSING = "not recorded"

POLICIES = {
    "policy_init": "init",
    "sft_reasoning": "stage 1: reasoning imitation",
    "sft_tools": "stage 2: tool-use imitation",
    "rl_reasoning": "stage 3: single-turn RL",
    "rl_agentic": "stage 4: multi-turn RL",
}
SHORT = {
    "policy_init": "init",
    "sft_reasoning": "after stage 1",
    "sft_tools": "after stage 2",
    "rl_reasoning": "after stage 3",
    "rl_agentic": "after stage 4",
}
TRAINING_STAGES = ("sft_reasoning", "sft_tools", "rl_reasoning", "rl_agentic")
CATEGORIES = ("query", "management", "personalization")


def number(value: Any, decimals: int = 2) -> str:
    """An integer with thousands separators, another number to `decimals`, or "not recorded"."""
    if isinstance(value, bool) or value is None or value == "":
        return MISSING if not isinstance(value, bool) else ("yes" if value else "no")
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        tiny = value != 0 and abs(value) < 10**-decimals
        return f"{value:.2e}" if tiny else f"{value:,.{decimals}f}"
    return str(value)


def percent(share: float | None, decimals: int = 1) -> str:
    """A share in [0, 1] as a percentage, or "not recorded"."""
    return MISSING if share is None else f"{100 * share:.{decimals}f} %"


def interval(bounds: Sequence[float] | None, decimals: int = 1) -> str:
    """`[lo, hi]` shares as percentages, or nothing when there is no interval."""
    if bounds is None or len(bounds) != 2:
        return ""
    return f"[{100 * bounds[0]:.{decimals}f}, {100 * bounds[1]:.{decimals}f}]"


def success(entry: Mapping[str, Any] | None, decimals: int = 1) -> str:
    """Success of a policy or of one of its categories: `64.2 % [55.3, 72.2]`."""
    if not entry or entry.get("success") is None:
        return MISSING
    return f"{percent(float(entry['success']), decimals)} {interval(entry.get('interval'), decimals)}".rstrip()


def categories(results: Mapping[str, Any]) -> list[str]:
    """Categories that occur in the results, the known ones first in their usual order."""
    found = {name for policy in results.get("policies", []) for name in policy.get("by_category") or {}}
    return [name for name in CATEGORIES if name in found] + sorted(found - set(CATEGORIES))


def ordered_policies(results: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The policies of evaluate/results.json in order of training; unknown ones last, as they stand."""
    order = {name: place for place, name in enumerate(POLICIES)}
    return sorted(results.get("policies", []), key=lambda policy: order.get(policy.get("policy", ""), len(order)))
