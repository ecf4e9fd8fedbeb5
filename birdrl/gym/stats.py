"""Statistics of a built gym, beside those of the published one (BIRD-RL, Tables 7 and 8)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from birdrl.files import canonical_json, sha256_text
from birdrl.gym.instance import CATEGORIES, Instance
from birdrl.gym.rewind.tree import tables_of
from birdrl.gym.schema import Schema
from birdrl.sql.features import extract_features

# BIRD-RL, Table 7: SIX-GYM-SQLite.
PAPER: dict[str, Any] = {
    "instances": 5000,
    "by_category": {"query": 3094, "management": 1087, "personalization": 819},
    "distinct_test_cases": 2477,
    "preprocess_sql": 3512,
    "clean_up_sql": 969,
    "multi_sql_instances": 454,
    "domains": 13,
}


def gym_stats(
    train: Sequence[Instance],
    evaluation: Sequence[Instance],
    *,
    schemas: Mapping[str, Schema],
    wanted: Mapping[str, int],
    reasons: Mapping[str, int],
    verified: Mapping[str, int],
) -> dict[str, Any]:
    """Everything that stats.json holds. `reasons` counts rejections, `verified` the verified SQL per database."""
    made = {"train": len(train), "eval": len(evaluation)}
    both = [*train, *evaluation]
    return {
        "wanted": dict(wanted),
        "shortfall": {split: max(0, wanted[split] - made[split]) for split in made},
        "all": _summary(both, schemas),
        "train": _summary(train, schemas),
        "eval": _summary(evaluation, schemas),
        "paper_table_7": PAPER,
        "rejections": _sorted_counts(reasons),
        "rejected": sum(reasons.values()),
        "acceptance_share": round(len(both) / max(len(both) + sum(reasons.values()), 1), 4),
        "verified_sql": {db_id: verified[db_id] for db_id in sorted(verified)},
        "kinds_in_both_splits": len({_kind(i) for i in train} & {_kind(i) for i in evaluation}),
    }


def _summary(instances: Sequence[Instance], schemas: Mapping[str, Schema]) -> dict[str, Any]:
    tests = [(instance.db_id, test) for instance in instances for test in instance.test_cases]
    categories = Counter(instance.category for instance in instances)
    return {
        "instances": len(instances),
        "by_category": {category: categories.get(category, 0) for category in CATEGORIES},
        "category_shares": {c: round(categories.get(c, 0) / max(len(instances), 1), 4) for c in CATEGORIES},
        "by_kind": _sorted_counts(Counter(_kind(i) for i in instances)),
        "by_family": _sorted_counts(Counter(i.bug.family if i.bug else "" for i in instances)),
        "by_database": {k: v for k, v in sorted(Counter(i.db_id for i in instances).items())},
        "domains": len({i.db_id for i in instances}),
        "test_cases": len(tests),
        "distinct_test_cases": len(
            {sha256_text(canonical_json([db_id, test.model_dump(mode="json")])) for db_id, test in tests}
        ),
        "test_cases_by_kind": _sorted_counts(Counter(test.kind for _, test in tests)),
        "perturbed_test_cases": sum(bool(getattr(test, "setup_sql", None)) for _, test in tests),
        "preprocess_sql": sum(len(i.preprocess_sql) for i in instances),
        "preprocess_instances": sum(bool(i.preprocess_sql) for i in instances),
        "clean_up_sql": sum(len(i.clean_up_sql) for i in instances),
        "clean_up_instances": sum(bool(i.clean_up_sql) for i in instances),
        "multi_sql_instances": sum(len(i.issue_sql) > 1 or len(i.sol_sql) > 1 for i in instances),
        "lengths": _lengths(instances, schemas),
        "features": _feature_coverage(instances),
    }


def _kind(instance: Instance) -> str:
    return instance.bug.kind if instance.bug else ""


def _sorted_counts(counts: Mapping[str, int]) -> dict[str, int]:
    """Most frequent first, then by name."""
    return dict(sorted(((k, v) for k, v in counts.items() if v), key=lambda item: (-item[1], item[0])))


def count_tokens(text: str) -> int:
    """Words, numbers and symbols: a lower bound of what a model's tokenizer makes of the text."""
    return len(re.findall(r"[A-Za-z]+|\d+|[^\w\s]", text))


def schema_text(instance: Instance, schema: Schema) -> str:
    """`table(column, ...)` of the tables that the issue SQL names: what a prompt must show at least."""
    names = dict.fromkeys(name for sql in instance.issue_sql for name in tables_of(sql))
    tables = [table for name in names if (table := schema.table(name))]
    return " ".join(f"{t.name}({', '.join(c.name for c in t.columns)})" for t in tables)


def _lengths(instances: Sequence[Instance], schemas: Mapping[str, Schema]) -> dict[str, dict[str, dict[str, float]]]:
    """Mean, median and maximum of characters and of tokens, per part."""
    parts: dict[str, Callable[[Instance], str]] = {
        "query": lambda i: i.query,
        "issue_sql": lambda i: "; ".join(i.issue_sql),
        "sol_sql": lambda i: "; ".join(i.sol_sql),
        "schema_query_issue": lambda i: " ".join([schema_text(i, schemas[i.db_id]), i.query, *i.issue_sql]),
    }
    texts = {name: [part(i) for i in instances] for name, part in parts.items()}
    return {
        name: {
            "characters": _spread(len(text) for text in found),
            "tokens": _spread(count_tokens(text) for text in found),
        }
        for name, found in texts.items()
    }


def _spread(values: Iterable[int]) -> dict[str, float]:
    ordered = sorted(values)
    if not ordered:
        return {"mean": 0.0, "median": 0.0, "max": 0.0}
    mean = sum(ordered) / len(ordered)
    return {"mean": round(mean, 1), "median": float(ordered[len(ordered) // 2]), "max": float(ordered[-1])}


def _feature_coverage(instances: Sequence[Instance]) -> dict[str, int]:
    """In how many solutions each SQL feature occurs (plain functions left out)."""
    counts: Counter[str] = Counter()
    for instance in instances:
        names: set[str] = set()
        for sql in instance.sol_sql:
            names |= extract_features(sql).names
        counts.update(name for name in names if not name.startswith("function:"))
    return _sorted_counts(counts)
