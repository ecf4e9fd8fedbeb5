"""Management issues that change the schema: views, indexes, triggers, tables and columns."""

from __future__ import annotations

from birdrl.gym.rewind.conditions import draw_condition
from birdrl.gym.rewind.data import quoted, sql_literal
from birdrl.gym.rewind.draft import Bench, Draft, Text, construction
from birdrl.gym.rewind.tables import MAX_ROWS, draw_table, whole


def _plain(name: str) -> str:
    """The name with plain characters only, as part of a new name."""
    plain = "".join(ch if ch.isascii() and ch.isalnum() else "_" for ch in name.lower())
    return f"c_{plain}" if plain[:1].isdigit() else plain


@construction("ddl", "management")
def view_wrong_rows(bench: Bench) -> Draft | None:
    """A view shows other rows than those meant."""
    table = draw_table(bench)
    condition = draw_condition(bench, table) if table else None
    title = bench.data.title(table) if table else None
    if table is None or condition is None or title is None:
        return None
    name = f"{_plain(condition.column.name)}_view"
    columns = f"{quoted(title.name)}, {quoted(condition.column.name)}"
    head = f"CREATE VIEW {name} AS SELECT {columns} FROM {quoted(table.name)} WHERE"
    report = bench.words.pick(
        f"The view {name} should list {table.name} with {condition.phrase}.",
        f"{name} shows the wrong rows, it is for {condition.phrase}.",
    )
    text = Text(
        report, f"the view shows other rows: {condition.wrong_cause}", f"{name} lists rows with {condition.phrase}"
    )
    return bench.state(
        [f"{head} {condition.wrong_sql}"], [f"{head} {condition.sql}"], text, [whole(name)], tables=[table],
        clean_up=[f"DROP VIEW IF EXISTS {name}"],
    )  # fmt: skip


@construction("ddl", "management")
def view_wrong_figure(bench: Bench) -> Draft | None:
    """A summary view computes another figure."""
    options = [
        (t, g, m)
        for t in bench.data.tables(max_rows=MAX_ROWS)
        for g in bench.data.groups(t)
        for m in bench.data.measures(t)
    ]
    options = [(t, g, m) for t, g, m in options if g != m]
    if not options:
        return None
    table, group, measure = bench.rng.choice(options)
    words = {"SUM": "total", "AVG": "average", "MAX": "highest", "MIN": "lowest", "COUNT": "number of"}
    right, wrong = bench.rng.sample(sorted(words), 2)
    g, m, name = quoted(group.name), quoted(measure.name), f"{_plain(group.name)}_summary"
    pattern = f"CREATE VIEW {name} AS SELECT {g}, {{}}({m}) AS figure FROM {quoted(table.name)} GROUP BY {g}"
    report = bench.words.pick(
        f"{name} should give the {words[right]} {measure.name} per {group.name}.",
        f"The figure in view {name} must be the {words[right]} {measure.name}, not the {words[wrong]}.",
    )
    text = Text(
        report,
        f"the view computes the {words[wrong]} {measure.name}",
        f"{name} gives the {words[right]} {measure.name}",
    )
    return bench.state(
        [pattern.format(wrong)], [pattern.format(right)], text, [whole(name)], tables=[table],
        clean_up=[f"DROP VIEW IF EXISTS {name}"],
    )  # fmt: skip


@construction("ddl", "management")
def table_copy_wrong_rows(bench: Bench) -> Draft | None:
    """CREATE TABLE AS copies other rows."""
    table = draw_table(bench)
    condition = draw_condition(bench, table) if table else None
    if table is None or condition is None:
        return None
    name = f"{_plain(table.name)}_{bench.rng.choice(['copy', 'extract', 'selection'])}"
    head = f"CREATE TABLE {name} AS SELECT * FROM {quoted(table.name)}"
    lost = bench.rng.random() < 0.4
    report = bench.words.pick(
        f"The new table {name} should hold only {condition.phrase}.",
        f"{name} must be made of rows with {condition.phrase}.",
    )
    cause = "the new table takes all rows" if lost else f"the new table takes other rows: {condition.wrong_cause}"
    text = Text(report, cause, f"{name} holds rows with {condition.phrase}")
    return bench.state(
        [head if lost else f"{head} WHERE {condition.wrong_sql}"], [f"{head} WHERE {condition.sql}"],
        text, [whole(name)], tables=[table], clean_up=[f"DROP TABLE IF EXISTS {name}"],
    )  # fmt: skip


