"""Equality of result tables."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable
from typing import Any

from birdrl.sql.results import StatementResult

FLOAT_DECIMALS = 10


def canonical(value: Any) -> Hashable:
    """A typed, hashable form: numbers compare by value after rounding (1 equals 1.0), text never equals a
    number or a blob, NULL equals NULL. Infinities equal themselves; NaN, which SQLite turns into NULL, equals NULL.
    """
    if value is None:
        return ("null",)
    if isinstance(value, float):
        if math.isnan(value):
            return ("null",)
        # Adding 0.0 turns -0.0 into 0.0.
        return ("number", value if math.isinf(value) else round(value, FLOAT_DECIMALS) + 0.0)
    if isinstance(value, int):
        return ("number", value)
    return ("text" if isinstance(value, str) else "blob", value)


def tables_equal(a: StatementResult, b: StatementResult, *, ordered: bool) -> bool:
    """Whether two results are the same table: as a sequence of rows if `ordered`, else as a multiset.

    Column names are ignored, number and order of columns are not, also of tables without rows. A failed
    statement, one without a result table, and a truncated result equal nothing.
    """
    if not (a.has_table and b.has_table) or a.truncated or b.truncated:
        return False
    if len(a.columns) != len(b.columns) or len(a.rows) != len(b.rows):
        return False
    rows_a = [tuple(map(canonical, row)) for row in a.rows]
    rows_b = [tuple(map(canonical, row)) for row in b.rows]
    return rows_a == rows_b if ordered else Counter(rows_a) == Counter(rows_b)
