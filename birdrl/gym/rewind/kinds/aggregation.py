"""Wrong figures: aggregates, groups and what is counted."""

from __future__ import annotations

from sqlglot import exp

from birdrl.gym.rewind.data import quoted, sql_literal
from birdrl.gym.rewind.draft import Bench, Draft, Text, construction, mutation
from birdrl.gym.rewind.tree import AGGREGATES, owner


@mutation("aggregation")
def wrong_aggregate(bench: Bench, tree: exp.Expression) -> Text | None:
    """Another aggregate function than the one asked for."""
    nodes = [n for n in tree.find_all(*AGGREGATES) if isinstance(n.this, exp.Column) and bench.words.expression(n)]
    if not nodes:
        return None
    node = bench.rng.choice(nodes)
    phrase = bench.words.expression(node)
    near = (exp.Min, exp.Max) if isinstance(node, exp.Min | exp.Max) else (exp.Sum, exp.Avg, exp.Count)
    kinds = near if bench.rng.random() < 0.7 else AGGREGATES
    other = bench.rng.choice([k for k in kinds if not isinstance(node, k)])
    shown = bench.words.expression(other(this=node.this.copy())) or "other figure"
    node.replace(other(this=node.this.copy()))
    clear = [f"The figure should be the {phrase}, not the {shown}.", f"It gives the {shown}, I want the {phrase}."]
    brief = [f"I want the {phrase}.", f"What we report is the {phrase}."] if len(nodes) == 1 else []
    report = bench.words.pick(*clear, *brief)
    return Text(report, f"it computes the {shown}", f"the figure is the {phrase}")


@mutation("aggregation")
def lost_count_distinct(bench: Bench, tree: exp.Expression) -> Text | None:
    """Repeated values inflate a count."""
    nodes = [n for n in tree.find_all(exp.Count) if isinstance(n.this, exp.Distinct) and bench.words.expression(n)]
    if not nodes:
        return None
    node = bench.rng.choice(nodes)
    inner = node.this.expressions[0]
    phrase = bench.words.expression(inner)
    node.set("this", inner.copy())
    report = bench.words.pick(
        f"Each {phrase} should be counted once.",
        f"Repeated {phrase} values inflate the count.",
        f"The question is how many different {phrase} there are.",
    )
    return Text(report, f"repeated {phrase} values are counted again", f"count each different {phrase} once")


@construction("aggregation", "query")
def count_repeats(bench: Bench) -> Draft | None:
    """COUNT of a repeated column per group, each value once."""
    options = [(t, g, c) for t in bench.data.tables() for g in bench.data.groups(t) for c in t.columns if c != g]
    options = [(t, g, c) for t, g, c in options if (vs := bench.data.values(t, c)) and vs[0].rows >= 2]
    if not options:
        return None
    table, group, column = bench.rng.choice(options)
    g, c, t = quoted(group.name), quoted(column.name), quoted(table.name)
    report = bench.words.pick(
        f"The counts are too high: each {column.name} should count once per {group.name}.",
        f"How many different {column.name} values has each {group.name}? Repeats are counted.",
    )
    text = Text(
        report, f"repeated {column.name} values are counted again", f"count different {column.name} per {group.name}"
    )
    pattern = f"SELECT {g}, COUNT({{}}) FROM {t} GROUP BY {g}"
    return bench.select(pattern.format(c), pattern.format(f"DISTINCT {c}"), text)


@construction("aggregation", "query")
def count_null_rows(bench: Bench) -> Draft | None:
    """COUNT(*) counts rows whose value is missing."""
    options = [(t, c) for t in bench.data.tables() for c in t.columns if not c.not_null and bench.data.nulls(t, c) > 0]
    if not options:
        return None
    table, column = bench.rng.choice(options)
    groups = [g for g in bench.data.groups(table) if g.name != column.name]
    group = bench.rng.choice(groups) if groups and bench.rng.random() < 0.7 else None
    t, c = quoted(table.name), quoted(column.name)
    if group:
        g = quoted(group.name)
        pattern = f"SELECT {g}, COUNT({{}}) FROM {t} GROUP BY {g}"
    else:
        pattern = f"SELECT COUNT({{}}) FROM {t}"
    report = bench.words.pick(
        f"Rows without {column.name} are in the count; I am after those that have a {column.name}.",
        f"The count is too high: where {column.name} is NULL, there is nothing to count.",
    )
    text = Text(report, f"rows whose {column.name} is missing are counted", f"count rows that have a {column.name}")
    return bench.select(pattern.format("*"), pattern.format(c), text)


@mutation("aggregation")
def wrong_group_column(bench: Bench, tree: exp.Expression) -> Text | None:
    """The result is broken down by another column."""
    columns = [c for g in tree.find_all(exp.Group) for c in g.expressions if isinstance(c, exp.Column)]
    if not columns:
        return None
    column = bench.rng.choice(columns)
    pair = bench.other_column(column)
    if pair is None:
        return None
    meant, other = pair
    column.set("this", exp.to_identifier(other.name))
    name = bench.words.name(meant)
    clear = [
        f"I read it per {name}, and what I see goes by {other.name}.",
        f"One row per {name}, please, instead of {other.name}.",
    ]
    brief = [f"There should be one row per {name}.", f"The breakdown is for each {name}."] if len(columns) == 1 else []
    report = bench.words.pick(*clear, *brief)
    return Text(report, f"rows are grouped by {other.name}", f"one row per {name}")


