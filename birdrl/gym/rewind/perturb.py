"""Perturbed databases: small changes of a few rows under which a constant answer no longer passes."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from sqlglot import exp

from birdrl.gym.rewind.data import DataView, quoted, sql_literal
from birdrl.gym.rewind.draft import Draft
from birdrl.gym.rewind.tree import has_tree, owner, peek
from birdrl.gym.schema import Column, Table


def setups(draft: Draft, data: DataView, rng: Random, limit: int) -> Iterator[tuple[str, ...]]:
    """Up to `limit` candidate set-ups, the draft's own proposal first. A candidate may fail (constraints, no rowid)."""
    if draft.perturb_first:
        yield draft.perturb_first
    tables = [t for name in draft.perturb_tables if (t := data.schema.table(name)) and t.rows > 0]
    if not tables:
        return
    tested = _tested_values(draft, data)
    makers = [_delete, _change, _change, _duplicate]
    for number in range(limit):
        table = tables[number % len(tables)] if number < len(tables) else rng.choice(tables)
        statement = rng.choice(makers)(table, data, rng, tested)
        if statement is not None:
            yield (statement,)


def _rows(table: Table, rng: Random) -> str:
    """A condition that picks a few rows, the same ones on every run."""
    step = 3 if table.rows <= 12 else rng.choice([4, 5, 7])
    step = max(step, table.rows // 400)
    return f"rowid % {step} = {rng.randrange(min(step, table.rows))}"


def _tested_values(draft: Draft, data: DataView) -> list[tuple[Table, Column, str]]:
    """(table, column, literal) of the comparisons in the solution: values on which the bug may turn."""
    found: list[tuple[Table, Column, str]] = []
    for statement in draft.sol_sql:
        if not has_tree(statement):
            continue
        for node in peek(statement).find_all(exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE):
            if isinstance(node.this, exp.Column) and isinstance(node.expression, exp.Literal):
                place = owner(node.this, data.schema)
                if place is not None:
                    found.append(
                        (
                            *place,
                            sql_literal(node.expression.this)
                            if node.expression.is_string
                            else str(node.expression.this),
                        )
                    )
    return found


Tested = list[tuple[Table, Column, str]]


def _delete(table: Table, data: DataView, rng: Random, tested: Tested) -> str | None:
    return f"DELETE FROM {quoted(table.name)} WHERE {_rows(table, rng)}"


def _change(table: Table, data: DataView, rng: Random, tested: Tested) -> str | None:
    """Give a few rows the value that the solution tests, or another value that occurs in the column."""
    own = [(column, value) for owner_table, column, value in tested if owner_table.name == table.name]
    if own and rng.random() < 0.7:
        column, value = rng.choice(own)
    else:
        columns = [c for c in (*data.groups(table), *data.measures(table)) if not c.primary_key]
        if not columns:
            return None
        column = rng.choice(columns)
        value = sql_literal(rng.choice(data.values(table, column)).value)
    return f"UPDATE {quoted(table.name)} SET {quoted(column.name)} = {value} WHERE {_rows(table, rng)}"


def _duplicate(table: Table, data: DataView, rng: Random, tested: Tested) -> str | None:
    """Insert copies of a few rows; an integer primary key numbers itself."""
    columns = ", ".join(quoted(c.name) for c in table.columns if not c.primary_key)
    if not columns:
        return None
    name = quoted(table.name)
    return f"INSERT INTO {name} ({columns}) SELECT {columns} FROM {name} WHERE {_rows(table, rng)}"
