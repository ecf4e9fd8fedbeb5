"""Statements that change data, in another product's dialect."""

from __future__ import annotations

from birdrl.gym.rewind.conditions import draw_condition
from birdrl.gym.rewind.data import quoted, sql_literal
from birdrl.gym.rewind.draft import Bench, Draft, Text, construction
from birdrl.gym.rewind.tables import (
    MAX_ROWS,
    beside,
    create_like,
    draw_table,
    drop,
    keyed_tables,
    make_settings,
    settings_table,
    whole,
    work_table,
)


@construction("dialects", "management")
def update_join(bench: Bench) -> Draft | None:
    """UPDATE ... JOIN, as MySQL has it."""
    options = [
        (c, k, p, m)
        for c, k, p in bench.data.links()
        if c.rows <= MAX_ROWS and p.rows <= MAX_ROWS
        for m in bench.data.measures(c)
    ]
    if not options:
        return None
    child, key, parent, measure = bench.rng.choice(options)
    condition = draw_condition(bench, parent, avoid=(key.ref_column,))
    if condition is None:
        return None
    c, p, m, value = quoted(child.name), quoted(parent.name), quoted(measure.name), bench.rng.choice([0, 1, 5, 10])
    link = f"{quoted(key.column)} IN (SELECT {quoted(key.ref_column)} FROM {p} WHERE {condition.sql})"
    report = bench.words.pick(
        f'Syntax error near "JOIN". {measure.name} of {child.name} should become {value} where the {parent.name} has '
        f"{condition.phrase}.",
        f"Set {measure.name} to {value} for all {child.name} whose {parent.name} ({key.column}) has "
        f"{condition.phrase}; MySQL accepts this.",
    )
    text = Text(
        report, "SQLite has no UPDATE with JOIN",
        f"{measure.name} is {value} for {child.name} whose {parent.name} has {condition.phrase}", issue_fails=True,
    )  # fmt: skip
    issue = f"UPDATE {c} JOIN {p} ON {c}.{quoted(key.column)} = {p}.{quoted(key.ref_column)} SET {c}.{m} = {value}"
    return bench.state(
        [f"{issue} WHERE {p}.{condition.sql}"], [f"UPDATE {c} SET {m} = {value} WHERE {link}"], text, [whole(child)],
        tables=[child, parent], raw=True,
    )  # fmt: skip


@construction("dialects", "management")
def truncate_table(bench: Bench) -> Draft | None:
    """TRUNCATE before a table is filled again."""
    table = draw_table(bench)
    work = work_table(bench, table) if table else None
    condition = draw_condition(bench, table) if table else None
    if table is None or work is None or condition is None:
        return None
    name, columns = work
    listed = ", ".join(quoted(c.name) for c in columns)
    fill = f"INSERT INTO {quoted(name)} SELECT {listed} FROM {quoted(table.name)}"
    again = f"{fill} WHERE {condition.sql}"
    report = bench.words.pick(
        f"{name} must be emptied before it gets {table.name} with {condition.phrase}, but TRUNCATE is a syntax error.",
        f"Refill {name} from scratch with {condition.phrase}; the first statement is not understood.",
    )
    text = Text(
        report, "SQLite has no TRUNCATE", f"{name} holds nothing but {table.name} with {condition.phrase}",
        issue_fails=True,
    )  # fmt: skip
    return bench.state(
        [f"TRUNCATE TABLE {quoted(name)}", again], [f"DELETE FROM {quoted(name)}", again], text, [whole(name)],
        tables=[table], preprocess=[create_like(name, columns), fill], clean_up=[drop(name)], raw=True,
    )  # fmt: skip


@construction("dialects", "management")
def delete_group_by(bench: Bench) -> Draft | None:
    """DELETE with GROUP BY and HAVING, to clear repeated rows."""
    table = draw_table(bench)
    work = work_table(bench, table) if table else None
    condition = draw_condition(bench, table) if table else None
    if table is None or work is None or condition is None:
        return None
    name, columns = work
    n, listed, t = quoted(name), ", ".join(quoted(c.name) for c in columns), quoted(table.name)
    make = f"CREATE TABLE {n} AS SELECT {listed} FROM {t} UNION ALL SELECT {listed} FROM {t} WHERE {condition.sql}"
    names = ", ".join(c.name for c in columns)
    report = bench.words.pick(
        f'Some rows stand twice in {name}; of each {names} one should stay. It says syntax error near "GROUP".',
        f"How do I clear {name} of rows that agree in {names}, keeping one of each?",
    )
    text = Text(
        report, "a delete takes no groups", f"each combination of {names} stays once in {name}", issue_fails=True
    )
    kept = f"SELECT MIN(rowid) FROM {n} GROUP BY {listed}"
    return bench.state(
        [f"DELETE FROM {n} GROUP BY {listed} HAVING COUNT(*) > 1"], [f"DELETE FROM {n} WHERE rowid NOT IN ({kept})"],
        text, [whole(name)], tables=[table], preprocess=[make], clean_up=[drop(name)], raw=True,
    )  # fmt: skip