@construction("ddl", "management")
def index_wrong_column(bench: Bench) -> Draft | None:
    """The index is made on another column."""
    table = draw_table(bench)
    if table is None or len(table.columns) < 3:
        return None
    right, wrong = bench.rng.sample(list(table.columns), 2)
    name = f"idx_{_plain(table.name)}_{_plain(right.name)}"
    pattern = f"CREATE INDEX {name} ON {quoted(table.name)}({{}})"
    report = bench.words.pick(
        f"We search by {right.name}, nobody looks for {wrong.name}, and {name} makes it no faster.",
        f"{name} was to make lookups by {right.name} fast, they are as slow as before.",
    )
    text = Text(report, f"the index covers {wrong.name}", f"{name} makes searches by {right.name} fast")
    return bench.state(
        [pattern.format(quoted(wrong.name))], [pattern.format(quoted(right.name))], text,
        [f"SELECT seqno, name FROM PRAGMA_INDEX_INFO('{name}')"], tables=[], clean_up=[f"DROP INDEX IF EXISTS {name}"],
    )  # fmt: skip


@construction("ddl", "management")
def index_not_unique(bench: Bench) -> Draft | None:
    """The index lets duplicates in."""
    options = []
    for table in bench.data.tables(max_rows=MAX_ROWS):
        for column in table.columns:
            values = bench.data.values(table, column)
            if values and values[0].rows == 1 and not column.primary_key:
                options.append((table, column))
    if not options:
        return None
    table, column = bench.rng.choice(options)
    name = f"idx_{_plain(table.name)}_{_plain(column.name)}"
    pattern = f"CREATE {{}} {name} ON {quoted(table.name)}({quoted(column.name)})"
    report = bench.words.pick(
        f"Two rows with the same {column.name} can still be added; {name} must refuse that.",
        f"{name} should guarantee that no {column.name} occurs twice.",
    )
    text = Text(report, f"the index allows a {column.name} to occur twice", f"no {column.name} may occur twice")
    return bench.state(
        [pattern.format("INDEX")], [pattern.format("UNIQUE INDEX")], text,
        [f"SELECT name, \"unique\" FROM PRAGMA_INDEX_LIST('{table.name}') WHERE name = '{name}'"], tables=[],
        clean_up=[f"DROP INDEX IF EXISTS {name}"],
    )  # fmt: skip


@construction("ddl", "management")
def add_column_default(bench: Bench) -> Draft | None:
    """A new column gets another default."""
    table = draw_table(bench)
    if table is None:
        return None
    name, kind, values = bench.rng.choice(
        [
            ("priority", "INTEGER", ["1", "2", "3"]),
            ("review_state", "TEXT", ["'open'", "'done'", "'none'"]),
            ("is_archived", "INTEGER", ["0", "1"]),
            ("origin", "TEXT", ["'import'", "'manual'"]),
        ]
    )
    if table.column(name):
        return None
    right, wrong = bench.rng.sample(values, 2)
    pattern = f"ALTER TABLE {quoted(table.name)} ADD COLUMN {name} {kind} DEFAULT {{}}"
    report = bench.words.pick(
        f"Existing rows should start with {name} {right}, not {wrong}.",
        f"The new column {name} needs {right} for every row that is there.",
    )
    text = Text(report, f"the new column starts as {wrong}", f"{name} starts as {right}")
    return bench.state([pattern.format(wrong)], [pattern.format(right)], text, [whole(table)], tables=[table])


