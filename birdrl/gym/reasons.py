"""Reasons for leaving something out, without names and numbers, so that equal causes count together."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping

_PATH = re.compile(r"(?:^|(?<=: ))\S*[/\\]\S*: ")
# What SQLite and the parser add after the cause.
_DETAILS = re.compile(
    r"(no such (?:column|table|function)|ambiguous column name|near (?=\")|unrecognized token|Expecting).*"
)


def reason_class(reason: str) -> str:
    """The cause alone: no path in front, no remedy behind, no name and no number inside."""
    text = _PATH.sub("", reason).partition(";")[0]
    text = _DETAILS.sub(lambda match: match.group(1), text)
    text = re.sub(r"'[^']*'|\"[^\"]*\"", "...", text)
    return re.sub(r"\d+(?:[.,]\d+)*(?!\w)", "N", text).strip()


def count_classes(reasons: Mapping[str, int]) -> dict[str, int]:
    """Counts by cause, most frequent first."""
    counts: Counter[str] = Counter()
    for reason, count in reasons.items():
        counts[reason_class(reason)] += count
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))
