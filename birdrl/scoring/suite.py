"""A light test suite: perturbed copies of a database on which a right answer stays right.

After Zhong et al., EMNLP 2020, whose suites are distilled from many generated databases; here (ours) k copies of the
database itself lose rows, gain duplicates and have their keys shuffled, without breaking a foreign key. They tell
answers apart that are equal by luck on one content; they do not tell a wrong gold.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from birdrl.gym.introspect import quote
from birdrl.gym.schema import ForeignKey, Schema, Table

KINDS = ("drop", "duplicate", "shuffle")


def perturbations(schema: Schema, copies: int, seed: int) -> list[tuple[str, ...]]:
    """One script per copy, to be run before either side; the same for the same arguments.

    A table without rowid makes a script fail on it: such a copy cannot be used and is to be left out.
    """
    scripts = []
    for number in range(copies):
        rng = Random(f"{seed}:{schema.db_id}:{number}")
        make = (_drop, _duplicate, _shuffle)[number % len(KINDS)]
        tables = [table for table in schema.tables if table.rows > 0]
        chosen = rng.sample(tables, max(1, (len(tables) + 1) // 2)) if tables else []
        scripts.append(tuple(sql for table in chosen for sql in make(table, schema, rng)))
    return [script for script in scripts if script]


def _some_rows(table: Table, rng: Random) -> str:
    """About a third of the rows of a small table, fewer of a large one."""
    step = 3 if table.rows <= 30 else rng.choice((4, 5, 7))
    return f"{quote(table.name)}.rowid % {step} = {rng.randrange(step)}"


def _drop(table: Table, schema: Schema, rng: Random) -> Iterator[str]:
    yield from _delete(table, _some_rows(table, rng), schema, (table.name,))


def _delete(table: Table, condition: str, schema: Schema, above: tuple[str, ...]) -> Iterator[str]:
    """Delete rows, those that refer to them first."""
    for child, key in _references_to(table, schema):
        if child.name not in above:
            keys = f"SELECT {quote(key.ref_column)} FROM {quote(table.name)} WHERE {condition}"
            yield from _delete(child, f"{quote(key.column)} IN ({keys})", schema, (*above, child.name))
    yield f"DELETE FROM {quote(table.name)} WHERE {condition}"


def _duplicate(table: Table, schema: Schema, rng: Random) -> Iterator[str]:
    columns = [column for column in table.columns if not column.primary_key]
    keys = [column for column in table.columns if column.primary_key]
    if columns and (not keys or [key.type for key in keys] == ["INTEGER"]):  # such a key numbers itself
        names = ", ".join(quote(column.name) for column in columns)
        name = quote(table.name)
        yield f"INSERT OR IGNORE INTO {name} ({names}) SELECT {names} FROM {name} WHERE {_some_rows(table, rng)}"


def _shuffle(table: Table, schema: Schema, rng: Random) -> Iterator[str]:
    """Some rows refer to the next key of the table that they refer to."""
    name = quote(table.name)
    for key in table.foreign_keys:
        column, target = quote(key.column), quote(key.ref_column)
        following = (
            f"SELECT {target} AS old, coalesce(lead({target}) OVER w, first_value({target}) OVER w) AS new "
            f"FROM {quote(key.ref_table)} WHERE {target} IS NOT NULL WINDOW w AS (ORDER BY {target})"
        )
        yield (
            f"UPDATE OR IGNORE {name} SET {column} = following.new FROM ({following}) AS following "
            f"WHERE {name}.{column} = following.old AND {_some_rows(table, rng)}"
        )


def _references_to(table: Table, schema: Schema) -> Iterator[tuple[Table, ForeignKey]]:
    for child in schema.tables:
        for key in child.foreign_keys:
            if key.ref_table.lower() == table.name.lower():
                yield child, key
