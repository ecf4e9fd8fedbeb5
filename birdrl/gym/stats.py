"""Statistics of a gym, beside those of the published one (BIRD-RL, Tables 7 and 8, Figure 3)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from birdrl.files import canonical_json, sha256_text
from birdrl.gym.instance import CATEGORIES, Instance
from birdrl.gym.paper import LENGTH_BIN, TABLE_7, TABLE_8
from birdrl.gym.reasons import count_classes
from birdrl.gym.rewind.tree import tables_of
from birdrl.gym.schema import Schema
from birdrl.gym.sql_text import count_tokens
from birdrl.gym.text_measures import text_measures
from birdrl.sql.features import extract_features
from birdrl.sql.results import PolicySqlError

if TYPE_CHECKING:
    from birdrl.gym.build import Gym


def gym_stats(gym: Gym, schemas: Mapping[str, Schema]) -> dict[str, Any]:
    """Everything that stats.json holds about a built gym."""
    made = {"train": len(gym.train), "eval": len(gym.evaluation)}
    both = [*gym.train, *gym.evaluation]
    rejected = sum(gym.reasons.values())
    drafts = {reason: count for reason, count in gym.reasons.items() if not reason.startswith("verified SQL: ")}
    return {
        "wanted": dict(gym.wanted),
        "shortfall": {split: max(0, gym.wanted[split] - made[split]) for split in made},
        "all": summary(both, schemas),
        "train": summary(gym.train, schemas),
        "eval": summary(gym.evaluation, schemas),
        "paper_table_7": TABLE_7,
        "paper_table_8": TABLE_8,
        "rejections": _sorted_counts(gym.reasons),
        "rejected": rejected,
        "unusable": {
            **{sort: count_classes(reasons) for sort, reasons in gym.unusable.items()},
            "drafts": count_classes(drafts),
        },
        "acceptance_share": round(len(both) / max(len(both) + rejected, 1), 4),
        "verified_sql": {db_id: gym.verified[db_id] for db_id in sorted(gym.verified)},
        "kinds_in_both_splits": len({_kind(i) for i in gym.train} & {_kind(i) for i in gym.evaluation}),
    }


def summary(instances: Sequence[Instance], schemas: Mapping[str, Schema]) -> dict[str, Any]:
    """Statistics of any instances; `schemas` of the databases that are known."""
    tests = [(instance.db_id, test) for instance in instances for test in instance.test_cases]
    categories = Counter(instance.category for instance in instances)
    return {
        "instances": len(instances),
        "by_category": {category: categories.get(category, 0) for category in CATEGORIES},
        "category_shares": {c: round(categories.get(c, 0) / max(len(instances), 1), 4) for c in CATEGORIES},
        "by_kind": _sorted_counts(Counter(_kind(i) for i in instances)),
        "by_family": _sorted_counts(Counter(i.bug.family if i.bug else "" for i in instances)),
        "by_database": {k: v for k, v in sorted(Counter(i.db_id for i in instances).items())},
        "by_difficulty": _sorted_counts(Counter(i.difficulty or "unknown" for i in instances)),
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
        "lengths_by_category": _lengths_by_category(instances),
        "text": text_measures(instances, schemas),
        "features": _feature_coverage(instances),
    }


def _kind(instance: Instance) -> str:
    return instance.bug.kind if instance.bug else ""


def _sorted_counts(counts: Mapping[str, int]) -> dict[str, int]:
    """Most frequent first, then by name."""
    return dict(sorted(((k, v) for k, v in counts.items() if v), key=lambda item: (-item[1], item[0])))


def schema_text(instance: Instance, schema: Schema) -> str:
    """`table(column, ...)` of the tables that the issue SQL names: what a prompt must show at least."""
    names = dict.fromkeys(name for sql in instance.issue_sql for name in tables_of(sql))
    tables = [table for name in names if (table := schema.table(name))]
    return " ".join(f"{t.name}({', '.join(c.name for c in t.columns)})" for t in tables)


def _test_text(test: Any) -> str:
    """A test as its reader sees it: Python source, or its fields."""
    source = getattr(test, "source", None)
    return source if source is not None else canonical_json(test.model_dump(mode="json"))


# Parts whose lengths Table 8 gives: each maps an instance to texts.
_PARTS: dict[str, Callable[[Instance], list[str]]] = {
    "query": lambda i: [i.query],
    "issue_sql": lambda i: ["; ".join(i.issue_sql)],
    "sol_sql": lambda i: ["; ".join(i.sol_sql)],
    "tests": lambda i: [_test_text(test) for test in i.test_cases],
}


def _lengths_by_category(instances: Sequence[Instance]) -> dict[str, dict[str, dict[str, float]]]:
    """Table 8: tokens per part, by category and overall."""
    groups: dict[str, list[Instance]] = {
        category: [i for i in instances if i.category == category] for category in CATEGORIES
    }
    groups["overall"] = list(instances)
    return {
        group: {
            name: _spread(count_tokens(text) for instance in members for text in part(instance))
            for name, part in _PARTS.items()
        }
        for group, members in groups.items()
    }


def _lengths(instances: Sequence[Instance], schemas: Mapping[str, Schema]) -> dict[str, Any]:
    """Mean, median and maximum of characters and of tokens, and a histogram of tokens, per part."""
    parts = dict(_PARTS)
    if schemas:
        parts["schema_query_issue"] = lambda i: [
            " ".join([schema_text(i, schemas[i.db_id]) if i.db_id in schemas else "", i.query, *i.issue_sql])
        ]
    found: dict[str, Any] = {}
    for name, part in parts.items():
        texts = [text for instance in instances for text in part(instance)]
        sizes = [count_tokens(text) for text in texts]
        bins = Counter(size // LENGTH_BIN * LENGTH_BIN for size in sizes)
        found[name] = {
            "characters": _spread(len(text) for text in texts),
            "tokens": _spread(sizes),
            "histogram": {str(start): bins[start] for start in sorted(bins)},
        }
    return found


def _spread(values: Iterable[int]) -> dict[str, float]:
    ordered = sorted(values)
    if not ordered:
        return {"mean": 0.0, "median": 0.0, "max": 0.0}
    mean = sum(ordered) / len(ordered)
    return {"mean": round(mean, 2), "median": float(ordered[len(ordered) // 2]), "max": float(ordered[-1])}


def _feature_coverage(instances: Sequence[Instance]) -> dict[str, int]:
    """Figure 3: in how many solutions each SQL feature occurs (plain functions left out)."""
    counts: Counter[str] = Counter()
    for instance in instances:
        counts.update(frozenset().union(*(_feature_names(sql) for sql in instance.sol_sql)))
    return _sorted_counts(counts)


@lru_cache(maxsize=1 << 16)  # each statement belongs to one side and to the whole
def _feature_names(sql: str) -> frozenset[str]:
    try:
        return frozenset(name for name in extract_features(sql).names if not name.startswith("function:"))
    except PolicySqlError:  # another dialect in an imported row
        return frozenset(("unparsed",))
