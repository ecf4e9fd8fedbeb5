"""Row conditions drawn from the data, with their words and their near misses; used by the constructions."""

from __future__ import annotations

from dataclasses import dataclass

from birdrl.gym.rewind.data import quoted, sql_literal
from birdrl.gym.rewind.draft import Bench
from birdrl.gym.schema import Column, Table


@dataclass(frozen=True)
class Condition:
    """A condition that some but not all rows meet, and a wrong one that looks like it."""

    sql: str
    phrase: str
    wrong_sql: str
    wrong_cause: str
    column: Column


def draw_condition(bench: Bench, table: Table, *, avoid: tuple[str, ...] = ()) -> Condition | None:
    """A condition on one column of the table, or None when no column is fit."""
    groups = [c for c in bench.data.groups(table) if c.name not in avoid]
    measures = [c for c in bench.data.measures(table) if c.name not in avoid]
    if not groups and not measures:
        return None
    if measures and (not groups or bench.rng.random() < 0.5):
        return _bound(bench, table, bench.rng.choice(measures))
    return _equal(bench, table, bench.rng.choice(groups))


def _equal(bench: Bench, table: Table, column: Column) -> Condition:
    right, wrong = bench.rng.sample([v.value for v in bench.data.values(table, column)], 2)
    name = quoted(column.name)
    return Condition(
        sql=f"{name} = {sql_literal(right)}",
        phrase=f"{column.name} {sql_literal(right)}",
        wrong_sql=f"{name} = {sql_literal(wrong)}",
        wrong_cause=f"it looks at {column.name} {sql_literal(wrong)}",
        column=column,
    )


def _bound(bench: Bench, table: Table, column: Column) -> Condition:
    values = sorted(v.value for v in bench.data.values(table, column))
    bound = values[bench.rng.randrange(len(values) // 4, max(len(values) // 4 + 1, len(values) * 3 // 4))]
    name, value = quoted(column.name), sql_literal(bound)
    operator, words, opposite, boundary = bench.rng.choice(
        [
            (">", "above", "<", ">="),
            ("<", "below", ">", "<="),
            (">=", "at least", "<=", ">"),
            ("<=", "at most", ">=", "<"),
        ]
    )
    flipped = bench.rng.random() < 0.6
    wrong = opposite if flipped else boundary
    cause = (
        f"{column.name} is compared the wrong way round"
        if flipped
        else f"{column.name} of exactly {value} is treated wrongly"
    )
    return Condition(
        sql=f"{name} {operator} {value}",
        phrase=f"{column.name} {words} {value}",
        wrong_sql=f"{name} {wrong} {value}",
        wrong_cause=cause,
        column=column,
    )
