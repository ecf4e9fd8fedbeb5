"""How hard an issue is to repair, estimated from its SQL. The scale's words are BIRD's, the points are ours."""

from __future__ import annotations

from birdrl.gym.instance import Instance
from birdrl.gym.sql_text import changed_tokens, sql_tokens
from birdrl.sql.features import SqlFeatures, extract_features
from birdrl.sql.results import PolicySqlError

LEVELS = ("simple", "moderate", "challenging")
# A level's issues have fewer points than its bound; the last level has none.
BOUNDS = (3, 5)
_POINTS = {
    "subquery": 1, "correlated_subquery": 1, "cte": 1, "recursive_cte": 2, "window": 1, "union": 1, "intersect": 1,
    "except": 1, "having": 1, "case": 1, "exists": 1, "upsert": 1, "create_trigger": 2, "alter_table": 1,
    "transaction": 1, "left_join": 1, "date_function": 1,
}  # fmt: skip
SMALL_EDIT, LARGE_EDIT = 3, 12  # tokens that differ between issue and solution


def difficulty(instance: Instance) -> str:
    """`simple`, `moderate` or `challenging`.

    Points: SQL features of the solution, tables and statements beyond the first, and the size of the edit.
    """
    score = points(instance)
    return next((level for level, bound in zip(LEVELS, BOUNDS, strict=False) if score < bound), LEVELS[-1])


def points(instance: Instance) -> int:
    """The points that `difficulty` maps to a level. SQL that does not parse counts by its edit alone."""
    found = _features(instance.sol_sql)
    score = sum(value for name, value in _POINTS.items() if name in found.names)
    score += min(max(len(found.tables) - 1, 0), 3)
    score += min(len(instance.sol_sql) - 1, 3) if instance.sol_sql else 0
    edit = changed_tokens(sql_tokens(instance.issue_sql), sql_tokens(instance.sol_sql))
    return score + (edit > SMALL_EDIT) + (edit > LARGE_EDIT)


def _features(statements: list[str]) -> SqlFeatures:
    try:
        return extract_features(";\n".join(statements))
    except PolicySqlError:  # another dialect's syntax in an imported row
        return SqlFeatures(frozenset(), frozenset(), frozenset(), len(statements))
