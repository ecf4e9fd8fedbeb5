"""Wrong order and wrong cut: ORDER BY and LIMIT."""

from __future__ import annotations

from sqlglot import exp

from birdrl.gym.rewind.draft import Bench, Text, mutation
from birdrl.gym.rewind.tree import AGGREGATES


@mutation("ordering")
def sort_direction(bench: Bench, tree: exp.Expression) -> Text | None:
    """Ascending where descending is meant, or the reverse."""
    nodes = [n for n in tree.find_all(exp.Ordered) if bench.words.expression(n.this)]
    if not nodes:
        return None
    node = bench.rng.choice(nodes)
    phrase, down = bench.words.expression(node.this), bool(node.args.get("desc"))
    node.set("desc", None if down else True)  # False would spell out ASC
    node.set("nulls_first", not node.args.get("nulls_first"))  # SQLite's default for the new direction
    first = "highest" if down else "lowest"
    report = bench.words.pick(
        f"Start with the {first} {phrase}.",
        f"The order is upside down: {'largest' if down else 'smallest'} {phrase} first.",
        f"We read the list from the {first} {phrase} on.",
    )
    return Text(report, f"rows are sorted by {phrase} the wrong way round", f"the {first} {phrase} comes first")


@mutation("ordering")
def order_column(bench: Bench, tree: exp.Expression) -> Text | None:
    """Sorted by another column."""
    nodes = [n for n in tree.find_all(exp.Ordered) if isinstance(n.this, exp.Column)]
    if not nodes:
        return None
    node = bench.rng.choice(nodes)
    pair = bench.other_column(node.this, exclude=[n.this.name for n in nodes])
    if pair is None:
        return None
    meant, other = pair
    node.this.set("this", exp.to_identifier(other.name))
    name = bench.words.name(meant)
    clear = [
        f"It is a list by {name}, and it comes out by {other.name}.",
        f"It sorts by {other.name}, I want it by {name}.",
    ]
    brief = [f"The order should follow {name}.", f"Everybody reads this list by {name}."] if len(nodes) == 1 else []
    report = bench.words.pick(*clear, *brief)
    return Text(report, f"rows are sorted by {other.name}", f"the list is in the order of {name}")


@mutation("ordering")
def order_aggregate(bench: Bench, tree: exp.Expression) -> Text | None:
    """Sorted by the group's name where its figure is meant."""
    nodes = [n for n in tree.find_all(exp.Ordered) if isinstance(n.this, AGGREGATES) and bench.words.expression(n.this)]
    if not nodes:
        return None
    node = bench.rng.choice(nodes)
    select = node.find_ancestor(exp.Select)
    group = select.args.get("group") if select is not None else None
    if group is None or not isinstance(group.expressions[0], exp.Column):
        return None
    phrase, column = bench.words.expression(node.this), group.expressions[0]
    node.set("this", column.copy())
    report = bench.words.pick(
        f"It is a list by the {phrase}, and it comes out by {column.name}.", f"The order should follow the {phrase}."
    )
    return Text(report, f"rows are sorted by {column.name}", f"the list is in the order of the {phrase}")


@mutation("ordering")
def wrong_limit(bench: Bench, tree: exp.Expression) -> Text | None:
    """Another number of rows than asked for, or no limit at all."""
    limits = [n for n in tree.find_all(exp.Limit) if str(n.expression.this).isdigit()]
    if not limits:
        return None
    limit = bench.rng.choice(limits)
    value = str(limit.expression.this)
    rows, first = ("1 row", "first row") if value == "1" else (f"{value} rows", f"first {value} rows")
    if bench.rng.random() < 0.5 and limit.parent is not None:
        limit.parent.set("limit", None)
        cause = "all rows come back"
    else:
        other = bench.rng.choice([x for x in ("1", "2", "3", "4", "5", "10") if x != value])
        limit.set("expression", exp.Literal.number(other))
        cause = f"it returns {other}"
    report = bench.words.pick(
        f"Only the {first} should be returned.",
        f"We need the top {value}.",
        f"Give back just {rows}.",
    )
    return Text(report, cause, f"return the {first}")