@construction("ddl", "management")
def rename_wrong_column(bench: Bench) -> Draft | None:
    """Another column is renamed."""
    table = draw_table(bench)
    columns = [c for c in table.columns if not c.primary_key] if table else []
    if table is None or len(columns) < 2:
        return None
    right, wrong = bench.rng.sample(columns, 2)
    new = f"{bench.rng.choice(['new', 'old', 'main'])}_{_plain(right.name)}"
    if table.column(new):
        return None
    pattern = f"ALTER TABLE {quoted(table.name)} RENAME COLUMN {{}} TO {new}"
    report = bench.words.pick(
        f"{right.name} should be called {new}; {wrong.name} keeps its name.",
        f"It renames {wrong.name}, but {right.name} was to become {new}.",
    )
    text = Text(report, f"it renames {wrong.name}", f"rename {right.name} to {new}")
    return bench.state(
        [pattern.format(quoted(wrong.name))], [pattern.format(quoted(right.name))], text,
        [f"SELECT {new}, {quoted(wrong.name)} FROM {quoted(table.name)}"], tables=[table],
    )  # fmt: skip


@construction("ddl", "management")
def trigger_all_rows(bench: Bench) -> Draft | None:
    """A trigger's body changes every row instead of the one that fired it."""
    options = [
        (t, own_key, m, n)
        for t in bench.data.tables(max_rows=MAX_ROWS)
        if (own_key := bench.data.key(t))
        for m in bench.data.measures(t)
        for n in bench.data.measures(t)
        if m != n
    ]
    if not options:
        return None
    table, key, watched, written = bench.rng.choice(options)
    t, k, w, s = quoted(table.name), quoted(key.name), quoted(watched.name), quoted(written.name)
    name = f"trg_{_plain(watched.name)}"
    ids = bench.data.values(table, key)
    if not ids or not isinstance(ids[0].value, int):
        return None
    body = f"CREATE TRIGGER {name} AFTER UPDATE OF {w} ON {t} BEGIN UPDATE {t} SET {s} = 0"
    fire = f"UPDATE {t} SET {w} = {w} + 1 WHERE {k} = {bench.rng.choice(ids).value}"
    report = bench.words.pick(
        f"A change of one {watched.name} resets {written.name} everywhere; {name} should only touch that {key.name}.",
        f"{name} touches all rows; it should reset {written.name} of the changed {key.name} only.",
    )
    text = Text(
        report, "the trigger changes every row of the table", f"{name} resets {written.name} of the changed row only"
    )
    return bench.state(
        [f"{body}; END", fire], [f"{body} WHERE {k} = NEW.{k}; END", fire], text, [whole(table)], tables=[table],
        clean_up=[f"DROP TRIGGER IF EXISTS {name}"],
    )  # fmt: skip


@construction("ddl", "management")
def trigger_wrong_event(bench: Bench) -> Draft | None:
    """A trigger watches another event than the one meant."""
    options = [(t, g) for t in bench.data.tables(max_rows=MAX_ROWS) for g in bench.data.groups(t)]
    if not options:
        return None
    table, group = bench.rng.choice(options)
    value = bench.rng.choice(bench.data.values(table, group)).value
    t, g = quoted(table.name), quoted(group.name)
    log, name = f"{_plain(table.name)}_log", f"trg_{_plain(table.name)}_log"
    fire = f"DELETE FROM {t} WHERE {g} = {sql_literal(value)}"
    wrong = bench.rng.choice(["INSERT", "UPDATE"])
    row = {"INSERT": "NEW", "UPDATE": "OLD"}[wrong]
    body = f"CREATE TRIGGER {name} AFTER {{}} ON {t} BEGIN INSERT INTO {log} VALUES ({{}}.{g}); END"
    report = bench.words.pick(
        f"{log} stays empty: the trigger {name} must note each deleted row's old {group.name}.",
        f"Deleted rows are not logged by {name}; write the old {group.name} on every delete.",
    )
    text = Text(
        report,
        f"the trigger fires on {wrong.lower()}, not when rows are deleted",
        f"log the old {group.name} of deleted rows",
    )
    return bench.state(
        [body.format(wrong, row), fire], [body.format("DELETE", "OLD"), fire], text, [whole(log)], tables=[table],
        preprocess=[f"CREATE TABLE {log} ({g})"],
        clean_up=[f"DROP TRIGGER IF EXISTS {name}", f"DROP TABLE IF EXISTS {log}"],
    )  # fmt: skip
