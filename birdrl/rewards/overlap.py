"""How much of one SQL text is in another: schema items and token bigrams (BIRD-RL B.2; Reasoning-SQL, SQL-Trail)."""

from __future__ import annotations

import re
from collections.abc import Sequence, Set
from itertools import pairwise
from pathlib import Path
from typing import Protocol

from birdrl.gym.schema import Schema
from birdrl.sql.features import SqlFeatures
from birdrl.sql.pool import ReplicaPool, unique_trajectory_id
from birdrl.sql.results import PolicySqlError

# Strings and quoted names whole, comments dropped: what is only written in a comment is not in the SQL.
_TOKEN = re.compile(r"--[^\n]*|/\*.*?(?:\*/|\Z)|'(?:[^']|'')*'?|\"[^\"]*\"?|\w+|[^\w\s]", re.DOTALL)


def f1(ours: Set[str], theirs: Set[str]) -> float:
    """Harmonic mean of precision and recall; 1 for two empty sets, 0 where one of them is (ours)."""
    if not ours or not theirs:
        return float(not ours and not theirs)
    return 2 * len(ours & theirs) / (len(ours) + len(theirs))


def jaccard(ours: Set[str], theirs: Set[str]) -> float:
    """Intersection over union; 1 for two empty sets."""
    union = ours | theirs
    return len(ours & theirs) / len(union) if union else 1.0


def bigrams(sql: str) -> set[str]:
    """Pairs of neighbouring tokens, lower case, comments left out."""
    tokens = [token.lower() for token in _TOKEN.findall(sql) if not token.startswith(("--", "/*")) and token != ";"]
    return {f"{first} {second}" for first, second in pairwise(tokens)}


def schema_items(features: SqlFeatures, schema: Schema) -> set[str]:
    """Tables and columns that a script names, lower case (B.2's s_p and s_g; what counts as an item is ours).

    A column whose table the text does not tell gets it from the schema where just one of the tables used has it.
    """
    known = [table for table in schema.tables if table.name.lower() in features.tables]
    items = set(features.tables)
    for column in features.columns:
        homes = [] if "." in column else [t.name.lower() for t in known if t.column(column) is not None]
        items.add(f"{homes[0]}.{column}" if len(homes) == 1 else column)
    return items


class TemplatePaths(Protocol):
    """Where a database's template lies."""

    def path(self, db_id: str) -> Path: ...


class SchemaReader:
    """What scripts name and use. Parsing happens in a worker that can be killed: degenerate SQL can hang a parser."""

    def __init__(self, templates: TemplatePaths, pool: ReplicaPool) -> None:
        self._templates, self._pool = templates, pool

    def features(self, db_id: str, scripts: Sequence[str]) -> SqlFeatures:
        """Nothing at all when the scripts do not parse, or not in time. Raises InfraError when the machinery fails."""
        text = ";\n".join(scripts)
        with self._pool.acquire(unique_trajectory_id(f"features:{db_id}"), self._templates.path(db_id)) as lease:
            try:
                return lease.features(text)
            except PolicySqlError:
                return SqlFeatures(frozenset(), frozenset(), frozenset(), 0)

    def items(self, db_id: str, scripts: Sequence[str], schema: Schema) -> set[str]:
        """The schema items of scripts, empty when they do not parse."""
        return schema_items(self.features(db_id, scripts), schema)