@construction("dialects", "management")
def auto_increment(bench: Bench) -> Draft | None:
    """AUTO_INCREMENT, as MySQL numbers rows."""
    options = keyed_tables(bench)
    if not options:
        return None
    table, key = bench.rng.choice(options)
    condition = draw_condition(bench, table)
    if condition is None:
        return None
    name, k = beside(bench.rng.choice(["numbered", "queue", "ticket"]), table), quoted(key.name)
    if bench.schema.table(name):
        return None
    head = f"CREATE TABLE {name} (no {{}}, {k})"
    fill = f"INSERT INTO {name} ({k}) SELECT {k} FROM {quoted(table.name)} WHERE {condition.sql} ORDER BY {k}"
    report = bench.words.pick(
        f"{name} should number its rows 1, 2, 3 by itself in column no, but no stays empty. MySQL did it.",
        f"I need a table {name} whose no counts up on its own, filled with {key.name} where {condition.phrase}; "
        "all I get in no is NULL.",
    )
    text = Text(
        report,
        "the words behind INT are taken as part of a type's name",
        f"{name} numbers its rows from 1 in column no",
    )
    return bench.state(
        [head.format("INT AUTO_INCREMENT PRIMARY KEY"), fill], [head.format("INTEGER PRIMARY KEY AUTOINCREMENT"), fill],
        text, [whole(name)], tables=[table], clean_up=[drop(name)], raw=True,
    )  # fmt: skip


@construction("dialects", "management")
def add_two_columns(bench: Bench) -> Draft | None:
    """ALTER TABLE with several additions in one statement."""
    table = draw_table(bench)
    if table is None:
        return None
    names = ["checked_by", "checked_on", "priority", "remarks", "source_file", "batch_no"]
    taken = {column.name.lower() for column in table.columns}
    first, second = bench.rng.sample([name for name in names if name not in taken], 2)
    t = quoted(table.name)
    report = bench.words.pick(
        f"{table.name} needs two more columns, {first} and {second}, both text; the comma is a syntax error.",
        f"Adding {first} and {second} (text) to {table.name} in one go works in MySQL, not here.",
    )
    wanted = f"{table.name} gets {first} and {second}"
    text = Text(report, "SQLite adds one column per statement", wanted, issue_fails=True)
    return bench.state(
        [f"ALTER TABLE {t} ADD COLUMN {first} TEXT, ADD COLUMN {second} TEXT"],
        [f"ALTER TABLE {t} ADD COLUMN {first} TEXT", f"ALTER TABLE {t} ADD COLUMN {second} TEXT"],
        text, [f"SELECT name, type FROM PRAGMA_TABLE_INFO({sql_literal(table.name)})"], tables=[table], raw=True,
    )  # fmt: skip


@construction("dialects", "management")
def on_duplicate_key(bench: Bench) -> Draft | None:
    """ON DUPLICATE KEY UPDATE, as MySQL has it."""
    drawn = settings_table(bench)
    if drawn is None:
        return None
    name, table, column, value, amount = drawn
    c = quoted(column.name)
    head = f"INSERT INTO {quoted(name)} ({c}, amount) VALUES ({value}, {amount})"
    report = bench.words.pick(
        f'Syntax error near "DUPLICATE". {column.name} {value} may be in {name} already, then only amount changes to '
        f"{amount}.",
        f"Store amount {amount} for {value} in {name}, whether the {column.name} is there or not; note must survive.",
    )
    text = Text(
        report, "SQLite does not know ON DUPLICATE KEY", f"amount of {value} is {amount}, new or not", issue_fails=True
    )
    return bench.state(
        [f"{head} ON DUPLICATE KEY UPDATE amount = {amount}"],
        [f"{head} ON CONFLICT({c}) DO UPDATE SET amount = excluded.amount"],
        text, [whole(name)], tables=[table], preprocess=make_settings(name, table, column), clean_up=[drop(name)],
        raw=True,
    )  # fmt: skip


@construction("dialects", "management")
def insert_ignore(bench: Bench) -> Draft | None:
    """INSERT IGNORE, as MySQL skips rows that are there already."""
    drawn = settings_table(bench)
    if drawn is None:
        return None
    name, table, column, value, amount = drawn
    c = quoted(column.name)
    rows = f"INTO {quoted(name)} ({c}, amount) VALUES ({value}, {amount}), ('new entry', {amount})"
    report = bench.words.pick(
        f'Syntax error near "IGNORE". Rows of {name} that exist must stay as they are, missing ones are added.',
        f"{value} is in {name} already and should be skipped, 'new entry' should be added with amount {amount}.",
    )
    text = Text(
        report, "SQLite writes this in another order", f"only what is missing in {name} is added", issue_fails=True
    )
    return bench.state(
        [f"INSERT IGNORE {rows}"], [f"INSERT OR IGNORE {rows}"], text, [whole(name)], tables=[table],
        preprocess=make_settings(name, table, column), clean_up=[drop(name)], raw=True,
    )  # fmt: skip
