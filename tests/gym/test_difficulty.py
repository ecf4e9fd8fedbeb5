"""The difficulty estimate: more features, tables and statements are harder."""

from __future__ import annotations

import pytest

from birdrl.gym.difficulty import difficulty, points
from birdrl.gym.instance import Instance


def instance(issue: list[str], solution: list[str]) -> Instance:
    return Instance(instance_id="x", db_id="d", category="query", query="?", issue_sql=issue, sol_sql=solution)


@pytest.mark.parametrize(
    ("issue", "solution", "level"),
    [
        (["SELECT a FROM t WHERE b > 1"], ["SELECT a FROM t WHERE b >= 1"], "simple"),
        (
            ["SELECT a, COUNT(*) FROM t JOIN u USING (k) GROUP BY a"],
            ["SELECT a, COUNT(*) FROM t LEFT JOIN u USING (k) GROUP BY a HAVING COUNT(*) > 2"],
            "moderate",
        ),
        (
            ["SELECT a FROM t"],
            ["WITH s AS (SELECT a, RANK() OVER (ORDER BY b) AS r FROM t JOIN u USING (k)) SELECT a FROM s WHERE r = 1"],
            "challenging",
        ),
    ],
)
def test_levels(issue, solution, level):
    assert difficulty(instance(issue, solution)) == level


def test_another_dialect_counts_by_its_edit():
    foreign = ["CREATE FUNCTION f() RETURNS TRIGGER AS $$ BEGIN RETURN NEW; END; $$ LANGUAGE plpgsql"]
    assert points(instance(foreign, foreign)) == 0
    assert points(instance(["SELECT 1"], foreign)) >= 2