@mutation("aggregation")
def lost_group_by(bench: Bench, tree: exp.Expression) -> Text | None:
    """Everything collapses into one row."""
    groups = [
        g for g in tree.find_all(exp.Group) if len(g.expressions) == 1 and isinstance(g.expressions[0], exp.Column)
    ]
    groups = [g for g in groups if g.parent is not None and not g.parent.args.get("having")]
    if not groups:
        return None
    group = bench.rng.choice(groups)
    column = group.expressions[0]
    phrase = bench.words.expression(column)
    select = group.find_ancestor(exp.Select)
    if select is None:
        return None
    select.set("group", None)
    report = bench.words.pick(
        f"I only get one row; there should be one per {column.name}.",
        f"Everything is lumped together, I need it for each {column.name}.",
        f"The figures should be broken down by {column.name}.",
    )
    return Text(report, "all rows fall into a single group", f"one row per {phrase}")


@mutation("aggregation")
def lost_having(bench: Bench, tree: exp.Expression) -> Text | None:
    """Groups that should be left out stay."""
    clauses = [h for h in tree.find_all(exp.Having) if bench.words.condition(h.this)]
    if not clauses:
        return None
    clause = bench.rng.choice(clauses)
    phrase = bench.words.condition(clause.this)
    if clause.parent is None:
        return None
    clause.parent.set("having", None)
    report = bench.words.pick(
        f"Only groups with {phrase} should stay.",
        f"Keep just the groups with {phrase}.",
        f"Small groups show up; need {phrase}.",
    )
    return Text(report, "groups are not filtered", f"only groups with {phrase}")


@mutation("aggregation")
def having_in_where(bench: Bench, tree: exp.Expression) -> Text | None:
    """An aggregate is tested before grouping."""
    clauses = [h for h in tree.find_all(exp.Having) if bench.words.condition(h.this) and h.find(*AGGREGATES)]
    if not clauses:
        return None
    clause = bench.rng.choice(clauses)
    select, condition, phrase = clause.parent, clause.this.copy(), bench.words.condition(clause.this)
    if select is None:
        return None
    where = select.args.get("where")
    select.set("having", None)
    select.set("where", exp.Where(this=exp.And(this=where.this.copy(), expression=condition) if where else condition))
    report = bench.words.pick(
        f"Error: misuse of aggregate. Groups need {phrase}.",
        f"It fails with 'misuse of aggregate'; I want groups with {phrase}.",
    )
    cause = "an aggregate is tested on single rows, before they are grouped"
    return Text(report, cause, f"only groups with {phrase}", issue_fails=True)


@construction("aggregation", "query")
def integer_division(bench: Bench) -> Draft | None:
    """A share is truncated because both sides are integers."""
    options = [(t, g, b) for t in bench.data.tables() for g in bench.data.text_groups(t) for b in bench.data.groups(t)]
    options = [(t, g, b) for t, g, b in options if g != b]
    if not options:
        return None
    table, group, column = bench.rng.choice(options)
    value = bench.rng.choice(bench.data.values(table, column)).value
    g, test = quoted(group.name), f"{quoted(column.name)} = {sql_literal(value)}"
    percent = bench.rng.random() < 0.5
    pattern = f"SELECT {g}, SUM({test}) * {{}} / COUNT(*) FROM {quoted(table.name)} GROUP BY {g}"
    what = "percentage" if percent else "share"
    report = bench.words.pick(
        f"The {what} of {column.name} {value} per {group.name} comes out without decimals.",
        f"I need the {what} with decimals, but it is cut to a whole number.",
    )
    text = Text(
        report, "integers are divided, so the fraction is cut off", f"the {what} of {column.name} {value} with decimals"
    )
    whole = "100" if percent else "1"
    return bench.select(pattern.format(whole), pattern.format(f"{whole}.0"), text)


@construction("aggregation", "query")
def lost_correlation(bench: Bench) -> Draft | None:
    """Rows are compared with the overall figure instead of that of their own group."""
    options = [
        (t, g, m)
        for t in bench.data.tables(max_rows=1500)
        for g in bench.data.groups(t)
        for m in bench.data.measures(t)
    ]
    options = [(t, g, m) for t, g, m in options if g != m]
    if not options:
        return None
    table, group, measure = bench.rng.choice(options)
    shown = bench.data.title(table) or group
    g, m, t = quoted(group.name), quoted(measure.name), quoted(table.name)
    highest = bench.rng.random() < 0.5
    operator, function, phrase = ("=", "MAX", "the highest") if highest else (">", "AVG", "above the average")
    head = f"SELECT a.{quoted(shown.name)} FROM {t} AS a WHERE a.{m} {operator} (SELECT {function}(b.{m}) FROM {t} AS b"
    report = bench.words.pick(
        f"Rows should have {phrase} {measure.name} within their own {group.name}, not overall.",
        f"{measure.name} is measured against the whole table; what counts for a row is its own {group.name}.",
    )
    text = Text(
        report,
        f"the inner query looks at all rows, not at the same {group.name}",
        f"{phrase} {measure.name} of its own {group.name}",
    )
    return bench.select(f"{head})", f"{head} WHERE b.{g} = a.{g})", text)


def column_of(node: exp.Expression, bench: Bench) -> str | None:
    """Name of the schema column a node refers to, or None."""
    found = owner(node, bench.schema) if isinstance(node, exp.Column) else None
    return found[1].name if found else None
