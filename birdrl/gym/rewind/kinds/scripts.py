"""Management issues of several statements: transactions and the order of steps."""

from __future__ import annotations

from birdrl.gym.rewind.conditions import draw_condition
from birdrl.gym.rewind.data import quoted
from birdrl.gym.rewind.draft import Bench, Draft, Text, construction
from birdrl.gym.rewind.tables import create_like, draw_change, draw_table, whole, work_table


@construction("scripts", "management")
def commit_missing(bench: Bench) -> Draft | None:
    """The transaction is never committed, or it is rolled back."""
    table = draw_table(bench)
    change = draw_change(bench, table) if table else None
    if table is None or change is None:
        return None
    column, clause, words = change
    condition = draw_condition(bench, table, avoid=(column.name,))
    if condition is None:
        return None
    update = f"UPDATE {quoted(table.name)} SET {clause} WHERE {condition.sql}"
    rolled_back = bench.rng.random() < 0.5
    report = bench.words.pick(
        f"After reconnecting the change of {column.name} is gone, it must be saved.",
        f"The new {column.name} is not kept; the change should last.",
    )
    cause = "the transaction is rolled back at the end" if rolled_back else "the transaction is never finished"
    text = Text(report, cause, f"{words} where {condition.phrase}, and keep it")
    issue = ["BEGIN", update, "ROLLBACK"] if rolled_back else ["BEGIN", update]
    return bench.state(issue, ["BEGIN", update, "COMMIT"], text, [whole(table)], tables=[table])


@construction("scripts", "management")
def trial_not_undone(bench: Bench) -> Draft | None:
    """A trial change is committed although it was to be undone."""
    table = draw_table(bench)
    first = draw_condition(bench, table) if table else None
    if table is None or first is None:
        return None
    change = draw_change(bench, table, avoid=(first.column.name,))
    if change is None:
        return None
    column, clause, words = change
    t = quoted(table.name)
    update, delete = f"UPDATE {t} SET {clause} WHERE {first.sql}", f"DELETE FROM {t}"
    report = bench.words.pick(
        f"The delete was only a trial and must be undone; the change of {column.name} should stay.",
        f"{table.name} ends up empty: undo the trial delete but keep the new {column.name}.",
    )
    text = Text(report, "the trial delete is kept", f"{words} where {first.phrase}, and undo the delete")
    start = [update, "BEGIN", delete]
    return bench.state([*start, "COMMIT"], [*start, "ROLLBACK"], text, [whole(table)], tables=[table])


@construction("scripts", "management")
def archive_after_delete(bench: Bench) -> Draft | None:
    """Rows are deleted before they are copied."""
    table = draw_table(bench)
    work = work_table(bench, table) if table else None
    condition = draw_condition(bench, table) if table else None
    if table is None or work is None or condition is None:
        return None
    name, columns = work
    listed, t = ", ".join(quoted(c.name) for c in columns), quoted(table.name)
    copy = f"INSERT INTO {quoted(name)} SELECT {listed} FROM {t} WHERE {condition.sql}"
    delete = f"DELETE FROM {t} WHERE {condition.sql}"
    report = bench.words.pick(
        f"{name} stays empty; rows that leave {table.name} should be found there.",
        f"Rows with {condition.phrase} are lost: they should be gone from {table.name}, but kept in {name}.",
    )
    text = Text(
        report,
        "the rows are deleted before they are copied",
        f"{table.name} rows with {condition.phrase} are in {name} and nowhere else",
    )
    return bench.state(
        [delete, copy], [copy, delete], text, [whole(name), whole(table)], tables=[table],
        preprocess=[create_like(name, columns)], clean_up=[f"DROP TABLE IF EXISTS {quoted(name)}"],
    )  # fmt: skip


@construction("scripts", "management")
def step_missing(bench: Bench) -> Draft | None:
    """A script copies rows but does not remove the originals."""
    table = draw_table(bench)
    work = work_table(bench, table) if table else None
    condition = draw_condition(bench, table) if table else None
    if table is None or work is None or condition is None:
        return None
    name, columns = work
    listed, t = ", ".join(quoted(c.name) for c in columns), quoted(table.name)
    copy = f"INSERT INTO {quoted(name)} SELECT {listed} FROM {t} WHERE {condition.sql}"
    delete = f"DELETE FROM {t} WHERE {condition.sql}"
    report = bench.words.pick(
        f"The rows are now in both tables; only {name} should have them.",
        f"Moving means that rows with {condition.phrase} must also leave {table.name}.",
    )
    text = Text(report, f"the copied rows stay in {table.name}", f"move rows with {condition.phrase} to {name}")
    return bench.state(
        [copy], [copy, delete], text, [whole(name), whole(table)], tables=[table],
        preprocess=[create_like(name, columns)], clean_up=[f"DROP TABLE IF EXISTS {quoted(name)}"],
    )  # fmt: skip


@construction("scripts", "management")
def update_order(bench: Bench) -> Draft | None:
    """Two renamings run in the wrong order, so that both groups end up the same."""
    table = draw_table(bench)
    groups = [g for g in bench.data.text_groups(table) if len(bench.data.values(table, g)) >= 3] if table else []
    if table is None or not groups:
        return None
    group = bench.rng.choice(groups)
    first, second = bench.rng.sample([str(v.value) for v in bench.data.values(table, group)], 2)
    t, g = quoted(table.name), quoted(group.name)
    fresh = f"new {second}"
    move = f"UPDATE {t} SET {g} = '{fresh}' WHERE {g} = '{second}'"
    follow = f"UPDATE {t} SET {g} = '{second}' WHERE {g} = '{first}'"
    report = bench.words.pick(
        f"Both groups end up as '{fresh}'; what was '{second}' should be '{fresh}', and old '{first}' be '{second}'.",
        f"'{first}' must end as '{second}' and only the old '{second}' as '{fresh}'.",
    )
    text = Text(
        report,
        f"'{first}' is renamed first and then taken for an old '{second}'",
        f"'{second}' becomes '{fresh}' and '{first}' becomes '{second}'",
    )
    return bench.state([follow, move], [move, follow], text, [whole(table)], tables=[table])
