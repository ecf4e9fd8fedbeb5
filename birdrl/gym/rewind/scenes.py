"""Scenes around a draft: rows that arrive before it, a work copy to play on, a script of two steps.

A scene changes what a person finds, never what is wrong: issue and solution get the same one. The rewinder asks for
scenes until a gym has as many preprocess, clean-up and several-statement issues as wanted (BIRD-RL, Table 7).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random

from sqlglot import exp

from birdrl.gym.instance import Instance, PlanTest, ResultTest, StateTest
from birdrl.gym.rewind.data import DataView, quoted
from birdrl.gym.rewind.draft import Draft, Test
from birdrl.gym.rewind.perturb import setups
from birdrl.gym.rewind.tree import is_canonical, peek, render, tables_of
from birdrl.gym.schema import Table
from birdrl.params import GymRates

EDGE_ROWS = 3  # statements that change rows beforehand, at most
COPY_ROWS = 2000  # rows of a table that a work copy may hold
_COPIES = ("staging", "draft", "snapshot", "working", "import", "review")
_STEPS = ("current", "selected", "base", "step1", "source")


@dataclass
class Tally:
    """What the accepted issues of one database have so far."""

    instances: int = 0
    preprocess: int = 0
    clean_up: int = 0
    multi_sql: int = 0

    def add(self, instance: Instance) -> None:
        self.instances += 1
        self.preprocess += len(instance.preprocess_sql)
        self.clean_up += len(instance.clean_up_sql)
        self.multi_sql += len(instance.issue_sql) > 1 or len(instance.sol_sql) > 1


def dress(draft: Draft, data: DataView, rng: Random, tally: Tally, rates: GymRates) -> Draft:
    """The draft with the scene that the gym lacks most, or as it is when it lacks none or none fits."""
    coming = tally.instances + 1
    lacking = (
        (rates.multi_sql * coming - tally.multi_sql, two_steps),
        (rates.clean_up * coming - tally.clean_up, work_copy),
        (rates.preprocess * coming - tally.preprocess, edge_rows),
    )
    for missing, scene in lacking:
        dressed = scene(draft, data, rng) if missing >= 0.5 else None
        if dressed is not None:
            return dressed
    brought = len(draft.clean_up_sql)
    if brought and rates.clean_up > 0 and tally.clean_up + brought > rates.clean_up * coming + 1:
        return replace(draft, clean_up_sql=())  # more than wanted; replicas are thrown away, nothing depends on it
    return draft


def edge_rows(draft: Draft, data: DataView, rng: Random) -> Draft | None:
    """A few rows change before anybody looks: what a batch of new data does."""
    changes = [setup for setup in setups(replace(draft, perturb_first=()), data, rng, EDGE_ROWS) if setup]
    if not changes:
        return None
    chosen = [statement for setup in changes[: rng.randint(1, EDGE_ROWS)] for statement in setup]
    return replace(draft, preprocess_sql=(*chosen, *draft.preprocess_sql))


def work_copy(draft: Draft, data: DataView, rng: Random) -> Draft | None:
    """One table of the draft is a copy made for the occasion and dropped afterwards."""
    table = _table_of_all(draft, data)
    if table is None:
        return None
    copy = f"{rng.choice(_COPIES)}_{re.sub(r'[^a-z0-9]+', '_', table.name.lower())}"
    if data.schema.table(copy) or any(copy in sql for sql in draft.issue_sql):
        return None
    moved = _rewritten(draft, table.name, copy)
    make = f"CREATE TABLE {quoted(copy)} AS SELECT * FROM {quoted(table.name)}"
    drop = f"DROP TABLE IF EXISTS {quoted(copy)}"
    return replace(moved, preprocess_sql=(make, *draft.preprocess_sql), clean_up_sql=(*draft.clean_up_sql, drop))


def two_steps(draft: Draft, data: DataView, rng: Random) -> Draft | None:
    """A query that reads what a first statement has put aside: its CTEs as views, or one table's rows."""
    single = len(draft.issue_sql) == len(draft.sol_sql) == 1
    if not single or draft.issue_fails or not all(isinstance(test, ResultTest) for test in draft.tests):
        return None
    both = (*draft.issue_sql, *draft.sol_sql)
    if not all(is_canonical(sql) and isinstance(peek(sql), exp.Query) for sql in both):
        return None
    issue, solution = _views(draft.issue_sql[0]), _views(draft.sol_sql[0])
    if issue is not None and solution is not None:
        return replace(draft, issue_sql=issue, sol_sql=solution)
    table = _table_of_all(draft, data)
    if table is None:
        return None
    step = f"{rng.choice(_STEPS)}_{re.sub(r'[^a-z0-9]+', '_', table.name.lower())}"
    if data.schema.table(step):
        return None
    moved = _rewritten(draft, table.name, step)
    first = f"CREATE TEMP TABLE {quoted(step)} AS SELECT * FROM {quoted(table.name)}"
    return replace(moved, issue_sql=(first, *moved.issue_sql), sol_sql=(first, *moved.sol_sql))


