"""Queries of several steps: what a report looks like after it has grown for a while."""

from __future__ import annotations

from random import Random

from birdrl.gym.querygen.conditions import condition, where
from birdrl.gym.querygen.shapes_basic import Draft, aggregate, groups, listed, measures, outputs, source, spoken
from birdrl.gym.querygen.source import (
    Database,
    Field,
    Source,
    alias,
    choose,
    name,
    noun,
    of_rows,
    single,
    singular,
)
from birdrl.gym.values import ColumnKind, literal


def _joined(db: Database, rng: Random) -> Source | None:
    """Two or three joined tables where the database has them, else any source."""
    return db.joined(rng, tables=rng.choice((2, 2, 3))) or source(db, rng)


def _numbers(src: Source, *exclude: Field) -> list[Field]:
    return [f for f in measures(src) if not f.is_year and f not in exclude]


def _two_groups(src: Source, rng: Random) -> tuple[Field, Field] | None:
    """Two grouping columns, the coarser one first."""
    fields = groups(src, 40)
    if len(fields) < 2:
        return None
    first, second = sorted(rng.sample(fields, 2), key=lambda f: (f.profile.distinct, f.ref))
    return first, second


def grouped_report(db: Database, rng: Random) -> Draft | None:
    """Several figures per group, one of them for a part of the rows, filtered before and after grouping."""
    src = _joined(db, rng)
    group = choose(rng, groups(src, 40)) if src else None
    number = choose(rng, _numbers(src, group)) if src and group else None
    if src is None or group is None or number is None:
        return None
    tested = [f for f in src.of_kind(ColumnKind.CATEGORY, ColumnKind.INTEGER, ColumnKind.REAL) if f != group]
    test = choose(rng, tested)
    part = condition(test, rng) if test else None
    if part is None:
        return None
    filtered, said = where(src, rng, rng.choice((1, 2)), exclude=group.ref)
    total, rows, some = (alias(src.tables, word) for word in ("total", "entries", "part"))
    least = rng.choice((1, 2, 2, 3))
    sql = (
        f"SELECT {group.ref}, COUNT(*) AS {rows}, ROUND(SUM({number.ref}), 2) AS {total}, "
        f"ROUND(AVG({number.ref}), 2), SUM(CASE WHEN {part.sql} THEN 1 ELSE 0 END) AS {some} "
        f"FROM {src.sql}{filtered} GROUP BY {group.ref} HAVING COUNT(*) >= {least} "
        f"ORDER BY {total} DESC, {group.ref}"
    )
    return Draft(
        sql,
        f"For each {group.words} with at least {least} {src.noun}{said}, show their number, the total and the average "
        f"{number.words}, and for how many of them {part.words}; largest total first.",
    )


def ranked_groups(db: Database, rng: Random) -> Draft | None:
    """Totals per two columns, ranked within the first; the top of each."""
    src = _joined(db, rng)
    pair = _two_groups(src, rng) if src else None
    if src is None or pair is None:
        return None
    outer, inner = pair
    call, words = aggregate(src, rng, exclude=inner.ref)
    filtered, said = where(src, rng, rng.choice((0, 1)), exclude=inner.ref)
    first, second, total, place = (alias(src.tables, w) for w in ("main_group", "sub_group", "total", "place"))
    count = rng.choice((1, 2, 3))
    sql = (
        f"WITH totals AS (SELECT {outer.ref} AS {first}, {inner.ref} AS {second}, {call} AS {total} "
        f"FROM {src.sql}{filtered} GROUP BY {outer.ref}, {inner.ref}), "
        f"ranked AS (SELECT {first}, {second}, {total}, "
        f"RANK() OVER (PARTITION BY {first} ORDER BY {total} DESC) AS {place} FROM totals) "
        f"SELECT {first}, {second}, {total}, {place} FROM ranked WHERE {place} <= {count} "
        f"ORDER BY {first}, {place}, {second}"
    )
    return Draft(
        sql,
        f"Within each {outer.words}, rank every {inner.words} by the {of_rows(words, src.noun)}{said}, highest first, "
        f"and keep ranks up to {count}.",
    )


