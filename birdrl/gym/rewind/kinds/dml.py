"""Management issues that change rows: UPDATE, DELETE, INSERT, upsert."""

from __future__ import annotations

from birdrl.gym.rewind.conditions import Condition, draw_condition
from birdrl.gym.rewind.data import quoted, sql_literal
from birdrl.gym.rewind.draft import Bench, Draft, Text, construction
from birdrl.gym.rewind.tables import (
    MAX_ROWS,
    create_like,
    draw_change,
    draw_table,
    make_settings,
    settings_table,
    whole,
    work_table,
)
from birdrl.gym.schema import Column, Table


def _update(bench: Bench) -> tuple[Table, Column, str, str, Condition] | None:
    table = draw_table(bench)
    if table is None:
        return None
    change = draw_change(bench, table)
    if change is None:
        return None
    condition = draw_condition(bench, table, avoid=(change[0].name,))
    return (table, *change, condition) if condition else None


@construction("dml", "management")
def update_all_rows(bench: Bench) -> Draft | None:
    """UPDATE without its WHERE."""
    drawn = _update(bench)
    if drawn is None:
        return None
    table, column, clause, words, condition = drawn
    head = f"UPDATE {quoted(table.name)} SET {clause}"
    report = bench.words.pick(
        f"It changes every row; {words} only for {condition.phrase}.",
        f"Only {table.name} with {condition.phrase} should change: {words}.",
        f"All {column.name} values changed, just those with {condition.phrase} were meant.",
    )
    text = Text(report, "the statement changes every row", f"{words} only where {condition.phrase}")
    return bench.state([head], [f"{head} WHERE {condition.sql}"], text, [whole(table)], tables=[table])


@construction("dml", "management")
def update_wrong_rows(bench: Bench) -> Draft | None:
    """UPDATE of other rows than those meant."""
    drawn = _update(bench)
    if drawn is None:
        return None
    table, _, clause, words, condition = drawn
    head = f"UPDATE {quoted(table.name)} SET {clause} WHERE"
    report = bench.words.pick(
        f"The wrong rows are changed; {words} for {condition.phrase}.",
        f"I meant {table.name} with {condition.phrase}, others were changed.",
    )
    text = Text(report, f"other rows are changed: {condition.wrong_cause}", f"{words} where {condition.phrase}")
    return bench.state(
        [f"{head} {condition.wrong_sql}"], [f"{head} {condition.sql}"], text, [whole(table)], tables=[table]
    )


@construction("dml", "management")
def update_wrong_column(bench: Bench) -> Draft | None:
    """UPDATE of another column."""
    drawn = _update(bench)
    if drawn is None:
        return None
    table, column, clause, words, condition = drawn
    others = [c for c in table.columns if c.name not in (column.name, condition.column.name) and not c.primary_key]
    others = [c for c in others if bench.data.is_number(table, c) == bench.data.is_number(table, column)]
    if not others:
        return None
    other = bench.rng.choice(others)
    value = clause.partition(" = ")[2]
    tail = f"WHERE {condition.sql}"
    head = f"UPDATE {quoted(table.name)} SET"
    report = bench.words.pick(
        f"It writes {other.name} but {column.name} should change.",
        f"{other.name} was overwritten; I wanted to {words}.",
        f"Please change {column.name} and leave {other.name} alone.",
    )
    text = Text(report, f"the statement writes {other.name}", f"{words} and leave {other.name} alone")
    return bench.state(
        [f"{head} {quoted(other.name)} = {value} {tail}"],
        [f"{head} {clause} {tail}"],
        text,
        [whole(table)],
        tables=[table],
    )


@construction("dml", "management")
def update_wrong_value(bench: Bench) -> Draft | None:
    """UPDATE to another value, or by the wrong operation."""
    drawn = _update(bench)
    if drawn is None:
        return None
    table, column, clause, words, condition = drawn
    name, _, value = clause.partition(" = ")
    swaps = {"+": "-", "-": "+", "*": "+"}
    sign = next((s for s in swaps if f" {s} " in value), None)
    if sign:
        wrong = value.replace(f" {sign} ", f" {swaps[sign]} ")
    else:
        values = [sql_literal(v.value) for v in bench.data.values(table, column)]
        others = [v for v in values if v != value]
        if not others:
            return None
        wrong = bench.rng.choice(others)
    head, tail = f"UPDATE {quoted(table.name)} SET {name} =", f"WHERE {condition.sql}"
    report = bench.words.pick(
        f"{column.name} gets a wrong value; I want to {words} where {condition.phrase}.",
        f"The new {column.name} is wrong. It should {words}.",
    )
    text = Text(report, f"{column.name} gets a wrong value", f"{words} where {condition.phrase}")
    return bench.state([f"{head} {wrong} {tail}"], [f"{head} {value} {tail}"], text, [whole(table)], tables=[table])


