"""NULL traps."""

from __future__ import annotations

from sqlglot import exp

from birdrl.gym.rewind.data import quoted, sql_literal
from birdrl.gym.rewind.draft import Bench, Draft, Text, construction, mutation
from birdrl.gym.schema import Column, Table


@mutation("nulls")
def null_equality(bench: Bench, tree: exp.Expression) -> Text | None:
    """= NULL never matches."""
    nodes = [
        n for n in tree.find_all(exp.Is) if isinstance(n.expression, exp.Null) and not isinstance(n.parent, exp.Not)
    ]
    nodes = [n for n in nodes if bench.words.condition(n)]
    if not nodes:
        return None
    node = bench.rng.choice(nodes)
    phrase = bench.words.condition(node)
    node.replace(exp.EQ(this=node.this.copy(), expression=exp.Null()))
    return Text(
        bench.words.pick(
            f"It finds nothing, although there are rows with {phrase}.", f"No rows come back for {phrase}."
        ),
        "a comparison with NULL by the equals sign is never true",
        f"find rows with {phrase}",
    )


def _null_columns(bench: Bench, *, groups: bool = False) -> list[tuple[Table, Column]]:
    found = []
    for table in bench.data.tables():
        for column in bench.data.groups(table) if groups else table.columns:
            if not column.not_null and bench.data.nulls(table, column) > 0:
                found.append((table, column))
    return found


@construction("nulls", "query")
def equals_null(bench: Bench) -> Draft | None:
    """= NULL or <> NULL where IS NULL or IS NOT NULL is meant."""
    options = _null_columns(bench)
    if not options:
        return None
    table, column = bench.rng.choice(options)
    shown = bench.data.title(table) or column
    wanted = bench.rng.random() < 0.6
    s, c = quoted(shown.name), quoted(column.name)
    pattern = f"SELECT {s} FROM {quoted(table.name)} WHERE {c} {{}} NULL"
    phrase = f"{column.name} is {'missing' if wanted else 'filled in'}"
    report = bench.words.pick(
        f"It finds nothing; I want rows where {phrase}.", f"The list is empty although {phrase} in several rows."
    )
    text = Text(report, "a comparison of NULL by = or <> is never true", f"rows where {phrase}")
    return bench.select(pattern.format("=" if wanted else "<>"), pattern.format("IS" if wanted else "IS NOT"), text)


@construction("nulls", "query")
def unequal_drops_null(bench: Bench) -> Draft | None:
    """<> drops the rows whose value is missing."""
    options = _null_columns(bench, groups=True)
    if not options:
        return None
    table, column = bench.rng.choice(options)
    value = sql_literal(bench.rng.choice(bench.data.values(table, column)).value)
    shown = bench.data.title(table) or column
    pattern = f"SELECT {quoted(shown.name)} FROM {quoted(table.name)} WHERE {quoted(column.name)} {{}} {value}"
    report = bench.words.pick(
        f"Rows without {column.name} are lost; list all but {value}, those with NULL included.",
        f"I want everything except {column.name} {value}; rows where it is NULL must show too.",
    )
    text = Text(
        report,
        f"rows whose {column.name} is NULL are neither equal nor unequal",
        f"all rows except {column.name} {value}, NULL included",
    )
    return bench.select(pattern.format("<>"), pattern.format("IS NOT"), text)


@construction("nulls", "query")
def not_in_null(bench: Bench) -> Draft | None:
    """NOT IN over a subquery with a NULL is never true."""
    options = []
    for child, key, parent in bench.data.links():
        column = child.column(key.column)
        if column is not None and not column.not_null and not column.primary_key and bench.data.title(parent):
            options.append((child, column, key, parent))
    if not options:
        return None
    child, column, key, parent = bench.rng.choice(options)
    title = bench.data.title(parent)
    if title is None:
        return None
    c, t = quoted(column.name), quoted(child.name)
    head = f"SELECT {quoted(title.name)} FROM {quoted(parent.name)} "
    head += f"WHERE {quoted(key.ref_column)} NOT IN (SELECT {c} FROM {t}"
    report = bench.words.pick(
        f"No {parent.name} without {child.name} is found any more since some {column.name} values are missing.",
        f"It comes back empty, though there are {parent.name} rows that no {column.name} of {child.name} points to.",
    )
    text = Text(
        report,
        f"one NULL among the {column.name} values makes the test unknown for every row",
        f"{parent.name} rows without {child.name}",
    )
    breaks = f"UPDATE {t} SET {c} = NULL WHERE {c} = (SELECT MIN({c}) FROM {t})"
    return bench.select(f"{head})", f"{head} WHERE {c} IS NOT NULL)", text, perturb_first=[breaks])


@construction("nulls", "query")
def null_total(bench: Bench) -> Draft | None:
    """SUM over no rows is NULL where 0 is wanted."""
    options = [(c, k, p, m) for c, k, p in bench.data.links() if bench.data.title(p) for m in bench.data.measures(c)]
    if not options:
        return None
    child, key, parent, measure = bench.rng.choice(options)
    title = bench.data.title(parent)
    if title is None:
        return None
    ref, total = f"p.{quoted(key.ref_column)}", f"SUM(c.{quoted(measure.name)})"
    pattern = (
        f"SELECT p.{quoted(title.name)}, {{}} FROM {quoted(parent.name)} AS p LEFT JOIN {quoted(child.name)} AS c "
    )
    pattern += f"ON c.{quoted(key.column)} = {ref} GROUP BY {ref}"
    report = bench.words.pick(
        f"{parent.name} rows without {child.name} show NULL as total {measure.name}, I want 0.",
        f"The total {measure.name} must be 0, not NULL, where there is no {child.name}.",
    )
    text = Text(
        report, f"the sum of no {child.name} rows is NULL", f"total {measure.name}, 0 where there is no {child.name}"
    )
    k, t = quoted(key.column), quoted(child.name)
    leaves_one_out = f"DELETE FROM {t} WHERE {k} = (SELECT MAX({k}) FROM {t})"
    return bench.select(
        pattern.format(total), pattern.format(f"COALESCE({total}, 0)"), text, perturb_first=[leaves_one_out]
    )
