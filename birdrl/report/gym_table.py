"""The gym's statistics beside the paper's (BIRD-RL, Table 7: SIX-GYM-SQLite)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from birdrl.gym.paper import TABLE_8
from birdrl.report.document import Table
from birdrl.report.labels import CATEGORIES, MISSING, number, percent

# Rows of the table: what is shown, and where it stands in a part of gym/stats.json. Shares follow their counts.
_COUNTS = (
    ("issues", ("instances",)),
    *((f"{category} issues", ("by_category", category)) for category in CATEGORIES),
    ("distinct test cases", ("distinct_test_cases",)),
    ("preprocess SQLs", ("preprocess_sql",)),
    ("clean-up SQLs", ("clean_up_sql",)),
    ("multi-SQL issues", ("multi_sql_instances",)),
    ("databases", ("domains",)),
)
_LENGTHS = (
    ("user query", "query"), ("issue SQL", "issue_sql"), ("solution SQL", "sol_sql"), ("test case", "tests"),
)  # fmt: skip
_SIDES = {"training": "train", "evaluation": "eval"}


def table_7(stats: Mapping[str, Any]) -> Table:
    """Both sides of the gym, as built, beside the published one; `stats` is gym/stats.json."""
    parts = [stats.get(key) or {} for key in _SIDES.values()]
    paper = stats.get("paper_table_7") or {}
    rows = [[label, *(_count(part, path) for part in (*parts, paper))] for label, path in _COUNTS]
    for label, key in _LENGTHS:
        ours = [_pick(part, ("lengths", key, "tokens")) or {} for part in parts]
        shown = [_length(values.get("mean"), values.get("max")) for values in ours]
        rows.append([f"{label} length, tokens (mean / max)", *shown, _length(*TABLE_8["overall"][key])])
    return Table(
        headers=["statistic", *_SIDES, "SIX-GYM-SQLite (paper)"],
        rows=rows,
        numeric=frozenset({1, 2, 3}),
        caption="As built, before the audit. Tokens are words, numbers and signs here; the paper does not name its "
        "tokenizer.",
    )


def table_8(stats: Mapping[str, Any]) -> Table:
    """Tokens by category, mean and maximum: the training side as built, beside the published gym."""
    ours = (stats.get("train") or {}).get("lengths_by_category") or {}
    rows = []
    for group, parts in ours.items():
        cells = []
        for _, key in _LENGTHS:
            values = parts.get(key) or {}
            cells += [_length(values.get("mean"), values.get("max")), _length(*TABLE_8[group][key])]
        rows.append([group, *cells])
    headers = [f"{label}, {whose}" for label, _ in _LENGTHS for whose in ("ours", "paper")]
    return Table(["category", *headers], rows, frozenset(range(1, len(headers) + 1)))


def texts_table(stats: Mapping[str, Any]) -> Table:
    """How varied the issue texts are and how much of the solution they hold, on both sides."""
    labels = {
        "distinct_texts": "distinct texts",
        "distinct_wordings": "distinct wordings (names and values masked)",
        "solution_tokens": "tokens that only the solution has, found in the text",
        "solution_runs": "runs of three such tokens, found in the text",
    }
    sides = [(stats.get(side) or {}).get("text") or {} for side in _SIDES.values()]
    rows = [[label, *(percent(side.get(key)) for side in sides)] for key, label in labels.items()]
    rows.append(["texts that give the solution away", *(number(side.get("leaks")) for side in sides)])
    return Table(["issue texts", *_SIDES], rows, frozenset({1, 2}))


def counts_table(stats: Mapping[str, Any], key: str, what: str) -> Table:
    """One row per name in `stats[side][key]`, for example bug kinds or SQL features, with its count on each side."""
    columns = [(stats.get(side) or {}).get(key) or {} for side in _SIDES.values()]
    names = sorted(set().union(*columns))
    rows = [[name.replace("_", " "), *(number(column.get(name, 0)) for column in columns)] for name in names]
    return Table([what, *_SIDES], rows, frozenset({1, 2}))


def _pick(values: Mapping[str, Any], path: tuple[str, ...]) -> Any:
    found: Any = values
    for key in path:
        found = found.get(key) if isinstance(found, Mapping) else None
    return found


def _count(part: Mapping[str, Any], path: tuple[str, ...]) -> str:
    value, total = _pick(part, path), part.get("instances")
    if path[0] == "by_category" and isinstance(value, int) and total:
        return f"{value:,} ({100 * value / total:.1f} %)"
    return number(value)


def _length(mean: float | None, longest: float | None) -> str:
    return MISSING if mean is None or longest is None else f"{mean:,.2f} / {longest:,.0f}"
