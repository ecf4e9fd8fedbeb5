"""Query shapes over windows, time and missing values."""

from __future__ import annotations

from random import Random

from birdrl.gym.querygen.conditions import where
from birdrl.gym.querygen.shapes_basic import (
    Draft,
    aggregate,
    groups,
    listed,
    measures,
    ordering,
    outputs,
    source,
    spoken,
)
from birdrl.gym.querygen.source import Database, alias, choose, of_rows, single
from birdrl.gym.values import ColumnKind


def best_per_group(db: Database, rng: Random) -> Draft | None:
    """ROW_NUMBER: the first row or rows of each group."""
    src = single(db, rng)
    group = choose(rng, groups(src, 40)) if src else None
    field = choose(rng, [f for f in [*measures(src), *src.of_kind(ColumnKind.DATE)] if f != group]) if src else None
    order = ordering(src, field, rng) if src and field else None
    if src is None or group is None or field is None or order is None:
        return None
    fields = [f for f in outputs(src, rng, 1, 1) if f.ref not in (group.ref, field.ref)]
    shown, count = [group, *fields, field], rng.choice((1, 1, 2, 3))
    place = alias(src.tables, "place")
    window = f"ROW_NUMBER() OVER (PARTITION BY {group.ref}{order[0]}) AS {place}"
    known = f" WHERE {field.ref} IS NOT NULL" if field.profile.nulls else ""
    sql = (
        f"SELECT {listed(shown)} FROM (SELECT {listed(shown)}, {window} FROM {src.sql}{known}) WHERE {place} <= {count}"
    )
    return Draft(sql, f"For each {group.words}, show {spoken(shown)} of the first {count} {src.noun} by {order[1]}.")


def ranked(db: Database, rng: Random) -> Draft | None:
    """RANK over groups by an aggregate."""
    src = source(db, rng)
    group = choose(rng, groups(src, 40)) if src else None
    if src is None or group is None:
        return None
    call, words = aggregate(src, rng, exclude=group.ref)
    rank = rng.choice(("RANK", "RANK", "DENSE_RANK"))
    filtered, said = where(src, rng, rng.choice((0, 1)), exclude=group.ref)
    place = f"{rank}() OVER (ORDER BY {call} DESC) AS place"
    sql = f"SELECT {group.ref}, {call} AS n, {place} FROM {src.sql}{filtered} GROUP BY {group.ref}"
    return Draft(sql, f"Rank every {group.words} by the {of_rows(words, src.noun)}{said}, highest first.")


def running_total(db: Database, rng: Random) -> Draft | None:
    """SUM OVER: a cumulative number along time."""
    src = single(db, rng)
    date = choose(rng, src.of_kind(ColumnKind.DATE)) if src else None
    number = choose(rng, [f for f in measures(src) if not f.is_year]) if src else None
    if src is None or date is None or number is None or not src.key:
        return None
    filtered, said = where(src, rng, 1, exclude=date.ref)
    keys = ", ".join(src.key)
    total = f"SUM({number.ref}) OVER (ORDER BY {date.ref}, {keys}) AS running"
    sql = f"SELECT {keys}, {date.ref}, {total} FROM {src.sql}{filtered}"
    return Draft(sql, f"Show the running total of {number.words} over {date.words} for {src.noun}{said}.")


def by_period(db: Database, rng: Random) -> Draft | None:
    """One row per year or month."""
    src = source(db, rng)
    date = choose(rng, src.of_kind(ColumnKind.DATE)) if src else None
    if src is None or date is None:
        return None
    pattern, words = rng.choice((("%Y", "year"), ("%Y-%m", "month"), ("%m", "month of the year")))
    call, said = aggregate(src, rng)
    filtered, which = where(src, rng, rng.choice((0, 1)), exclude=date.ref)
    if date.profile.nulls:
        filtered += f"{' AND' if filtered else ' WHERE'} {date.ref} IS NOT NULL"
    period = f"strftime('{pattern}', {date.ref})"
    shown = alias(src.tables, "period")
    sql = f"SELECT {period} AS {shown}, {call} FROM {src.sql}{filtered} GROUP BY {shown}"
    if rng.random() < 0.5:
        sql += f" ORDER BY {shown}"
    return Draft(sql, f"Show the {of_rows(said, src.noun)}{which} per {words} of {date.words}.")


def days_between(db: Database, rng: Random) -> Draft | None:
    """The distance of two dates in one table."""
    src = single(db, rng)
    dates = src.of_kind(ColumnKind.DATE) if src else []
    if src is None or len(dates) < 2:
        return None
    start, end = rng.sample(dates, 2)
    if str(start.profile.quantile(0.5)) > str(end.profile.quantile(0.5)):
        start, end = end, start
    distance = f"julianday({end.ref}) - julianday({start.ref})"
    group = choose(rng, groups(src, 30))
    if group and rng.random() < 0.6:
        sql = f"SELECT {group.ref}, ROUND(AVG({distance}), 1) AS days FROM {src.sql} GROUP BY {group.ref}"
        return Draft(
            sql, f"For each {group.words}, how many days lie on average between {start.words} and {end.words}?"
        )
    fields = outputs(src, rng, 1, 2)
    days = rng.choice((7, 14, 30, 60))
    sql = f"SELECT {listed(fields)} FROM {src.sql} WHERE {distance} > {days}"
    return Draft(
        sql, f"List the {spoken(fields)} of {src.noun} with more than {days} days from {start.words} to {end.words}."
    )


def replaced_null(db: Database, rng: Random) -> Draft | None:
    """COALESCE for a column with missing values."""
    src = single(db, rng)
    if src is None:
        return None
    kinds = (ColumnKind.CATEGORY, ColumnKind.INTEGER, ColumnKind.REAL)
    field = choose(rng, [f for f in src.of_kind(*kinds) if f.profile.nulls and not f.is_year])
    if field is None:
        return None
    text = field.kind is ColumnKind.CATEGORY
    filled = f"COALESCE({field.ref}, {repr('unknown') if text else 0})"
    filtered, said = where(src, rng, 1, exclude=field.ref)
    if text:
        kind = alias(src.tables, "kind")
        sql = f"SELECT {filled} AS {kind}, COUNT(*) FROM {src.sql}{filtered} GROUP BY {kind}"
        return Draft(sql, f"Count {src.noun}{said} per {field.words}, a missing one as unknown.")
    call, words = rng.choice((("AVG", "average"), ("SUM", "total")))
    return Draft(
        f"SELECT {call}({filled}) FROM {src.sql}{filtered}",
        f"Give the {words} {field.words} of {src.noun}{said}, a missing one as 0.",
    )
