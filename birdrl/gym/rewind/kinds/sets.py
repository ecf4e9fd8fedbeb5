"""Set operations and subqueries."""

from __future__ import annotations

from sqlglot import exp

from birdrl.gym.rewind.conditions import draw_condition
from birdrl.gym.rewind.data import quoted
from birdrl.gym.rewind.draft import Bench, Draft, Text, construction, mutation

_SETS: dict[type[exp.Expression], str] = {
    exp.Union: "in the first or the second list",
    exp.Intersect: "in both lists",
    exp.Except: "in the first list but not in the second",
}


@mutation("sets")
def set_operator(bench: Bench, tree: exp.Expression) -> Text | None:
    """Two lists are combined wrongly."""
    nodes = [n for n in tree.find_all(*_SETS) if type(n) in _SETS]
    if not nodes:
        return None
    node = bench.rng.choice(nodes)
    wanted = _SETS[type(node)]
    other = bench.rng.choice([k for k in _SETS if not isinstance(node, k)])
    arguments = {k: v.copy() if isinstance(v, exp.Expression) else v for k, v in node.args.items()}
    arguments["distinct"] = True
    node.replace(other(**arguments))
    report = bench.words.pick(f"I want what is {wanted}.", f"Keep only entries that are {wanted}.")
    return Text(report, f"it returns what is {_SETS[other]}", f"entries that are {wanted}")


@mutation("sets")
def in_negation(bench: Bench, tree: exp.Expression) -> Text | None:
    """Membership in a subquery is tested the wrong way round."""
    nodes = [n for n in tree.find_all(exp.In, exp.Exists) if n.args.get("query") or isinstance(n, exp.Exists)]
    if not nodes:
        return None
    node = bench.rng.choice(nodes)
    inner = node.find(exp.Table)
    if inner is None:
        return None
    around = node.parent
    negated = isinstance(around, exp.Not)
    if isinstance(around, exp.Not):
        around.replace(node.copy())
    else:
        node.replace(exp.Not(this=node.copy()))
    relation = f"{'without' if negated else 'with'} a match in {inner.name}"
    report = bench.words.pick(
        f"I get the opposite: I need those {relation} there.",
        f"Only those {relation} should be listed.",
    )
    return Text(report, "membership is tested the wrong way round", f"only those {relation}")


@construction("sets", "query")
def union_keeps_repeats(bench: Bench) -> Draft | None:
    """UNION ALL repeats what is in both lists."""
    options = [t for t in bench.data.tables() if bench.data.title(t) and bench.data.groups(t)]
    if not options:
        return None
    table = bench.rng.choice(options)
    title = bench.data.title(table)
    first, second = draw_condition(bench, table), draw_condition(bench, table)
    if title is None or first is None or second is None or first.column == second.column:
        return None
    part = f"SELECT {quoted(title.name)} FROM {quoted(table.name)} WHERE"
    pattern = f"{part} {first.sql} {{}} {part} {second.sql}"
    report = bench.words.pick(
        f"{title.name} values that meet both conditions are listed twice, I want each once.",
        f"The combined list repeats some {title.name}; each should occur once.",
    )
    text = Text(report, "entries of both lists are repeated", f"each {title.name} once")
    return bench.select(pattern.format("UNION ALL"), pattern.format("UNION"), text)


@construction("sets", "query")
def subquery_wrong_filter(bench: Bench) -> Draft | None:
    """The list inside IN (...) is drawn from the wrong rows."""
    options = [(c, k, p) for c, k, p in bench.data.links() if bench.data.title(c)]
    if not options:
        return None
    child, key, parent = bench.rng.choice(options)
    title = bench.data.title(child)
    condition = draw_condition(bench, parent, avoid=(key.ref_column,))
    if title is None or condition is None:
        return None
    head = f"SELECT {quoted(title.name)} FROM {quoted(child.name)} WHERE {quoted(key.column)} IN "
    head += f"(SELECT {quoted(key.ref_column)} FROM {quoted(parent.name)} WHERE"
    report = bench.words.pick(
        f"I need {child.name} whose {parent.name} has {condition.phrase}.",
        f"The {parent.name} should be one with {condition.phrase}.",
    )
    text = Text(
        report, f"in {parent.name}, {condition.wrong_cause}", f"{child.name} of {parent.name} with {condition.phrase}"
    )
    return bench.select(f"{head} {condition.wrong_sql})", f"{head} {condition.sql})", text)
