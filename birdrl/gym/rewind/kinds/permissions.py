"""Permissions in an engine without users: what GRANT and REVOKE become where the statements do not exist."""

from __future__ import annotations

from birdrl.gym.rewind.conditions import draw_condition
from birdrl.gym.rewind.data import quoted, sql_literal
from birdrl.gym.rewind.draft import Bench, Draft, Text, construction
from birdrl.gym.rewind.tables import MAX_ROWS, drop, whole
from birdrl.gym.schema import Table

_ROLES = ("analyst", "auditor", "guest", "intern", "partner", "reporting", "support")
_ACTIONS = {"SELECT": "read", "INSERT": "add", "UPDATE": "change", "DELETE": "remove"}


def _table(bench: Bench) -> Table | None:
    tables = bench.data.tables(max_rows=MAX_ROWS)
    return bench.rng.choice(tables) if tables else None


@construction("permissions", "management")
def grant_columns(bench: Bench) -> Draft | None:
    """GRANT on some columns: a view that shows only those."""
    table = _table(bench)
    if table is None or len(table.columns) < 3:
        return None
    role = bench.rng.choice(_ROLES)
    columns = bench.rng.sample(table.columns, bench.rng.randint(2, min(4, len(table.columns) - 1)))
    columns = [column for column in table.columns if column in columns]
    listed, view = ", ".join(quoted(c.name) for c in columns), f"{role}_view"
    names = ", ".join(column.name for column in columns)
    report = bench.words.pick(
        f"{role} may see {names} of {table.name} and nothing else. SQLite has no users, so {role} will be pointed to "
        f"{view}, which must show just that.",
        f'Error near "GRANT". How do I let {role} see only {names} of {table.name}? Our tool reads from {view}.',
    )
    text = Text(
        report, "SQLite knows no users and no GRANT", f"{view} shows {names} of {table.name}, nothing else",
        issue_fails=True,
    )  # fmt: skip
    return bench.state(
        [f"GRANT SELECT ({listed}) ON {quoted(table.name)} TO {role}"],
        [f"CREATE VIEW {view} AS SELECT {listed} FROM {quoted(table.name)}"],
        text, [whole(view)], tables=[table], clean_up=[f"DROP VIEW IF EXISTS {view}"], raw=True,
    )  # fmt: skip


@construction("permissions", "management")
def revoke_delete(bench: Bench) -> Draft | None:
    """REVOKE DELETE: rows that can no longer be removed."""
    table = _table(bench)
    condition = draw_condition(bench, table) if table else None
    if table is None or condition is None:
        return None
    t, guard = quoted(table.name), f"keep_{bench.rng.choice(_ROLES)}"
    delete = f"DELETE FROM {t} WHERE {condition.sql}"
    report = bench.words.pick(
        f"Nobody may remove rows of {table.name} from now on; a delete should pass without any effect, as the second "
        "statement shows.",
        f'Error near "REVOKE". I want {table.name} protected: deleting rows must silently do nothing.',
    )
    text = Text(
        report, "SQLite knows no REVOKE", f"deletes on {table.name} have no effect any more, the one here included",
        issue_fails=True,
    )  # fmt: skip
    guards = f"SELECT COUNT(*) FROM sqlite_master WHERE type = 'trigger' AND tbl_name = {sql_literal(table.name)}"
    probes = [whole(table), guards]
    return bench.state(
        [f"REVOKE DELETE ON {t} FROM PUBLIC", delete],
        [f"CREATE TRIGGER {guard} BEFORE DELETE ON {t} BEGIN SELECT RAISE(IGNORE); END", delete],
        text, probes, tables=[table], clean_up=[f"DROP TRIGGER IF EXISTS {guard}"], raw=True,
    )  # fmt: skip


def _rights(bench: Bench, table: Table) -> tuple[str, list[str]]:
    """A table of rights kept by the application, and its preprocess SQL."""
    name = bench.rng.choice(["app_rights", "role_rights", "access_list"])
    others = bench.rng.sample(_ROLES, 3)
    item = sql_literal(table.name)
    rows = ", ".join(f"('{role}', {item}, 'read'), ('{role}', 'reports', 'change')" for role in others)
    make = f"CREATE TABLE {name} (role TEXT, item TEXT, action TEXT, PRIMARY KEY (role, item, action))"
    return name, [make, f"INSERT INTO {name} VALUES {rows}"]


@construction("permissions", "management")
def grant_as_row(bench: Bench) -> Draft | None:
    """GRANT in an application that keeps rights in a table of its own."""
    table = _table(bench)
    if table is None:
        return None
    name, make = _rights(bench, table)
    role = bench.rng.choice([r for r in _ROLES if f"'{r}'" not in make[1]])
    action, word = bench.rng.choice(sorted(_ACTIONS.items()))
    report = bench.words.pick(
        f"{role} needs the right to {word} {table.name}. Our application reads rights from {name}, which has columns "
        f"role, item and action, with actions such as '{word}'.",
        f"GRANT is a syntax error here; rights are rows of {name}: role, item, action. {role} has to '{word}' "
        f"{table.name}.",
    )
    text = Text(
        report, "SQLite knows no GRANT, and rights are kept in a table", f"{role} may {word} {table.name}",
        issue_fails=True,
    )  # fmt: skip
    row = f"('{role}', {sql_literal(table.name)}, '{word}')"
    return bench.state(
        [f"GRANT {action} ON {quoted(table.name)} TO {role}"],
        [f"INSERT INTO {name} (role, item, action) VALUES {row}"],
        text, [whole(name)], tables=[], preprocess=make, clean_up=[drop(name)], raw=True,
    )  # fmt: skip


@construction("permissions", "management")
def revoke_as_row(bench: Bench) -> Draft | None:
    """REVOKE in an application that keeps rights in a table of its own."""
    table = _table(bench)
    if table is None:
        return None
    name, make = _rights(bench, table)
    role = bench.rng.choice([r for r in _ROLES if f"'{r}'" in make[1]])
    report = bench.words.pick(
        f"{role} has left the team and must lose all rights on {table.name}, other rights of {role} stay. They are "
        f"kept in {name} as role, item and action.",
        f"How do I take away what {role} may do with {table.name}? Rights are rows of {name}, and there is a syntax "
        "error.",
    )
    text = Text(
        report, "SQLite knows no REVOKE, and rights are kept in a table", f"{role} has no right on {table.name} left",
        issue_fails=True,
    )  # fmt: skip
    return bench.state(
        [f"REVOKE ALL PRIVILEGES ON {quoted(table.name)} FROM {role}"],
        [f"DELETE FROM {name} WHERE role = '{role}' AND item = {sql_literal(table.name)}"],
        text, [whole(name)], tables=[], preprocess=make, clean_up=[drop(name)], raw=True,
    )  # fmt: skip
