"""SQL-Rewind with the embedded taxonomy: from verified SQL to an issue, its solution and its tests."""

from birdrl.gym.rewind import (
    aggregation,
    dates_text,
    ddl,
    dml,
    filtering,
    joins,
    nulls,
    ordering,
    personalization,
    projection,
    scripts,
    sets,
)
from birdrl.gym.rewind.draft import KINDS, BugKind, Draft, apply_construction, apply_mutation

__all__ = [
    "KINDS", "BugKind", "Draft", "aggregation", "apply_construction", "apply_mutation", "dates_text", "ddl", "dml",
    "filtering", "joins", "nulls", "ordering", "personalization", "projection", "scripts", "sets",
]  # fmt: skip
