"""Reasons are counted by their cause."""

from __future__ import annotations

import pytest

from birdrl.gym.reasons import count_classes, reason_class


@pytest.mark.parametrize(
    ("reason", "cause"),
    [
        (
            "/data/dbs/music_2/music_2.sqlite: empty (7 tables without any row); fill it",
            "empty (N tables without any row)",
        ),
        (
            "unknown database 'music_2': dbs/music_2/music_2.sqlite: empty (7 tables without any row); fill it",
            "unknown database ...: empty (N tables without any row)",
        ),
        ("near-duplicate", "near-duplicate"),
        ('does not execute: near "FROMM": syntax error', "does not execute: near"),
        ("does not execute: no such column: nme", "does not execute: no such column"),
        ("does not execute: 1st ORDER BY term does not match", "does not execute: 1st ORDER BY term does not match"),
        ("gives more than 10,000 rows", "gives more than N rows"),
    ],
)
def test_a_cause_has_no_names_paths_or_numbers(reason, cause):
    assert reason_class(reason) == cause


def test_equal_causes_count_together():
    reasons = {f"unknown database 'd{i}': dbs/d{i}/d{i}.sqlite: empty ({i} tables without any row)": i for i in (2, 3)}
    assert count_classes(reasons) == {"unknown database ...: empty (N tables without any row)": 5}
