"""Statistics of the gym beside the paper's (BIRD-RL, Table 7: SIX-GYM-SQLite)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from birdrl.files import canonical_json
from birdrl.report.document import Table
from birdrl.report.labels import number

# The paper does not name its tokenizer; ours counts words and single signs.
_TOKEN = re.compile(r"\w+|[^\w\s]")

PAPER_TABLE_7 = {
    "issues": "5,000",
    "query-like issues": "3,094 (61.9 %)",
    "management issues": "1,087 (21.7 %)",
    "personalization issues": "819 (16.4 %)",
    "user query length, tokens (mean / max)": "162.55 / 917",
    "issue SQL length, tokens (mean / max)": "85.50 / 898",
    "solution SQL length, tokens (mean / max)": "97.66 / 1,976",
    "test-case length, tokens (mean / max)": "221.38 / 1,601",
    "distinct test cases": "2,477",
    "preprocess SQLs": "3,512",
    "clean-up SQLs": "969",
    "multi-SQL issues": "454",
    "databases": "13",
}


def gym_statistics(rows: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """The rows of Table 7 for some instances, ready to show."""
    total = len(rows)
    tests = [test for row in rows for test in row.get("test_cases") or []]
    shown = {"issues": number(total)}
    for category, label in (
        ("query", "query-like"),
        ("management", "management"),
        ("personalization", "personalization"),
    ):
        count = sum(row.get("category") == category for row in rows)
        share = f" ({100 * count / total:.1f} %)" if total else ""
        shown[f"{label} issues"] = f"{count:,}{share}"
    shown |= {
        "user query length, tokens (mean / max)": _lengths([str(row.get("query", "")) for row in rows]),
        "issue SQL length, tokens (mean / max)": _lengths([_joined(row, "issue_sql") for row in rows]),
        "solution SQL length, tokens (mean / max)": _lengths([_joined(row, "sol_sql") for row in rows]),
        "test-case length, tokens (mean / max)": _lengths([canonical_json(test) for test in tests]),
        "distinct test cases": number(len({canonical_json(test) for test in tests})),
        "preprocess SQLs": number(sum(len(row.get("preprocess_sql") or []) for row in rows)),
        "clean-up SQLs": number(sum(len(row.get("clean_up_sql") or []) for row in rows)),
        "multi-SQL issues": number(sum(len(row.get("issue_sql") or []) > 1 for row in rows)),
        "databases": number(len({row.get("db_id") for row in rows})),
    }
    return shown


def table_7(sides: Mapping[str, Sequence[Mapping[str, Any]]]) -> Table:
    """Our instances by side beside the paper's gym."""
    columns = {side: gym_statistics(rows) for side, rows in sides.items()}
    return Table(
        headers=["statistic", *columns, "SIX-GYM-SQLite (paper)"],
        rows=[[name, *(values[name] for values in columns.values()), paper] for name, paper in PAPER_TABLE_7.items()],
        numeric=frozenset(range(1, 2 + len(columns))),
        caption="Tokens are words and single signs here; the paper does not name its tokenizer. A test case here is "
        "structured data, in the paper it is Python source.",
    )


def _joined(row: Mapping[str, Any], field: str) -> str:
    return "\n".join(row.get(field) or [])


def _lengths(texts: Sequence[str]) -> str:
    counts = [len(_TOKEN.findall(text)) for text in texts]
    return f"{sum(counts) / len(counts):,.2f} / {max(counts):,}" if counts else "none"
