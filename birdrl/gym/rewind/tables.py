"""Tables that statements work on: which fit, what to change in them, and work tables beside them."""

from __future__ import annotations

import re

from birdrl.gym.rewind.data import quoted, sql_literal
from birdrl.gym.rewind.draft import Bench
from birdrl.gym.schema import Column, Table

MAX_ROWS = 1500  # a state probe reads the whole table


def whole(table: Table | str) -> str:
    """The probe that shows a whole table."""
    return f"SELECT * FROM {quoted(table if isinstance(table, str) else table.name)}"


def draw_table(bench: Bench) -> Table | None:
    """A table that management statements can work on."""
    tables = [t for t in bench.data.tables(max_rows=MAX_ROWS) if bench.data.groups(t) or bench.data.measures(t)]
    return bench.rng.choice(tables) if tables else None


def draw_change(bench: Bench, table: Table, *, avoid: tuple[str, ...] = ()) -> tuple[Column, str, str] | None:
    """A column to update, the SET clause, and the change in words."""
    measures = [c for c in bench.data.measures(table) if c.name not in avoid]
    groups = [c for c in bench.data.groups(table) if c.name not in avoid]
    if measures and (not groups or bench.rng.random() < 0.6):
        column = bench.rng.choice(measures)
        name, step = quoted(column.name), bench.rng.choice([1, 2, 5, 10])
        clause, words = bench.rng.choice(
            [
                (f"{name} = {name} + {step}", f"raise {column.name} by {step}"),
                (f"{name} = {name} - {step}", f"lower {column.name} by {step}"),
                (f"{name} = {name} * 2", f"double {column.name}"),
                (f"{name} = 0", f"set {column.name} to 0"),
            ]
        )
        return column, clause, words
    if not groups:
        return None
    column = bench.rng.choice(groups)
    value = sql_literal(bench.rng.choice(bench.data.values(table, column)).value)
    return column, f"{quoted(column.name)} = {value}", f"set {column.name} to {value}"


def work_table(bench: Bench, table: Table) -> tuple[str, list[Column]] | None:
    """Name of a work table to be made by preprocess SQL, and the two or three columns that it takes over."""
    key = bench.data.key(table)
    others = [c for c in (*bench.data.groups(table), *bench.data.measures(table)) if c != key]
    unique = list({c.name: c for c in others}.values())
    if len(unique) < 2:
        return None
    chosen = bench.rng.sample(unique, 2)
    columns = [key, *chosen] if key else chosen
    prefix = bench.rng.choice(["archive", "backup", "report", "staging"])
    return f"{prefix}_{table.name.lower().replace(' ', '_')}", columns


def create_like(name: str, columns: list[Column]) -> str:
    """CREATE TABLE of a work table, untyped so that values stay as they are."""
    return f"CREATE TABLE {quoted(name)} ({', '.join(quoted(c.name) for c in columns)})"


def settings_table(bench: Bench) -> tuple[str, Table, Column, str, int] | None:
    """A keyed work table over the values of a grouping column: name, source, column, one value, a number."""
    options = [(t, c) for t in bench.data.tables(max_rows=MAX_ROWS) for c in bench.data.text_groups(t)]
    if not options:
        return None
    table, column = bench.rng.choice(options)
    value = sql_literal(bench.rng.choice(bench.data.values(table, column)).value)
    name = f"{column.name.lower()}_{bench.rng.choice(['quota', 'budget', 'target', 'limits'])}"
    return name, table, column, value, bench.rng.choice([5, 15, 25, 40, 75])


def make_settings(name: str, table: Table, column: Column) -> list[str]:
    """Preprocess SQL for a settings table: one row per value that occurs."""
    c = quoted(column.name)
    return [
        f"CREATE TABLE {quoted(name)} ({c} TEXT PRIMARY KEY, amount INTEGER, note TEXT)",
        f"INSERT INTO {quoted(name)} SELECT {c}, COUNT(*), 'old' FROM {quoted(table.name)} "
        f"WHERE {c} IS NOT NULL GROUP BY {c}",
    ]


def beside(prefix: str, table: Table) -> str:
    """Name of a table made by preprocess SQL, such as import_orders: plain letters, whatever the table is called."""
    plain = re.sub(r"[^a-z0-9]+", "_", table.name.lower()).strip("_")
    return f"{prefix}_{plain}"


def drop(name: str) -> str:
    """Clean-up of a table made by preprocess SQL."""
    return f"DROP TABLE IF EXISTS {quoted(name)}"


def keyed_tables(bench: Bench) -> list[tuple[Table, Column]]:
    """Tables of usable size with their single-column key."""
    tables = bench.data.tables(max_rows=MAX_ROWS)
    return [(table, key) for table in tables if (key := bench.data.key(table)) is not None]


def grouped_measures(bench: Bench) -> list[tuple[Table, Column, Column]]:
    """Tables of usable size with a grouping text column and a numeric column."""
    return [
        (table, group, measure)
        for table in bench.data.tables(max_rows=MAX_ROWS)
        for group in bench.data.text_groups(table)
        for measure in bench.data.measures(table)
    ]


def dated_tables(bench: Bench) -> list[tuple[Table, Column]]:
    """Tables of usable size with a column of dates."""
    return [(t, c) for t in bench.data.tables(max_rows=MAX_ROWS) for c in bench.data.dates(t)]


def titled_tables(bench: Bench) -> list[tuple[Table, Column]]:
    """Tables of usable size with a text column that names their rows."""
    tables = bench.data.tables(max_rows=MAX_ROWS)
    return [(t, title) for t in tables if (title := bench.data.title(t)) and not bench.data.is_number(t, title)]