def compared_totals(db: Database, rng: Random) -> Draft | None:
    """Groups above the average over all groups, and by how much."""
    src = _joined(db, rng)
    group = choose(rng, groups(src, 60)) if src else None
    if src is None or group is None:
        return None
    call, words = aggregate(src, rng, exclude=group.ref)
    filtered, said = where(src, rng, rng.choice((0, 1, 1)), exclude=group.ref)
    label, total, mean = (alias(src.tables, word) for word in ("label", "total", "mean"))
    sign, side = rng.choice(((">", "above"), ("<", "below")))
    sql = (
        f"WITH totals AS (SELECT {group.ref} AS {label}, {call} AS {total} FROM {src.sql}{filtered} "
        f"GROUP BY {group.ref}), overall AS (SELECT AVG({total}) AS {mean} FROM totals) "
        f"SELECT t.{label}, t.{total}, ROUND(t.{total} - o.{mean}, 2) FROM totals AS t CROSS JOIN overall AS o "
        f"WHERE t.{total} {sign} o.{mean} ORDER BY t.{total} DESC, t.{label}"
    )
    return Draft(
        sql,
        f"For which {group.words} is the {of_rows(words, src.noun)}{said} {side} the average over all {group.words} "
        "values, and how far is it from that average?",
    )


def parent_report(db: Database, rng: Random) -> Draft | None:
    """Every parent with figures of its children, none counting as 0."""
    edge = choose(rng, [e for e in db.edges if e.child.name != e.parent.name])
    if edge is None:
        return None
    child, parent = db.single(edge.child), db.single(edge.parent)
    key, outer = name(edge.child_column), name(edge.parent_column)
    number = choose(rng, [f for f in _numbers(child) if f.ref != key])
    labels = [f for f in db.fields(edge.parent, "p.") if f.kind in (ColumnKind.TEXT, ColumnKind.CATEGORY)]
    label = choose(rng, labels)
    if number is None or label is None:
        return None
    filtered, said = where(child, rng, rng.choice((0, 1, 1)), exclude=key)
    of_parent = choose(rng, [f for f in db.fields(edge.parent, "p.") if f.kind is not ColumnKind.KEY and f != label])
    made = condition(of_parent, rng) if of_parent else None
    rows, total = (alias([edge.child, edge.parent], word) for word in ("entries", "total"))
    cut = f" LIMIT {count}" if (count := rng.choice((0, 5, 10))) else ""
    sql = (
        f"SELECT p.{outer}, {label.ref}, COALESCE(s.{rows}, 0), COALESCE(s.{total}, 0) FROM {parent.sql} AS p "
        f"LEFT JOIN (SELECT {key}, COUNT(*) AS {rows}, ROUND(SUM({number.ref}), 2) AS {total} "
        f"FROM {child.sql}{filtered} GROUP BY {key}) AS s ON s.{key} = p.{outer}"
        f"{f' WHERE {made.sql}' if made else ''} ORDER BY COALESCE(s.{total}, 0) DESC, p.{outer}{cut}"
    )
    which = f" whose {made.words}" if made else ""
    return Draft(
        sql,
        f"For every {singular(edge.parent.label)}{which}, show {label.words}, the number of its {child.noun}{said} and "
        f"their total {number.words}, 0 where there are none, largest total first"
        f"{f', only the first {count}' if count else ''}.",
    )


