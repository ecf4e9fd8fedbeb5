"""Draw shapes until enough different queries have passed the check."""

from __future__ import annotations

from random import Random

import sqlglot
from sqlglot import exp

from birdrl.gym.querygen import shapes_basic as basic
from birdrl.gym.querygen import shapes_complex as several
from birdrl.gym.querygen import shapes_nested as nested
from birdrl.gym.querygen import shapes_window as window
from birdrl.gym.querygen.shapes_basic import Draft, Shape
from birdrl.gym.querygen.source import Database
from birdrl.gym.schema import Schema
from birdrl.gym.select_check import SelectChecker, SelectRejected
from birdrl.gym.sql_text import figures_once
from birdrl.gym.templates import TemplateStore
from birdrl.gym.values import DatabaseValues

# How often each shape is drawn: our choice, everyday shapes most, every SQL feature of the gym somewhere.
WEIGHTS: dict[Shape, int] = {
    basic.listing: 20,
    basic.counting: 9,
    basic.aggregating: 10,
    basic.grouping: 18,
    basic.top_rows: 12,
    basic.distinct_values: 5,
    basic.case_groups: 5,
    basic.share: 5,
    nested.member_of: 8,
    nested.above_average: 6,
    nested.extreme: 4,
    nested.with_query: 5,
    window.best_per_group: 4,
    window.ranked: 3,
    window.running_total: 3,
    nested.set_operation: 5,
    window.by_period: 7,
    window.days_between: 4,
    nested.count_children: 7,
    nested.without_match: 3,
    window.replaced_null: 4,
}
COMPLEX_WEIGHTS: dict[Shape, int] = {
    several.grouped_report: 4,
    several.ranked_groups: 3,
    several.compared_totals: 3,
    several.parent_report: 4,
    several.yearly_change: 2,
    several.labelled_rows: 3,
    several.combined_lists: 2,
}
MAX_CHARS, MAX_COMPLEX_CHARS = 260, 900
TRIES_PER_QUERY = 12
MAX_STEPS = 4_000_000  # about a tenth of a second; a reference that takes longer makes every rollout slow


def generate(
    store: TemplateStore, db_id: str, seed: int, count: int, *, complex_share: float = 0.0, max_rows: int = 2_000
) -> list[Draft]:
    """Up to `count` different checked queries in canonical form; fewer when the database offers no more.

    `complex_share` is the share of attempts at queries of several steps.

    The same store, id and seed give the same list; a shorter list is a prefix of a longer one.
    """
    rng = Random(f"{seed}/{db_id}/queries")
    values = DatabaseValues(store, db_id)
    checker = SelectChecker(store.path(db_id), values.schema, max_steps=MAX_STEPS, time_limit_s=60.0, max_rows=max_rows)
    try:
        db = Database(values)
        accepted: dict[str, Draft] = {}
        for _ in range(count * TRIES_PER_QUERY):
            if len(accepted) == count:
                break
            # No draw where nothing complex is wanted: the list is the one without this parameter.
            several_steps = complex_share > 0 and rng.random() < complex_share
            weights = COMPLEX_WEIGHTS if several_steps else WEIGHTS
            draft = rng.choices(list(weights), list(weights.values()))[0](db, rng)
            if draft is None:
                continue
            checked = _checked(checker, draft, MAX_COMPLEX_CHARS if several_steps else MAX_CHARS)
            if checked:
                accepted.setdefault(checked.sql, checked)
        return list(accepted.values())
    finally:
        checker.close()
        values.close()


def _checked(checker: SelectChecker, draft: Draft, max_chars: int) -> Draft | None:
    """The draft in canonical form, or None when it is no use as a reference."""
    try:
        result = checker.check(draft.sql)
    except SelectRejected:
        return None
    if " JOIN " in result.sql and pointless_join(result.sql, checker.schema):
        return None
    hollow = len(result.rows) == 1 and all(value in (None, 0) for value in result.rows[0])
    return None if hollow or len(result.sql) > max_chars else Draft(result.sql, figures_once(draft.question))


def pointless_join(sql: str, schema: Schema) -> bool:
    """Whether an inner join brings in a table of which nothing is used but the column it is joined on."""
    tree = sqlglot.parse_one(sql, read="sqlite")
    for join in tree.find_all(exp.Join):
        if join.side or not isinstance(join.this, exp.Table):
            continue
        found = schema.table(join.this.name)
        own = {id(column) for column in join.find_all(exp.Column)}
        mark = join.this.alias_or_name
        names = {c.name.lower() for c in found.columns} if found else set()
        used = (c for c in tree.find_all(exp.Column) if id(c) not in own)
        if not any(c.table == mark or (not c.table and c.name.lower() in names) for c in used):
            return True
    return False
