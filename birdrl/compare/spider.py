"""Equality up to a permutation of columns, as Spider's test-suite evaluation has it: mode `spider`.

Exact where the published code samples rows to prune its search: columns are told apart by all their values.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Hashable, Sequence

from birdrl.compare.syntax import without_distinct

Rows = Sequence[tuple[Hashable, ...]]
_TYPES: dict[type, str] = {kind: str(kind) for kind in (type(None), int, float, str, bytes)}
_CURRENT_YEAR = re.compile(r"YEAR\s*\(\s*CURDATE\s*\(\s*\)\s*\)\s*", re.IGNORECASE)


def prepare(sql: str) -> str:
    """The published clean-up of both sides: split operators joined, DISTINCT dropped, the year of CURDATE() fixed."""
    sql = sql.replace("> =", ">=").replace("< =", "<=").replace("! =", "!=")
    return _CURRENT_YEAR.sub("2020", without_distinct(sql))


def order_matters(gold_sql: str) -> bool:
    """As published: the words "order by" anywhere in the gold SQL."""
    return "order by" in gold_sql.lower()


def same_up_to_columns(a: Rows, b: Rows, ordered: bool) -> bool:
    """Whether some permutation of b's columns makes it a's rows, as a sequence if `ordered`, else as a bag.

    Values compare as in Python (1 == 1.0), except that the published code first compares rows sorted by the text of
    their values, so that (1, 10) and (1.0, 10) are not equal: "10" sorts before "1" there and after "1.0" here. Two
    tables without rows are equal whatever their columns.
    """
    if not a or not b:
        return not a and not b
    if len(a) != len(b) or len(a[0]) != len(b[0]):
        return False
    return _permuted(a, b, ordered) and _sort_alike(a, b, ordered)


def _sort_alike(a: Rows, b: Rows, ordered: bool) -> bool:
    """The published first look, on tables that are equal but for it."""
    if not any(type(value) is float and value.is_integer() for rows in (a, b) for row in rows for value in row):
        return True  # nothing else has an equal that reads differently
    sorted_a, sorted_b = ([tuple(sorted(row, key=_reading)) for row in rows] for rows in (a, b))
    return sorted_a == sorted_b if ordered else set(sorted_a) == set(sorted_b)


def _reading(value: Hashable) -> str:
    return str(value) + _TYPES[type(value)]


def _permuted(a: Rows, b: Rows, ordered: bool) -> bool:
    columns_a, columns_b = list(zip(*a, strict=True)), list(zip(*b, strict=True))
    if ordered:
        return Counter(columns_a) == Counter(columns_b)
    # A column can only stand for one that holds the same bag of values.
    bags_a = [frozenset(Counter(column).items()) for column in columns_a]
    bags_b = [frozenset(Counter(column).items()) for column in columns_b]
    if Counter(bags_a) != Counter(bags_b):
        return False
    return _permutable(columns_a, columns_b, bags_a, bags_b)


def _permutable(
    columns_a: list[tuple[Hashable, ...]],
    columns_b: list[tuple[Hashable, ...]],
    bags_a: Sequence[Hashable],
    bags_b: Sequence[Hashable],
) -> bool:
    """Match a's columns to b's one after the other; a partial match must agree as a bag of partial rows.

    Partial rows are kept as class numbers (equal rows so far have equal numbers), so each step costs one pass.
    """

    def extend(done: int, classes_a: Sequence[int], classes_b: Sequence[int], free: frozenset[int]) -> bool:
        if done == len(columns_a):
            return True
        tried: set[tuple[Hashable, ...]] = set()
        for candidate in sorted(free):
            # Equal columns of b are interchangeable: try one of them.
            if bags_a[done] != bags_b[candidate] or columns_b[candidate] in tried:
                continue
            tried.add(columns_b[candidate])
            numbers: dict[tuple[int, Hashable], int] = {}
            next_a = [numbers.setdefault(pair, len(numbers)) for pair in zip(classes_a, columns_a[done], strict=True)]
            known = len(numbers)
            next_b = [
                numbers.setdefault(pair, len(numbers)) for pair in zip(classes_b, columns_b[candidate], strict=True)
            ]
            agree = len(numbers) == known and Counter(next_a) == Counter(next_b)
            if agree and extend(done + 1, next_a, next_b, free - {candidate}):
                return True
        return False

    return extend(0, [0] * len(columns_a[0]), [0] * len(columns_b[0]), frozenset(range(len(columns_b))))
