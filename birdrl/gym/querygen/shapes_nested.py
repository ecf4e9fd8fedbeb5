"""Query shapes with more than one SELECT, and outer joins that keep rows without a partner."""

from __future__ import annotations

from random import Random

from birdrl.gym.querygen.conditions import condition, where
from birdrl.gym.querygen.shapes_basic import (
    Draft,
    aggregate,
    groups,
    listed,
    measures,
    outputs,
    source,
    spoken,
)
from birdrl.gym.querygen.source import (
    Database,
    Edge,
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
from birdrl.gym.values import ColumnKind


def _edge(db: Database, rng: Random) -> tuple[Edge, Source, Source] | None:
    """A foreign key between two different tables with the child and the parent as sources."""
    edge = choose(rng, [e for e in db.edges if e.child.name != e.parent.name])
    return (edge, db.single(edge.child), db.single(edge.parent)) if edge else None


def _label(db: Database, edge: Edge, prefix: str, rng: Random) -> Field | None:
    """A column of the parent that names its rows, qualified with `prefix`."""
    fields = [f for f in db.fields(edge.parent, prefix) if f.kind in (ColumnKind.TEXT, ColumnKind.CATEGORY)]
    named = [f for f in fields if "name" in f.words or "title" in f.words]
    return choose(rng, named or fields)


def member_of(db: Database, rng: Random) -> Draft | None:
    """Rows of a parent with (IN, EXISTS) or without (NOT IN, NOT EXISTS) a child that meets a condition."""
    found = _edge(db, rng)
    if found is None:
        return None
    edge, child, parent = found
    fields = outputs(parent, rng, 1, 2)
    negated = rng.random() < 0.5
    filtered, said = where(child, rng, rng.choice((0, 1)) if negated else 1, exclude=name(edge.child_column))
    if not fields or not (negated or filtered):
        return None
    outer, inner = name(edge.parent_column), name(edge.child_column)
    if rng.random() < 0.6:
        nullable = db.values.profile(edge.child.name, edge.child_column).nulls
        guard = f"{' AND' if filtered else ' WHERE'} {inner} IS NOT NULL" if negated and nullable else ""
        test = f"{outer} {'NOT ' if negated else ''}IN (SELECT {inner} FROM {child.sql}{filtered}{guard})"
    else:
        link = f"{name(edge.child.name)}.{inner} = {name(edge.parent.name)}.{outer}"
        rest = f" AND {filtered.removeprefix(' WHERE ')}" if filtered else ""
        test = f"{'NOT ' if negated else ''}EXISTS (SELECT 1 FROM {child.sql} WHERE {link}{rest})"
    question = f"List the {spoken(fields)} of {parent.noun} that have {'no' if negated else 'some'} {child.noun}{said}."
    return Draft(f"SELECT {listed(fields)} FROM {parent.sql} WHERE {test}", question)


def above_average(db: Database, rng: Random) -> Draft | None:
    """Rows whose number lies above or below the average of all rows, or of their own group."""
    src = single(db, rng)
    field = choose(rng, measures(src)) if src else None
    fields = outputs(src, rng, 1, 2) if src else []
    if src is None or field is None or not fields:
        return None
    operator, said = rng.choice(((">", "above"), ("<", "below")))
    group = choose(rng, [f for f in groups(src, 30) if f.ref != field.ref])
    if group and rng.random() < 0.35:
        shown = ", ".join(f"a.{f.ref}" for f in fields)
        inner = f"SELECT AVG(b.{field.ref}) FROM {src.sql} AS b WHERE b.{group.ref} = a.{group.ref}"
        sql = f"SELECT {shown} FROM {src.sql} AS a WHERE a.{field.ref} {operator} ({inner})"
        compared, among = f"the average of its {group.words}", ""
    else:
        filtered, words = where(src, rng, rng.choice((0, 0, 1)), exclude=field.ref)
        extra = filtered.replace(" WHERE ", " AND ", 1)
        test = f"{field.ref} {operator} (SELECT AVG({field.ref}) FROM {src.sql})"
        sql = f"SELECT {listed(fields)} FROM {src.sql} WHERE {test}{extra}"
        compared, among = "the overall average", words.replace(" whose ", " and whose ", 1)
    return Draft(sql, f"List the {spoken(fields)} of {src.noun} whose {field.words} is {said} {compared}{among}.")


def extreme(db: Database, rng: Random) -> Draft | None:
    """All rows that hold the largest or smallest value."""
    src = single(db, rng)
    field = choose(rng, [*measures(src), *src.of_kind(ColumnKind.DATE)]) if src else None
    fields = outputs(src, rng, 1, 2) if src else []
    if src is None or field is None or not fields:
        return None
    function, said = rng.choice((("MAX", "highest"), ("MIN", "lowest")))
    filtered, words = where(src, rng, rng.choice((0, 1)), exclude=field.ref)
    extra = filtered.replace(" WHERE ", " AND ", 1)
    test = f"{field.ref} = (SELECT {function}({field.ref}) FROM {src.sql}{filtered})"
    sql = f"SELECT {listed(fields)} FROM {src.sql} WHERE {test}{extra}"
    among = f", looking only at {src.noun}{words}" if words else ""
    return Draft(sql, f"Show the {spoken(fields)} of the {src.noun} with the {said} {field.words}{among}.")


def with_query(db: Database, rng: Random) -> Draft | None:
    """A CTE with one row per parent key, compared with its own average or joined to the parent."""
    found = _edge(db, rng)
    if found is None:
        return None
    edge, child, _ = found
    key, label = name(edge.child_column), _label(db, edge, "p.", rng)
    call, words = aggregate(child, rng, exclude=key)
    filtered, said = where(child, rng, rng.choice((0, 1)), exclude=key)
    if db.values.profile(edge.child.name, edge.child_column).nulls:
        filtered += f"{' AND' if filtered else ' WHERE'} {key} IS NOT NULL"
    n = alias([edge.child, edge.parent], "n")
    table = f"WITH totals AS (SELECT {key}, {call} AS {n} FROM {child.sql}{filtered} GROUP BY {key})"
    one = singular(edge.parent.label)
    if label is None or rng.random() < 0.4:
        sql = f"{table} SELECT {key}, {n} FROM totals WHERE {n} > (SELECT AVG({n}) FROM totals)"
        return Draft(
            sql, f"For which {one} is the {of_rows(words, child.noun)}{said} above the average over every {one}?"
        )
    count, outer = rng.choice((3, 5, 10)), name(edge.parent_column)
    sql = (
        f"{table} SELECT {label.ref}, t.{n} FROM totals AS t JOIN {name(edge.parent.name)} AS p ON t.{key} = p.{outer} "
        f"ORDER BY t.{n} DESC, p.{outer} LIMIT {count}"
    )
    return Draft(
        sql,
        f"Which {count} {noun(edge.parent.label)} have the highest {of_rows(words, child.noun)}{said}? "
        f"Show {label.words} and that figure.",
    )


def set_operation(db: Database, rng: Random) -> Draft | None:
    """UNION, INTERSECT or EXCEPT of one column under two conditions."""
    src = source(db, rng)
    field = choose(rng, [*groups(src, 400), *src.of_kind(ColumnKind.KEY)]) if src else None
    if src is None or field is None:
        return None
    first, said_first = where(src, rng, 1, exclude=field.ref)
    second, said_second = where(src, rng, 1, exclude=field.ref)
    if not first or not second or first == second:
        return None
    operator, said = rng.choice(
        (("UNION", "or"), ("INTERSECT", "and also"), ("EXCEPT", "but not"), ("EXCEPT", "but not"))
    )
    sql = f"SELECT {field.ref} FROM {src.sql}{first} {operator} SELECT {field.ref} FROM {src.sql}{second}"
    return Draft(sql, f"Which {field.words} occur for {src.noun}{said_first} {said} for {src.noun}{said_second}?")


def count_children(db: Database, rng: Random) -> Draft | None:
    """LEFT JOIN: how many children each parent has, parents without any included."""
    found = _edge(db, rng)
    if found is None:
        return None
    edge, child, parent = found
    label = _label(db, edge, "p.", rng)
    outer, inner = name(edge.parent_column), name(edge.child_column)
    join = f"{parent.sql} AS p LEFT JOIN {child.sql} AS c ON c.{inner} = p.{outer}"
    shown = f"p.{outer}, {label.ref}" if label and rng.random() < 0.5 else label.ref if label else f"p.{outer}"
    words = label.words if label else "key"
    numbers = [f for f in measures(child) if not f.is_year]
    if numbers and rng.random() < 0.3:
        number = rng.choice(numbers)
        call, said = (
            f"COALESCE(SUM(c.{number.ref}), 0)",
            f"the total {number.words} (0 without any) of its {child.noun}",
        )
    else:
        call, said = f"COUNT(c.{inner})", f"the number of its {child.noun} (0 without any)"
    test = choose(rng, [f for f in db.fields(edge.child, "c.") if f.kind in (ColumnKind.CATEGORY, ColumnKind.DATE)])
    made = condition(test, rng) if test and rng.random() < 0.3 else None
    join += f" AND {made.sql}" if made else ""
    n = alias([edge.child, edge.parent], "n")
    sql = f"SELECT {shown}, {call} AS {n} FROM {join} GROUP BY p.{outer}"
    question = f"For every {singular(edge.parent.label)}, also those without any, show {words} and {said}"
    if rng.random() < 0.35:
        most = rng.choice((0, 1, 2))
        sql, question = f"{sql} HAVING COUNT(c.{inner}) <= {most}", f"{question}, where there are at most {most}"
    elif rng.random() < 0.3:
        count = rng.choice((3, 5))
        sql, question = f"{sql} ORDER BY {n} DESC, p.{outer} LIMIT {count}", f"{question}, only the {count} with most"
    return Draft(sql, f"{question}{f', counting those whose {made.words}' if made else ''}.")


def without_match(db: Database, rng: Random) -> Draft | None:
    """LEFT JOIN ... IS NULL: parents without a child."""
    found = _edge(db, rng)
    if found is None:
        return None
    edge, child, parent = found
    label = _label(db, edge, "p.", rng)
    outer, inner = name(edge.parent_column), name(edge.child_column)
    shown = [f"p.{outer}"] + ([label.ref] if label else [])
    join = f"{parent.sql} AS p LEFT JOIN {child.sql} AS c ON c.{inner} = p.{outer}"
    sql = f"SELECT {', '.join(shown)} FROM {join} WHERE c.{inner} IS NULL"
    return Draft(sql, f"Which {noun(edge.parent.label)} have no {child.noun}?")
