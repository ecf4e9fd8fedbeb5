"""The audit for people: the counts in words, what was excluded, and the closest pairs to look at."""

from __future__ import annotations

from birdrl.audit.contamination import Audit
from birdrl.audit.similarity import Pair

_ROWS = (
    ("database_overlap", "databases on both sides"),
    ("template_overlap", "template files (same bytes) on both sides"),
    ("source_overlap", "sources on both sides"),
    ("exact_issue_text", "issue texts on both sides"),
    ("exact_issue_sql", "buggy SQL on both sides"),
    ("exact_solution_sql", "solution SQL on both sides"),
    ("exact_joint", "issue text and buggy SQL together on both sides"),
    ("near_duplicate_pairs", "pairs above both similarity thresholds"),
    ("pairs", "pairs compared"),
    ("pairs_above_text_threshold", "pairs above the text threshold alone or with SQL"),
    ("pairs_above_sql_threshold", "pairs above the SQL threshold alone or with text"),
    ("flagged_eval", "evaluation instances that a flagged training instance resembles"),
    ("flagged_train", "training instances excluded"),
    ("kept_train", "training instances kept"),
)
_SHOWN_FLAGS = 100


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
        *(f"| {label} | {counts[key]:,} |" for key, label in _ROWS),
        "",
    ]
    if audit.overlap.databases:
        names = ", ".join(f"`{shared.value}`" for shared in audit.overlap.databases)
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
    lines += ["", "## Closest pairs", ""]
    for pair in audit.views.closest:
        lines += _pair(audit, pair)
    return "\n".join(lines).rstrip() + "\n"


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"


def _some(values: tuple[str, ...], shown: int = 3) -> str:
    rest = len(values) - shown
    return ", ".join(values[:shown]) + (f" and {rest} more" if rest > 0 else "")


def _pair(audit: Audit, pair: Pair) -> list[str]:
    train, evaluation = audit.train[pair.train], audit.evaluation[pair.eval]
    lines = [
        f"### {train.instance_id} / {evaluation.instance_id}",
        "",
        f"text {pair.text:.3f}, SQL {pair.sql:.3f}; databases `{train.db_id}` / `{evaluation.db_id}`",
        "",
    ]
    for side, instance in (("training", train), ("evaluation", evaluation)):
        sql = "\n".join(instance.issue_sql)
        fence = "`" * 3
        while fence in sql:  # a longer fence than anything inside keeps the block closed
            fence += "`"
        lines += [f"{side}: {' '.join(instance.query.split())}", "", f"{fence}sql", sql, fence, ""]
    return lines
