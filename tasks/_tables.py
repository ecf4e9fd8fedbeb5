"""The result table, for the terminal and for Prefect."""

from __future__ import annotations

from typing import Any

_CATEGORIES = ("query", "management", "personalization")


def result_rows(results: dict[str, Any]) -> list[list[str]]:
    """Heading and one row per policy of `evaluate/results.json`; shares in percent with their 95 % interval."""
    heading = ["policy", "protocol", "success", *_CATEGORIES, "turns", "tool errors", "instances"]
    rows = [heading]
    for policy in results["policies"]:
        categories = [policy["by_category"].get(name) for name in _CATEGORIES]
        rows.append(
            [
                policy["policy"],
                policy["protocol"],
                _share(policy),
                *("-" if category is None else _share(category) for category in categories),
                f"{policy['mean_turns']:.2f}",
                str(policy["tool_errors"]),
                str(policy["instances"]),
            ]
        )
    return rows


def as_text(rows: list[list[str]]) -> str:
    """Columns aligned by spaces."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join([lines[0], "  ".join("-" * width for width in widths), *lines[1:]])


def as_markdown(rows: list[list[str]]) -> str:
    """A Markdown table."""
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join([lines[0], "|" + "---|" * len(rows[0]), *lines[1:]])


def _share(entry: dict[str, Any]) -> str:
    low, high = entry["interval"]
    return f"{100 * entry['success']:.1f} [{100 * low:.1f}, {100 * high:.1f}]"