def yearly_change(db: Database, rng: Random) -> Draft | None:
    """A figure per period beside that of the period before."""
    src = source(db, rng)
    date = choose(rng, src.of_kind(ColumnKind.DATE)) if src else None
    if src is None or date is None:
        return None
    pattern, words = rng.choice((("%Y", "year"), ("%Y-%m", "month")))
    call, said = aggregate(src, rng)
    filtered, which = where(src, rng, rng.choice((0, 1)), exclude=date.ref)
    if date.profile.nulls:
        filtered += f"{' AND' if filtered else ' WHERE'} {date.ref} IS NOT NULL"
    period, total = (alias(src.tables, word) for word in ("period", "total"))
    sql = (
        f"WITH periods AS (SELECT strftime('{pattern}', {date.ref}) AS {period}, {call} AS {total} "
        f"FROM {src.sql}{filtered} GROUP BY {period}) SELECT {period}, {total}, "
        f"ROUND({total} - LAG({total}) OVER (ORDER BY {period}), 2) FROM periods ORDER BY {period}"
    )
    return Draft(
        sql,
        f"Show the {of_rows(said, src.noun)}{which} per {words} of {date.words}, with the change against the {words} "
        "before.",
    )


def labelled_rows(db: Database, rng: Random) -> Draft | None:
    """Rows under three conditions, with a class of a number and a stand-in for missing values."""
    src = _joined(db, rng)
    number = choose(rng, _numbers(src)) if src else None
    fields = outputs(src, rng, 2, 3) if src else []
    key = [f for f in src.fields if f.ref in src.key] if src else []
    if src is None or number is None or not fields or not key:
        return None
    low, high = (number.profile.quantile(rng.uniform(*ends)) for ends in ((0.2, 0.4), (0.6, 0.8)))
    tested = [f for f in src.fields if f.kind is not ColumnKind.KEY and f.ref not in (number.ref, *src.key)]
    rng.shuffle(tested)
    made = [c for f in tested if (c := condition(f, rng))][:3]
    if len(made) < 2 or not float(low) < float(high):
        return None
    either, *rest = made[1:] if len(made) == 3 else made
    test = f"({made[0].sql} OR {either.sql})" if len(made) == 3 else made[0].sql
    also = [*rest] if len(made) == 3 else [made[1]]
    spoken_test = f"{made[0].words} or {either.words}" if len(made) == 3 else made[0].words
    level = alias(src.tables, "level")
    case = (
        f"CASE WHEN {number.ref} IS NULL THEN 'unknown' WHEN {number.ref} < {literal(low)} THEN 'low' "
        f"WHEN {number.ref} < {literal(high)} THEN 'medium' ELSE 'high' END AS {level}"
    )
    keys = listed(key)
    extra = [f for f in fields if f not in key]
    both = "".join(f" AND {c.sql}" for c in also)
    sql = f"SELECT {listed([*key, *extra])}, {case} FROM {src.sql} WHERE {test}{both} ORDER BY {keys}"
    return Draft(
        sql,
        f"List {spoken([*key, *extra])} of {src.noun} where {spoken_test}"
        f"{''.join(f', and also {c.words}' for c in also)}; call them low when {number.words} is below {low}, medium "
        f"when it is below {high}, unknown when it is missing, else high. Sort by {spoken(key)}.",
    )


def combined_lists(db: Database, rng: Random) -> Draft | None:
    """Two counts per group under each other, each with the name of its part."""
    src = single(db, rng)
    group = choose(rng, groups(src, 40)) if src else None
    number = choose(rng, _numbers(src, group)) if src and group else None
    if src is None or group is None or number is None:
        return None
    bound = literal(number.profile.quantile(rng.uniform(0.3, 0.7)))
    part, label, rows = (alias(src.tables, word) for word in ("part", "label", "entries"))
    filtered, said = where(src, rng, rng.choice((0, 1)), exclude=group.ref)
    rest = filtered.replace(" WHERE ", " AND ", 1)
    half = f"SELECT '{{0}}' AS {part}, {group.ref} AS {label}, COUNT(*) AS {rows} FROM {src.sql} "
    half += f"WHERE {number.ref} {{1}} {bound}{rest} GROUP BY {group.ref}"
    sql = f"{half.format('below', '<')} UNION ALL {half.format('at least', '>=')} ORDER BY {part}, {label}"
    return Draft(
        sql,
        f"Count {noun(src.tables[0].label)}{said} per {group.words} in two parts, those with {number.words} below "
        f"{bound} and those with at least {bound}, one row for each part and {group.words}.",
    )
