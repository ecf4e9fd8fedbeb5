"""Constraints: conflicts without a key, keys that are not enforced, checks and indexes that get lost."""

from __future__ import annotations

from birdrl.gym.rewind.data import quoted, sql_literal
from birdrl.gym.rewind.draft import Bench, Draft, Text, construction
from birdrl.gym.rewind.tables import MAX_ROWS, beside, drop, grouped_measures, keyed_tables, settings_table, whole
from birdrl.gym.schema import Column, ForeignKey, Table

_KEYS_ON = "PRAGMA foreign_keys = ON"


@construction("constraints", "management")
def conflict_without_key(bench: Bench) -> Draft | None:
    """An upsert names a conflict target that no unique key backs."""
    drawn = settings_table(bench)
    if drawn is None:
        return None
    name, table, column, value, amount = drawn
    c, n = quoted(column.name), quoted(name)
    make = f"CREATE TABLE {n} AS SELECT {c}, COUNT(*) AS amount FROM {quoted(table.name)} "
    make += f"WHERE {c} NOTNULL GROUP BY {c}"
    upsert = f"INSERT INTO {n} ({c}, amount) VALUES ({value}, {amount}) "
    upsert += f"ON CONFLICT ({c}) DO UPDATE SET amount = excluded.amount"
    index = f"{name.replace(' ', '_')}_key"
    report = bench.words.pick(
        f"It complains that the clause does not match any PRIMARY KEY or UNIQUE constraint. {column.name} identifies a "
        f"row of {name} and must be allowed once only; then amount of {value} becomes {amount}.",
        f"In {name} no {column.name} may ever occur twice, and this should set {value} to {amount}; it stops with an "
        "error about the constraint.",
    )
    text = Text(
        report, f"nothing in {name} says that {column.name} is unique",
        f"{column.name} is unique in {name}, and amount of {value} is {amount}", issue_fails=True,
    )  # fmt: skip
    unique = f'SELECT COUNT(*) FROM PRAGMA_INDEX_LIST({sql_literal(name)}) WHERE "unique" = 1'
    return bench.state(
        [upsert], [f"CREATE UNIQUE INDEX {quoted(index)} ON {n} ({c})", upsert], text, [whole(name), unique],
        tables=[table], preprocess=[make], clean_up=[drop(name)], raw=True,
    )  # fmt: skip


def _family(bench: Bench) -> tuple[Table, ForeignKey, Table, Column, str, str, list[str]] | None:
    """Copies of a child and its parent with a cascading foreign key: names of both, and their preprocess SQL."""
    options = [
        (c, k, p, title)
        for c, k, p in bench.data.links()
        if c.rows <= MAX_ROWS and p.rows <= MAX_ROWS and (title := bench.data.title(p)) and title.name != k.ref_column
        if (own := bench.data.key(p)) and own.name == k.ref_column
    ]
    if not options:
        return None
    child, key, parent, title = bench.rng.choice(options)
    above, below = beside("main", parent), beside("part", child)
    k, f, n = quoted(key.ref_column), quoted(key.column), quoted(title.name)
    make = [
        f"CREATE TABLE {above} ({k} INTEGER PRIMARY KEY, {n} TEXT)",
        f"INSERT INTO {above} SELECT {k}, {n} FROM {quoted(parent.name)}",
        f"CREATE TABLE {below} (no INTEGER PRIMARY KEY, {f} INTEGER REFERENCES {above} ({k}) ON DELETE CASCADE)",
        f"INSERT INTO {below} ({f}) SELECT {f} FROM {quoted(child.name)} WHERE {f} IN (SELECT {k} FROM {above}) "
        f"ORDER BY {f}",
    ]
    return child, key, parent, title, above, below, make


def _used_key(bench: Bench, child: Table, key: ForeignKey) -> str | None:
    column = child.column(key.column)
    values = bench.data.values(child, column) if column else []
    return sql_literal(bench.rng.choice(values).value) if values else None


@construction("constraints", "management")
def replace_cascades(bench: Bench) -> Draft | None:
    """INSERT OR REPLACE deletes the old row first, and its children go with it."""
    drawn = _family(bench)
    if drawn is None:
        return None
    child, key, parent, title, above, below, make = drawn
    value = _used_key(bench, child, key)
    if value is None:
        return None
    k, n = quoted(key.ref_column), quoted(title.name)
    name = f"'{bench.rng.choice(['Renamed', 'Updated', 'New'])} {title.name}'"
    row = f"INTO {above} ({k}, {n}) VALUES ({value}, {name})"
    report = bench.words.pick(
        f"After I changed {title.name} of {value} in {above}, its rows in {below} are gone; they must stay.",
        f"Storing the new {title.name} {name} for {value} empties {below} for it. Only {above} should change.",
    )
    text = Text(
        report, f"the old row of {above} is deleted first, and its rows in {below} go with it",
        f"{title.name} of {value} becomes {name}, {below} stays as it is",
    )  # fmt: skip
    return bench.state(
        [f"INSERT OR REPLACE {row}"], [f"INSERT {row} ON CONFLICT ({k}) DO UPDATE SET {n} = excluded.{n}"],
        text, [whole(above), whole(below)], tables=[parent, child], preprocess=[_KEYS_ON, *make],
        clean_up=[drop(below), drop(above)], raw=True,
    )  # fmt: skip


