"""The data as tables, one row an instance or a template, with the columns that the expectations speak of.

Rows are read as they are, not through `Instance`: a value that does not belong there is then shown by the
expectation it breaks, with its row, instead of stopping at the first bad field.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import apsw
import pandas as pd

from birdrl.audit.normalise import normalise_text
from birdrl.files import sha256_file
from birdrl.gym.templates import TemplateStore, open_template
from tasks.gate_columns import statements

INSTANCE_COLUMNS = (
    "row", "instance_id", "db_id", "dialect", "category", "bug_kind", "query_chars", "issue_statements", "issue_chars",
    "solution_statements", "solution_chars", "tests", "solution_differs", "text",
)  # fmt: skip
TRAJECTORY_COLUMNS = (
    "row", "instance_id", "db_id", "category", "turns", "turns_match", "shortest_message", "has_error",
)  # fmt: skip


def instance_frame(instances: Iterable[Mapping[str, Any]]) -> pd.DataFrame:
    """One row per instance as it stands in its file; `row` counts from 1."""
    rows = [_instance(number, row) for number, row in enumerate(instances, 1)]
    return pd.DataFrame(rows, columns=list(INSTANCE_COLUMNS))


def trajectory_frame(trajectories: Iterable[Mapping[str, Any]]) -> pd.DataFrame:
    """One row per trajectory as it stands in its file; `row` counts from 1."""
    rows = [_trajectory(number, row) for number, row in enumerate(trajectories, 1)]
    return pd.DataFrame(rows, columns=list(TRAJECTORY_COLUMNS))


def database_frame(sides: Mapping[str, pd.DataFrame], fingerprints: Mapping[str, str]) -> pd.DataFrame:
    """One row per database, with its number of instances on each side and `sides`, for example `train+eval`.

    `twin` names a database of another side with the same schema fingerprint.
    """
    used = {side: frame["db_id"].dropna().value_counts() for side, frame in sides.items()}
    rows: list[dict[str, Any]] = []
    for db_id in sorted({str(db_id) for counts in used.values() for db_id in counts.index}):
        counts = {side: int(values.get(db_id, 0)) for side, values in used.items()}
        rows.append({"db_id": db_id, **counts, "sides": "+".join(side for side, count in counts.items() if count)})
    for row in rows:
        schema = fingerprints.get(row["db_id"])
        row["twin"] = next(
            (
                other["db_id"]
                for other in rows
                if schema and other["sides"] != row["sides"] and fingerprints.get(other["db_id"]) == schema
            ),
            None,
        )
    return pd.DataFrame(rows, columns=["db_id", *used, "sides", "twin"])


def template_frame(store: TemplateStore) -> pd.DataFrame:
    """One row per template of the manifest: is the file there, unchanged, sound and read-only."""
    rows = []
    for db_id in store.db_ids:
        entry = store.entry(db_id)
        path = store.folder / f"{entry['sha256']}.sqlite"
        present = path.is_file()
        rows.append(
            {
                "db_id": db_id,
                "tables": entry["tables"],
                "rows": entry["rows"],
                "manifest_sha256": entry["sha256"],
                "file_sha256": sha256_file(path) if present else "missing",
                "integrity": _integrity(path) if present else "missing",
                "mode": f"{path.stat().st_mode & 0o777:03o}" if present else "missing",
            }
        )
    frame = pd.DataFrame(rows)
    frame["hash_matches"] = frame["manifest_sha256"] == frame["file_sha256"]
    return frame


def share_frame(sides: Mapping[str, pd.DataFrame], categories: Iterable[str]) -> pd.DataFrame:
    """One row per issue category: its share of either side in points of 100, and the last side minus the first."""
    rows = []
    for category in categories:
        shares = {
            side: 100 * float((frame["category"] == category).mean()) for side, frame in sides.items() if len(frame)
        }
        first, *_, last = shares.values() if len(shares) > 1 else (0.0, 0.0)
        rows.append({"category": category, **shares, "difference": round(last - first, 3)})
    return pd.DataFrame(rows)


def _instance(number: int, row: Mapping[str, Any]) -> dict[str, Any]:
    issue, solution = statements(row.get("issue_sql")), statements(row.get("sol_sql"))
    text = row.get("query") if isinstance(row.get("query"), str) else ""
    tests = row.get("test_cases")
    bug = row.get("bug")
    return {
        "row": number,
        **{key: row.get(key) for key in ("instance_id", "db_id", "dialect", "category")},
        "bug_kind": bug.get("kind") if isinstance(bug, dict) else None,
        "query_chars": len(str(text).strip()),
        "issue_statements": len(issue),
        "issue_chars": sum(map(len, issue)),
        "solution_statements": len(solution),
        "solution_chars": sum(map(len, solution)),
        "tests": len(tests) if isinstance(tests, list) else 0,
        "solution_differs": _plain(issue) != _plain(solution),
        "text": normalise_text(str(text)),
    }


def _trajectory(number: int, row: Mapping[str, Any]) -> dict[str, Any]:
    messages = row.get("messages")
    contents = [
        (message.get("role"), str(message.get("content") or ""))
        for message in (messages if isinstance(messages, list) else [])
        if isinstance(message, dict)
    ]
    turns = sum(role == "assistant" for role, _ in contents)
    return {
        "row": number,
        **{key: row.get(key) for key in ("instance_id", "db_id", "category", "turns")},
        "turns_match": row.get("turns") == turns,
        "shortest_message": min((len(content.strip()) for _, content in contents), default=0),
        "has_error": int(any(role == "tool" and content.startswith("Error") for role, content in contents)),
    }


def _plain(statements: Iterable[str]) -> list[str]:
    # Case and white space stay: inside a literal they can be the very bug.
    return [statement.strip().rstrip("; \n\t") for statement in statements]


def _integrity(path: Path) -> str:
    try:
        connection = open_template(path)
        try:
            return "; ".join(str(value) for (value,) in connection.execute("PRAGMA quick_check(5)"))
        finally:
            connection.close()
    except apsw.Error as error:
        return f"{type(error).__name__}: {error}"
