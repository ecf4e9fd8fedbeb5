"""The table of results: for the terminal, for the page and as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from typing import Any

from birdrl.report.document import Table, markdown_lines
from birdrl.report.labels import MISSING, POLICIES, SHORT, categories, number, ordered_policies, success


def render_table(results: Mapping[str, Any]) -> str:
    """The results of evaluate/results.json for a terminal: one line a policy, success with its Wilson 95 % interval."""
    names = categories(results)
    headers = ["policy", "protocol", "n", "success %", *names, "turns", "tool errors"]
    rows = [
        [
            SHORT.get(policy["policy"], policy["policy"]),
            str(policy.get("protocol", MISSING)),
            number(policy.get("instances")),
            _bare(policy, 1),
            *(_bare((policy.get("by_category") or {}).get(name), 0) for name in names),
            number(policy.get("mean_turns")),
            number(policy.get("tool_errors")),
        ]
        for policy in ordered_policies(results)
    ]
    return _aligned(headers, rows, left=2)


def results_table(results: Mapping[str, Any]) -> Table:
    """The same table for the page, with the best policy emphasised."""
    names = categories(results)
    policies = ordered_policies(results)
    shares = [float(policy.get("success") or 0.0) for policy in policies]
    return Table(
        headers=["policy", "protocol", "n", "success", *names, "mean turns", "tool errors", "mean reward"],
        rows=[
            [
                POLICIES.get(policy["policy"], policy["policy"]),
                str(policy.get("protocol", MISSING)),
                number(policy.get("instances")),
                success(policy),
                *(success((policy.get("by_category") or {}).get(name), 0) for name in names),
                number(policy.get("mean_turns")),
                number(policy.get("tool_errors")),
                number(policy.get("mean_reward"), 3),
            ]
            for policy in policies
        ],
        numeric=frozenset(range(2, 7 + len(names))),
        strong=shares.index(max(shares)) if any(shares) else None,
        caption="Success: every test of the issue passes. In brackets the Wilson 95 % interval.",
    )


def results_markdown(results: Mapping[str, Any]) -> str:
    """The table of `results_table` as Markdown."""
    return "\n".join(markdown_lines(results_table(results)))


def results_csv(results: Mapping[str, Any]) -> str:
    """CSV with one row per policy and category (`overall` included); shares in [0, 1], empty where not recorded."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(
        ["policy", "protocol", "category", "instances", "success", "low", "high", "mean_turns", "tool_errors"]
    )
    for policy in ordered_policies(results):
        by_category = policy.get("by_category") or {}
        overall = {**policy, "n": policy.get("instances")}
        for name, entry in [
            ("overall", overall),
            *((name, by_category.get(name) or {}) for name in categories(results)),
        ]:
            low, high = entry.get("interval") or ("", "")
            turns = (policy.get("mean_turns"), policy.get("tool_errors")) if name == "overall" else ("", "")
            writer.writerow(
                [
                    policy["policy"],
                    policy.get("protocol"),
                    name,
                    entry.get("n"),
                    entry.get("success"),
                    low,
                    high,
                    *turns,
                ]
            )
    return out.getvalue()


def _bare(entry: Mapping[str, Any] | None, decimals: int) -> str:
    """Like `success`, without the sign: the header carries it. Short, so that a line fits a terminal."""
    return success(entry, decimals).replace(" %", "")


def _aligned(headers: Sequence[str], rows: Sequence[Sequence[str]], *, left: int) -> str:
    table = [list(headers), *(list(row) for row in rows)]
    widths = [max(len(row[column]) for row in table) for column in range(len(headers))]
    lines = [
        "  ".join(
            cell.ljust(width) if column < left else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in table
    ]
    return "\n".join([lines[0], "  ".join("-" * width for width in widths), *lines[1:]])