@construction("constraints", "management")
def foreign_keys_off(bench: Bench) -> Draft | None:
    """ON DELETE CASCADE does nothing: foreign keys are off unless the connection turns them on."""
    drawn = _family(bench)
    if drawn is None:
        return None
    child, key, parent, _, above, below, make = drawn
    value = _used_key(bench, child, key)
    if value is None:
        return None
    delete = f"DELETE FROM {above} WHERE {quoted(key.ref_column)} = {value}"
    report = bench.words.pick(
        f"{below} is declared to go with its row in {above}, but after the delete of {value} its rows are still there.",
        f"I remove {value} from {above} and {below} keeps rows that point to nothing, although it says CASCADE.",
    )
    text = Text(
        report, "foreign keys are not enforced on this connection",
        f"{value} goes from {above} and its rows from {below}, as declared",
    )  # fmt: skip
    return bench.state(
        [delete], [_KEYS_ON, delete], text, [whole(above), whole(below)], tables=[parent, child], preprocess=make,
        clean_up=[drop(below), drop(above)], raw=True,
    )  # fmt: skip


@construction("constraints", "management")
def rebuild_loses_index(bench: Bench) -> Draft | None:
    """A table is rebuilt to drop a column, and its unique index is not made again."""
    options = [(t, k, c) for t, k in keyed_tables(bench) for c in bench.data.measures(t) if c != k]
    if not options:
        return None
    table, key, extra = bench.rng.choice(options)
    name, k, e = beside("register", table), quoted(key.name), quoted(extra.name)
    index, new = f"{name}_key", f"{name}_new"
    make = [
        f"CREATE TABLE {name} AS SELECT {k}, {e}, 'ok' AS state FROM {quoted(table.name)}",
        f"CREATE UNIQUE INDEX {index} ON {name} ({k})",
    ]
    steps = [
        f"CREATE TABLE {new} AS SELECT {k}, state FROM {name}",
        f"DROP TABLE {name}",
        f"ALTER TABLE {new} RENAME TO {name}",
    ]
    report = bench.words.pick(
        f"Since {name} was rebuilt without {extra.name}, the same {key.name} can be stored twice; that must be "
        "impossible as before.",
        f"The rebuild takes {extra.name} out of {name} as wanted, but {key.name} is no longer kept from repeating.",
    )
    text = Text(
        report, "the unique index went with the old table", f"{name} without {extra.name}, {key.name} still unique"
    )
    unique = f"SELECT COUNT(*) FROM PRAGMA_INDEX_LIST('{name}') WHERE \"unique\" = 1"
    return bench.state(
        steps, [*steps, f"CREATE UNIQUE INDEX {index} ON {name} ({k})"], text, [whole(name), unique], tables=[table],
        preprocess=make, clean_up=[drop(name)], raw=True,
    )  # fmt: skip


@construction("constraints", "management")
def check_missing(bench: Bench) -> Draft | None:
    """A table takes in values that it should refuse."""
    options = [(t, k, m) for t, k in keyed_tables(bench) for m in bench.data.measures(t) if m != k]
    if not options:
        return None
    table, key, measure = bench.rng.choice(options)
    values = sorted(v.value for v in bench.data.values(table, measure))
    bound = sql_literal(values[len(values) // bench.rng.choice([2, 3, 4])])
    name, k, m = beside("checked", table), quoted(key.name), quoted(measure.name)
    operator, words = bench.rng.choice([(">=", "below"), ("<=", "above")])
    fill = f"INSERT OR IGNORE INTO {name} SELECT {k}, {m} FROM {quoted(table.name)}"
    head = f"CREATE TABLE {name} ({k} PRIMARY KEY, {m}{{}})"
    report = bench.words.pick(
        f"{name} must refuse rows with {measure.name} {words} {bound}, by itself and from now on; at present it "
        "takes all.",
        f"Rows of {measure.name} {words} {bound} end up in {name}. The table should not accept them, now or later.",
    )
    text = Text(
        report, f"{name} accepts any {measure.name}", f"{name} never holds a row with {measure.name} {words} {bound}"
    )
    probe = f"SELECT COUNT(*) FROM sqlite_master WHERE name = '{name}' AND sql LIKE '%CHECK%'"
    return bench.state(
        [head.format(""), fill], [head.format(f" CHECK ({m} {operator} {bound})"), fill], text, [whole(name), probe],
        tables=[table], clean_up=[drop(name)], raw=True,
    )  # fmt: skip


@construction("constraints", "management")
def not_null_without_default(bench: Bench) -> Draft | None:
    """A mandatory column is added to a table that has rows."""
    options = grouped_measures(bench)
    if not options:
        return None
    table, _, _ = bench.rng.choice(options)
    taken = {column.name.lower() for column in table.columns}
    names = [n for n in ("audit_state", "review_state", "origin_code", "visibility") if n not in taken]
    name, value = bench.rng.choice(names), bench.rng.choice(["open", "unknown", "internal", "new"])
    t = quoted(table.name)
    head = f"ALTER TABLE {t} ADD COLUMN {name} TEXT NOT NULL"
    report = bench.words.pick(
        f"Cannot add a NOT NULL column: {table.name} needs {name}, never empty, and existing rows should have "
        f"'{value}'.",
        f"Adding the mandatory {name} to {table.name} fails. All rows that exist are to get '{value}'.",
    )
    text = Text(
        report, "existing rows would have nothing in the new column",
        f"{table.name} has a mandatory {name}, '{value}' in the rows that exist", issue_fails=True,
    )  # fmt: skip
    required = f"SELECT \"notnull\" FROM PRAGMA_TABLE_INFO({sql_literal(table.name)}) WHERE name = '{name}'"
    return bench.state([head], [f"{head} DEFAULT '{value}'"], text, [whole(table), required], tables=[table], raw=True)