@construction("dml", "management")
def update_from_all(bench: Bench) -> Draft | None:
    """A figure is copied from all child rows instead of each row's own."""
    options = []
    for child, key, parent in bench.data.links():
        if parent.rows <= MAX_ROWS and child.rows <= MAX_ROWS:
            options += [(child, key, parent, m) for m in bench.data.measures(parent)]
    if not options:
        return None
    child, key, parent, target = bench.rng.choice(options)
    p, c = quoted(parent.name), quoted(child.name)
    measures = bench.data.measures(child)
    figure, words = "COUNT(*)", f"number of its {child.name}"
    if measures and bench.rng.random() < 0.4:
        measure = bench.rng.choice(measures)
        figure, words = f"MAX({c}.{quoted(measure.name)})", f"highest {measure.name} of its {child.name}"
    head = f"UPDATE {p} SET {quoted(target.name)} = (SELECT {figure} FROM {c}"
    link = f"{c}.{quoted(key.column)} = {p}.{quoted(key.ref_column)}"
    report = bench.words.pick(
        f"Every {parent.name} gets the same {target.name}; it should be the {words} ({key.column}).",
        f"{target.name} must be the {words}, matched by {key.column}.",
    )
    text = Text(
        report,
        f"the figure is taken over all {child.name} rows",
        f"{target.name} is the {words}, matched by {key.column}",
    )
    return bench.state([f"{head})"], [f"{head} WHERE {link})"], text, [whole(parent)], tables=[parent, child])


@construction("dml", "management")
def delete_wrong_rows(bench: Bench) -> Draft | None:
    """DELETE of other rows than those meant."""
    table = draw_table(bench)
    condition = draw_condition(bench, table) if table else None
    if table is None or condition is None:
        return None
    head = f"DELETE FROM {quoted(table.name)} WHERE"
    report = bench.words.pick(
        f"The wrong rows are gone; remove {table.name} with {condition.phrase}.",
        f"I wanted to delete rows with {condition.phrase}.",
    )
    text = Text(report, f"other rows are deleted: {condition.wrong_cause}", f"delete rows with {condition.phrase}")
    return bench.state(
        [f"{head} {condition.wrong_sql}"], [f"{head} {condition.sql}"], text, [whole(table)], tables=[table]
    )


@construction("dml", "management")
def delete_too_much(bench: Bench) -> Draft | None:
    """DELETE that lost its second condition."""
    table = draw_table(bench)
    first = draw_condition(bench, table) if table else None
    second = draw_condition(bench, table, avoid=(first.column.name,)) if table and first else None
    if table is None or first is None or second is None:
        return None
    head = f"DELETE FROM {quoted(table.name)} WHERE {first.sql}"
    report = bench.words.pick(
        f"Too many rows are deleted; they must also have {second.phrase}.",
        f"Delete only where {first.phrase} and {second.phrase}.",
    )
    text = Text(
        report,
        "too many rows are deleted, a condition is missing",
        f"delete rows with {first.phrase} and {second.phrase}",
    )
    return bench.state([head], [f"{head} AND {second.sql}"], text, [whole(table)], tables=[table])


@construction("dml", "management")
def keep_wrong_duplicate(bench: Bench) -> Draft | None:
    """Clearing duplicates keeps the last row of each group where the first is meant."""
    options = [
        (t, g, own_key)
        for t in bench.data.tables(max_rows=MAX_ROWS)
        for g in bench.data.groups(t)
        if (own_key := bench.data.key(t))
    ]
    if not options:
        return None
    table, group, key = bench.rng.choice(options)
    right, wrong = bench.rng.sample(["MIN", "MAX"], 2)
    t, g, k = quoted(table.name), quoted(group.name), quoted(key.name)
    pattern = f"DELETE FROM {t} WHERE {k} NOT IN (SELECT {{}}({k}) FROM {t} GROUP BY {g})"
    word = {"MIN": "lowest", "MAX": "highest"}
    report = bench.words.pick(
        f"When clearing repeated {group.name}, keep the row with the {word[right]} {key.name}.",
        f"Of each {group.name} the {word[right]} {key.name} should survive.",
    )
    text = Text(
        report,
        f"the row with the {word[wrong]} {key.name} survives",
        f"keep the {word[right]} {key.name} of each {group.name}",
    )
    return bench.state([pattern.format(wrong)], [pattern.format(right)], text, [whole(table)], tables=[table])


