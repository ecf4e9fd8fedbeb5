"""The audit for people: the counts in words, what was excluded, and the closest pairs to look at."""

from __future__ import annotations

from birdrl.audit.contamination import COUNTS, Audit
from birdrl.audit.similarity import Pair

_ROWS = (
    ("database_overlap", "databases on both sides"),
    ("template_overlap", "template files (same bytes) on both sides"),
    ("schema_overlap", "schemas (same tables and columns) on both sides"),
    ("source_overlap", "sources on both sides"),
    ("exact_issue_text", "issue texts on both sides"),
    ("exact_issue_sql", "buggy SQL on both sides"),
    ("masked_issue_sql", "buggy SQL on both sides, constants aside"),
    ("exact_solution_sql", "solution SQL on both sides"),
    ("masked_solution_sql", "solution SQL on both sides, constants aside"),
    ("result_overlap", "results of solutions on both sides"),
    ("exact_joint", "issue text and buggy SQL together on both sides"),
    ("near_duplicate_pairs", "pairs above both similarity thresholds"),
    ("pairs", "pairs compared"),
    ("pairs_above_text_threshold", "pairs above the text threshold alone or with SQL"),
    ("pairs_above_sql_threshold", "pairs above the SQL threshold alone or with text"),
    ("flagged_eval", "evaluation instances that a flagged training instance resembles"),
    ("flagged_train", "training instances excluded"),
    ("kept_train", "training instances kept"),
    ("train_without_source", "training instances that name no source"),
    ("eval_without_source", "evaluation instances that name no source"),
    ("train_without_result", "training instances without a result to compare"),
    ("eval_without_result", "evaluation instances without a result to compare"),
)
_SHOWN_FLAGS = 100
_SHOWN_SHARED = 10
_NAMED_ELSEWHERE = ("databases", "joint")


def render_markdown(audit: Audit) -> str:
    """Markdown page of an audit; the same audit gives the same bytes."""
    counts = audit.counts()
    lines = [
        "# Contamination audit",
        "",
        f"{counts['train_instances']} training instances against {counts['eval_instances']} evaluation instances. "
        f"A pair is a near duplicate when its issue texts are more similar than {audit.params.text_threshold} and its "
        f"buggy SQL more similar than {audit.params.sql_threshold} (cosine of TF-IDF over words and pairs of words).",
        "",
        "| What | Count |",
        "|---|---:|",
        *(f"| {label} | {_count(counts[key])} |" for key, label in _ROWS),
        "",
    ]
    if audit.overlap.shared["databases"]:
        names = ", ".join(f"`{shared.value}`" for shared in audit.overlap.shared["databases"])
        lines += [f"**Databases on both sides:** {names}. Success on them does not show transfer.", ""]
    lines += ["## Excluded training instances", ""]
    if audit.flags:
        lines += ["| Training instance | Why | Text | SQL | Resembles |", "|---|---|---:|---:|---|"]
        for flag in audit.flags[:_SHOWN_FLAGS]:
            lines.append(
                f"| {flag.instance_id} | {', '.join(flag.reasons)} | {_number(flag.text_similarity)} "
                f"| {_number(flag.sql_similarity)} | {_some(flag.eval_ids)} |"
            )
        if len(audit.flags) > _SHOWN_FLAGS:
            lines.append(f"\n{len(audit.flags) - _SHOWN_FLAGS} more in report.json.")
    else:
        lines.append("None.")
    lines += _shared_values(audit)
    lines += ["", "## Closest pairs", ""]
    if not audit.views.closest_complete:
        lines += ["Others may be as close: the search kept the closest by an upper bound.", ""]
    for pair in audit.views.closest:
        lines += _pair(audit, pair)
    return "\n".join(lines).rstrip() + "\n"


def _count(value: int | None) -> str:
    return "not looked at" if value is None else f"{value:,}"


def _shared_values(audit: Audit) -> list[str]:
    """The values on both sides that a person should look at, those of most training instances first."""
    lines: list[str] = []
    for channel, entries in audit.overlap.shared.items():
        if channel in _NAMED_ELSEWHERE or not entries:
            continue
        lines += ["", f"## On both sides: {dict(_ROWS)[COUNTS[channel]].removesuffix(' on both sides')}", ""]
        lines += ["| Value | Training instances | Evaluation instances |", "|---|---|---|"]
        for shared in sorted(entries, key=lambda entry: -entry.count)[:_SHOWN_SHARED]:
            value = " ".join(shared.value.split()).replace("|", "\\|").replace("`", "'")
            lines.append(f"| `{value}` | {shared.count}: {_some(shared.train)} | {_some(shared.eval)} |")
        if len(entries) > _SHOWN_SHARED:
            lines.append(f"\n{len(entries) - _SHOWN_SHARED} more.")
    return lines


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"


def _some(values: tuple[str, ...], shown: int = 3) -> str:
    rest = len(values) - shown
    return ", ".join(values[:shown]) + (f" and {rest} more" if rest > 0 else "")


def _pair(audit: Audit, pair: Pair) -> list[str]:
    train, evaluation = audit.shown[pair.train], audit.evaluation[pair.eval]
    lines = [
        f"### {train.instance_id} / {evaluation.instance_id}",
        "",
        f"text {pair.text:.3f}, SQL {pair.sql:.3f}; databases `{train.db_id}` / `{evaluation.db_id}`",
        "",
    ]
    for side, instance in (("training", train), ("evaluation", evaluation)):
        sql = "\n".join(instance.sql)
        fence = "`" * 3
        while fence in sql:  # a longer fence than anything inside keeps the block closed
            fence += "`"
        lines += [f"{side}: {' '.join(instance.text.split())}", "", f"{fence}sql", sql, fence, ""]
    return lines
