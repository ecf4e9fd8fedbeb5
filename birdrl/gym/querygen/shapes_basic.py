"""Query shapes of everyday work: lists, counts, groups, top rows, distinct values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from birdrl.gym.querygen.conditions import condition, where
from birdrl.gym.querygen.source import Database, Field, Source, alias, choose, of_rows
from birdrl.gym.values import ColumnKind


@dataclass(frozen=True)
class Draft:
    """A query that nobody has run yet, and the question it answers."""

    sql: str
    question: str


Shape = Callable[[Database, Random], Draft | None]

_READABLE = (ColumnKind.CATEGORY, ColumnKind.TEXT, ColumnKind.INTEGER, ColumnKind.REAL, ColumnKind.DATE)
_AGGREGATES = {"AVG": "average", "SUM": "total", "MAX": "highest", "MIN": "lowest"}


def source(db: Database, rng: Random) -> Source | None:
    """One table, or two or three joined."""
    roll = rng.random()
    joined = db.joined(rng, tables=2 if roll < 0.92 else 3) if roll > 0.65 else None
    if joined:
        return joined
    table = choose(rng, db.tables)
    return db.single(table) if table else None


def outputs(src: Source, rng: Random, low: int, high: int) -> list[Field]:
    """Columns a person would ask for, at most one of them a key."""
    readable = src.of_kind(*_READABLE)
    count = min(rng.randint(low, high), len(readable))
    chosen = rng.sample(readable, count) if count else []
    keys = src.of_kind(ColumnKind.KEY)
    if keys and (not chosen or rng.random() < 0.15):
        chosen.append(rng.choice(keys))
    # In the order of the tables' columns, as people write them.
    return [f for f in src.fields if f in chosen]


def measures(src: Source) -> list[Field]:
    """Numbers that can be added or averaged."""
    return [f for f in src.of_kind(ColumnKind.INTEGER, ColumnKind.REAL) if not f.is_flag and f.profile.distinct > 3]


def groups(src: Source, most: int = 60) -> list[Field]:
    """Columns with few enough values to group by."""
    fields = src.of_kind(ColumnKind.CATEGORY, ColumnKind.INTEGER, ColumnKind.TEXT)
    return [f for f in fields if 2 <= f.profile.distinct <= most]


def listed(fields: list[Field]) -> str:
    return ", ".join(f.ref for f in fields)


def spoken(fields: list[Field]) -> str:
    words = [f.words for f in fields]
    return " and ".join(words) if len(words) < 3 else f"{', '.join(words[:-1])} and {words[-1]}"


def aggregate(src: Source, rng: Random, *, exclude: str = "") -> tuple[str, str]:
    """An aggregate over the rows of a source and its words; `exclude` is the column of the groups."""
    numbers = [f for f in measures(src) if f.ref != exclude]
    roll = rng.random()
    if numbers and roll < 0.6:
        field = rng.choice(numbers)
        function = rng.choice(("MAX", "MIN") if field.is_year else ("AVG", "AVG", "SUM", "SUM", "MAX", "MIN"))
        call = f"{function}({field.ref})"
        if function == "AVG" and rng.random() < 0.5:
            call = f"ROUND({call}, {rng.choice((1, 2))})"
        return call, f"{_AGGREGATES[function]} {field.words}"
    counted = [f for f in src.fields if f.profile.distinct > 1 and not f.profile.unique and f.ref != exclude]
    if counted and roll < 0.78:
        field = rng.choice(counted)
        return f"COUNT(DISTINCT {field.ref})", f"number of different values of {field.words}"
    return "COUNT(*)", f"number of {src.noun}"


def ordering(src: Source, field: Field, rng: Random, *, shown: str = "") -> tuple[str, str] | None:
    """' ORDER BY ...' that leaves no tie open, and its words; None when no column can break ties."""
    direction, said = rng.choice((("", "lowest first"), (" DESC", "highest first")))
    if field.kind is ColumnKind.DATE:
        said = "latest first" if direction else "earliest first"
    ties = [] if field.profile.unique and len(src.tables) == 1 else [k for k in src.key if k != field.ref]
    if not ties and not (field.profile.unique and len(src.tables) == 1):
        return None
    return f" ORDER BY {', '.join([(shown or field.ref) + direction, *ties])}", f"{field.words}, {said}"


def listing(db: Database, rng: Random) -> Draft | None:
    src = source(db, rng)
    if src is None:
        return None
    fields = outputs(src, rng, 1, 3)
    filtered, said = where(src, rng, rng.choice((1, 1, 1, 2)))
    if not fields or not filtered:
        return None
    sql, question = (
        f"SELECT {listed(fields)} FROM {src.sql}{filtered}",
        f"List the {spoken(fields)} of {src.noun}{said}",
    )
    if rng.random() < 0.35 and (order := ordering(src, rng.choice(fields), rng)):
        sql, question = sql + order[0], f"{question}, sorted by {order[1]}"
    return Draft(sql, question + ".")


def counting(db: Database, rng: Random) -> Draft | None:
    src = source(db, rng)
    if src is None:
        return None
    filtered, said = where(src, rng, rng.choice((1, 2)))
    return (
        Draft(f"SELECT COUNT(*) FROM {src.sql}{filtered}", f"How many {src.noun} are there{said}?")
        if filtered
        else None
    )


def aggregating(db: Database, rng: Random) -> Draft | None:
    src = source(db, rng)
    if src is None:
        return None
    calls = [aggregate(src, rng)]
    if rng.random() < 0.3 and (second := aggregate(src, rng)) not in calls:
        calls.append(second)
    filtered, said = where(src, rng, rng.choice((0, 1, 1, 2)))
    sql = f"SELECT {', '.join(c for c, _ in calls)} FROM {src.sql}{filtered}"
    return Draft(sql, f"What is the {' and the '.join(of_rows(w, src.noun) for _, w in calls)}{said}?")


def grouping(db: Database, rng: Random) -> Draft | None:
    """GROUP BY one column, sometimes filtered, with HAVING, ordered or cut to the top groups."""
    src = source(db, rng)
    field = choose(rng, groups(src)) if src else None
    if src is None or field is None:
        return None
    call, words = aggregate(src, rng, exclude=field.ref)
    filtered, said = where(src, rng, rng.choice((0, 0, 1)), exclude=field.ref)
    sql = f"SELECT {field.ref}, {call} FROM {src.sql}{filtered} GROUP BY {field.ref}"
    question = f"For each {field.words}, show the {of_rows(words, src.noun)}{said}"
    if rng.random() < 0.4:
        least = max(2, round(src.tables[0].rows / (field.profile.distinct * rng.choice((1.2, 1.5, 2, 3)))))
        sql, question = (
            f"{sql} HAVING COUNT(*) >= {least}",
            f"{question}, only where there are at least {least} {src.noun}",
        )
    roll = rng.random()
    if roll < 0.25:
        sql, question = f"{sql} ORDER BY {call} DESC, {field.ref}", f"{question}, largest number first"
    elif roll < 0.4:
        top = rng.choice((1, 3, 5))
        sql = f"{sql} ORDER BY {call} DESC, {field.ref} LIMIT {top}"
        question = f"{question}, only the top {top}"
    elif roll < 0.55:
        sql, question = f"{sql} ORDER BY {field.ref}", f"{question}, sorted by {field.words}"
    return Draft(sql, question + ".")


def top_rows(db: Database, rng: Random) -> Draft | None:
    src = source(db, rng)
    if src is None:
        return None
    field = choose(rng, [*measures(src), *src.of_kind(ColumnKind.DATE)])
    order = ordering(src, field, rng) if field else None
    if field is None or order is None:
        return None
    fields = [f for f in outputs(src, rng, 1, 2) if f.ref != field.ref]
    if rng.random() < 0.6:
        fields.append(field)
    if not fields:
        return None
    known = f" WHERE {field.ref} IS NOT NULL" if field.profile.nulls else ""
    filtered, said = ("", "") if known else where(src, rng, rng.choice((0, 1)), exclude=field.ref)
    count = rng.choice((1, 3, 3, 5, 5, 10))
    sql = f"SELECT {listed(fields)} FROM {src.sql}{known}{filtered}{order[0]} LIMIT {count}"
    first = "first" if count == 1 else f"first {count}"
    return Draft(sql, f"Sort {src.noun}{said} by {order[1]}, and show the {spoken(fields)} of the {first}.")


def distinct_values(db: Database, rng: Random) -> Draft | None:
    src = source(db, rng)
    field = choose(rng, groups(src, 200)) if src else None
    if src is None or field is None:
        return None
    filtered, said = where(src, rng, 1, exclude=field.ref)
    if not filtered:
        return None
    sql = f"SELECT DISTINCT {field.ref} FROM {src.sql}{filtered}"
    order = rng.random() < 0.4
    question = f"Which different values of {field.words} occur among {src.noun}{said}{', in order' if order else ''}?"
    return Draft(f"{sql} ORDER BY {field.ref}" if order else sql, question)


def case_groups(db: Database, rng: Random) -> Draft | None:
    """Rows sorted into two or three named classes of a number, and counted."""
    table = choose(rng, db.tables)
    src = db.single(table) if table else None
    field = choose(rng, measures(src)) if src else None
    if src is None or field is None:
        return None
    low, high = field.profile.quantile(rng.uniform(0.2, 0.4)), field.profile.quantile(rng.uniform(0.6, 0.8))
    if not low < high:  # type: ignore[operator]
        return None
    case = f"CASE WHEN {field.ref} < {low} THEN 'low' WHEN {field.ref} < {high} THEN 'medium' ELSE 'high' END"
    call, words = aggregate(src, rng)
    known = f" WHERE {field.ref} IS NOT NULL" if field.profile.nulls else ""
    level = alias(src.tables, "level")
    sql = f"SELECT {case} AS {level}, {call} FROM {src.sql}{known} GROUP BY {level}"
    question = (
        f"Call {src.noun} low when {field.words} is below {low}, medium when it is below {high}, else high; "
        f"show the {words} per level."
    )
    return Draft(sql, question)


def share(db: Database, rng: Random) -> Draft | None:
    """A percentage of rows that meet a condition, in all or per group."""
    src = source(db, rng)
    if src is None:
        return None
    test = choose(rng, src.of_kind(ColumnKind.CATEGORY, ColumnKind.INTEGER, ColumnKind.REAL))
    made = condition(test, rng) if test else None
    if test is None or made is None:
        return None
    call = f"ROUND(100.0 * SUM(CASE WHEN {made.sql} THEN 1 ELSE 0 END) / COUNT(*), {rng.choice((1, 2))})"
    field = choose(rng, [f for f in groups(src, 30) if f.ref != test.ref])
    if field and rng.random() < 0.6:
        sql = f"SELECT {field.ref}, {call} AS percent FROM {src.sql} GROUP BY {field.ref}"
        return Draft(sql, f"For each {field.words}, of what percentage of {src.noun} is it true that {made.words}?")
    filtered, said = where(src, rng, 1, exclude=test.ref)
    return Draft(
        f"SELECT {call} FROM {src.sql}{filtered}",
        f"Of what percentage of {src.noun}{said} is it true that {made.words}?",
    )
