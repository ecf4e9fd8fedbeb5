"""How issue texts read as a whole: how varied they are, and how much of the solution they hold."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from birdrl.gym.instance import FeatureTest, Instance
from birdrl.gym.leaks import leaks, overlap
from birdrl.gym.schema import Schema
from birdrl.gym.sql_text import masked, tokens

SHOWN_LEAKS = 5  # instance ids named in the measures


def wording(text: str, names: frozenset[str]) -> str:
    """The text without what comes from the data: literals and the schema's names become '?'."""
    words = [token for token in tokens(masked(text)) if token not in names]
    return re.sub(r"(\? )+", "? ", " ".join("?" if _is_value(word) else word for word in words))


def wordings(instances: Sequence[Instance], schemas: Mapping[str, Schema]) -> list[str]:
    """The wording of each instance's text, without the names of its database, where that is known, and of its SQL."""
    names = {db_id: _names(schema) for db_id, schema in schemas.items()}
    return [wording(i.query, names.get(i.db_id, frozenset()) | _sql_words(i)) for i in instances]


def text_leaks(instance: Instance) -> list[str]:
    """Why an instance's text gives its solution away; empty when it does not."""
    tests = [test for test in instance.test_cases if isinstance(test, FeatureTest)]
    named = [name for test in tests for name in (*test.required, *test.forbidden)]
    return leaks(instance.query, instance.issue_sql, instance.sol_sql, named)


def text_measures(instances: Sequence[Instance], schemas: Mapping[str, Schema]) -> dict[str, Any]:
    """Share of distinct texts and of distinct wordings, overlap with the solution's SQL, leaks.

    `solution_tokens` and `solution_runs`: mean shares of the tokens, and of the runs of three tokens, that only the
    solution has and that stand in the text. `leaks` counts texts that quote the solution or name the edit.
    """
    count = max(len(instances), 1)
    counts = Counter(wordings(instances, schemas))
    overlaps = [overlap(i.query, i.issue_sql, i.sol_sql) for i in instances]
    leaking = {i.instance_id: found for i in instances if (found := text_leaks(i))}
    return {
        "distinct_texts": round(len({i.query for i in instances}) / count, 4),
        "distinct_wordings": round(len(counts) / count, 4),
        "most_frequent_wording": max(counts.values(), default=0),
        "solution_tokens": round(sum(o.tokens for o in overlaps) / count, 4),
        "solution_runs": round(sum(o.runs for o in overlaps) / count, 4),
        "leaks": len(leaking),
        "leaking": {name: found[0] for name, found in sorted(leaking.items())[:SHOWN_LEAKS]},
    }


def _names(schema: Schema) -> frozenset[str]:
    words = [schema.db_id, *(t.name for t in schema.tables), *(c.name for t in schema.tables for c in t.columns)]
    labels = [c.label for t in schema.tables for c in t.columns] + [t.label for t in schema.tables]
    return frozenset(word for text in (*words, *labels) for word in tokens(text.replace("_", " ")) + tokens(text))


def _sql_words(instance: Instance) -> frozenset[str]:
    """Names and values in the SQL: in a text they are data, whatever their quotes."""
    return frozenset(tokens(" ".join((*instance.issue_sql, *instance.sol_sql)).replace("'", " ")))


def _is_value(word: str) -> bool:
    return not word[0].isalpha()