def _views(sql: str) -> tuple[str, ...] | None:
    """A WITH query as temporary views and the query that reads them; None without a plain WITH."""
    tree = peek(sql).copy()
    clause = tree.args.get("with_")
    if clause is None or clause.args.get("recursive") or any(cte.args["alias"].columns for cte in clause.expressions):
        return None
    made = [f"CREATE TEMP VIEW {quoted(cte.alias)} AS {render(cte.this)}" for cte in clause.expressions]
    tree.set("with_", None)
    return (*made, render(tree))


def _table_of_all(draft: Draft, data: DataView) -> Table | None:
    """A table of the schema that issue and solution both use, in statements that can be rewritten."""
    statements = [*draft.issue_sql, *draft.sol_sql, *_probe_sql(draft.tests)]
    if any(not is_canonical(sql) or isinstance(peek(sql), exp.Create | exp.Alter | exp.Drop) for sql in statements):
        return None
    if any(peek(sql).find(exp.OnConflict) or peek(sql).find(exp.Command) for sql in statements):
        return None  # the copy has no keys
    if any(isinstance(test, PlanTest) for test in draft.tests):
        return None  # and no indexes
    shared = [name for name in tables_of(draft.issue_sql[-1]) if name in tables_of(draft.sol_sql[-1])]
    tables = [table for name in shared if (table := data.schema.table(name)) and 0 < table.rows <= COPY_ROWS]
    return tables[0] if tables else None


def _probe_sql(tests: Sequence[Test]) -> list[str]:
    return [test.probe_sql for test in tests if isinstance(test, StateTest)]


def _rewritten(draft: Draft, old: str, new: str) -> Draft:
    """The draft on table `new` instead of `old`: statements, probes and words."""

    def sql(statements: Sequence[str]) -> tuple[str, ...]:
        return tuple(_renamed(statement, old, new) for statement in statements)

    def words(text: str) -> str:
        return re.sub(rf"(?<![\w.]){re.escape(old)}(?!\w)", new, text)

    tests = tuple(
        test.model_copy(update={"probe_sql": _renamed(test.probe_sql, old, new)})
        if isinstance(test, StateTest)
        else test
        for test in draft.tests
    )
    return replace(
        draft, issue_sql=sql(draft.issue_sql), sol_sql=sql(draft.sol_sql), tests=tests, query=words(draft.query),
        cause=words(draft.cause), intent=words(draft.intent),
    )  # fmt: skip


def _renamed(statement: str, old: str, new: str) -> str:
    tree = peek(statement).copy()
    bare = False
    for table in tree.find_all(exp.Table):
        if table.name.lower() == old.lower():
            bare = bare or not table.alias
            table.set("this", exp.to_identifier(new))
    if bare:
        for column in tree.find_all(exp.Column):
            if column.table.lower() == old.lower():
                column.set("table", exp.to_identifier(new))
    return render(tree)