@construction("dml", "management")
def insert_wrong_rows(bench: Bench) -> Draft | None:
    """INSERT ... SELECT copies other rows into a work table."""
    table = draw_table(bench)
    work = work_table(bench, table) if table else None
    condition = draw_condition(bench, table) if table else None
    if table is None or work is None or condition is None:
        return None
    name, columns = work
    listed = ", ".join(quoted(c.name) for c in columns)
    head = f"INSERT INTO {quoted(name)} ({listed}) SELECT {listed} FROM {quoted(table.name)}"
    lost = bench.rng.random() < 0.4
    report = bench.words.pick(
        f"{name} should only get {table.name} with {condition.phrase}.",
        f"The wrong rows end up in {name}; copy those with {condition.phrase}.",
    )
    cause = "all rows are copied" if lost else f"other rows are copied: {condition.wrong_cause}"
    text = Text(report, cause, f"copy {table.name} with {condition.phrase} into {name}")
    issue = head if lost else f"{head} WHERE {condition.wrong_sql}"
    return bench.state(
        [issue], [f"{head} WHERE {condition.sql}"], text, [whole(name)], tables=[table],
        preprocess=[create_like(name, columns)], clean_up=[f"DROP TABLE IF EXISTS {quoted(name)}"],
    )  # fmt: skip


@construction("dml", "management")
def insert_column_order(bench: Bench) -> Draft | None:
    """INSERT ... SELECT fills two columns the wrong way round."""
    table = draw_table(bench)
    work = work_table(bench, table) if table else None
    if table is None or work is None:
        return None
    name, columns = work
    first, second = columns[-2:]
    head = [quoted(c.name) for c in columns[:-2]]
    listed = ", ".join([*head, quoted(first.name), quoted(second.name)])
    swapped = ", ".join([*head, quoted(second.name), quoted(first.name)])
    pattern = f"INSERT INTO {quoted(name)} ({listed}) SELECT {{}} FROM {quoted(table.name)}"
    report = bench.words.pick(
        f"In {name}, {first.name} and {second.name} are mixed up; each should hold its own values.",
        f"{name} shows {second.name} under {first.name} and the other way round.",
    )
    text = Text(
        report,
        f"{first.name} and {second.name} are filled the wrong way round",
        f"each column of {name} gets its own values",
    )
    return bench.state(
        [pattern.format(swapped)], [pattern.format(listed)], text, [whole(name)], tables=[table],
        preprocess=[create_like(name, columns)], clean_up=[f"DROP TABLE IF EXISTS {quoted(name)}"],
    )  # fmt: skip


@construction("dml", "management")
def upsert_missing(bench: Bench) -> Draft | None:
    """A plain INSERT fails on an existing key."""
    drawn = settings_table(bench)
    if drawn is None:
        return None
    name, table, column, value, amount = drawn
    c = quoted(column.name)
    head = f"INSERT INTO {quoted(name)} ({c}, amount) VALUES ({value}, {amount})"
    report = bench.words.pick(
        f"Error: UNIQUE constraint failed: {name}.{column.name}. If the {column.name} exists, update its amount.",
        f"The {column.name} {value} exists already; in that case just set amount to {amount}.",
    )
    text = Text(
        report,
        f"the {column.name} exists already, so a plain insert fails",
        f"set amount to {amount}, whether {value} exists or not",
        issue_fails=True,
    )
    return bench.state(
        [head], [f"{head} ON CONFLICT({c}) DO UPDATE SET amount = excluded.amount"],
        text, [whole(name)], tables=[table],
        preprocess=make_settings(name, table, column), clean_up=[f"DROP TABLE IF EXISTS {quoted(name)}"],
    )  # fmt: skip


@construction("dml", "management")
def replace_wipes_columns(bench: Bench) -> Draft | None:
    """INSERT OR REPLACE loses the columns that it does not name."""
    drawn = settings_table(bench)
    if drawn is None:
        return None
    name, table, column, value, amount = drawn
    c = quoted(column.name)
    tail = f"INTO {quoted(name)} ({c}, amount) VALUES ({value}, {amount})"
    report = bench.words.pick(
        f"The note of {value} is wiped; on an existing {column.name} only amount should be updated.",
        f"After this the note is NULL. Update amount and keep the rest of the row ({column.name} is the key).",
    )
    text = Text(
        report, "the old row is thrown away as a whole, its note too", f"only amount of {value} changes to {amount}"
    )
    return bench.state(
        [f"INSERT OR REPLACE {tail}"], [f"INSERT {tail} ON CONFLICT({c}) DO UPDATE SET amount = excluded.amount"],
        text, [whole(name)], tables=[table],
        preprocess=make_settings(name, table, column), clean_up=[f"DROP TABLE IF EXISTS {quoted(name)}"],
    )  # fmt: skip
