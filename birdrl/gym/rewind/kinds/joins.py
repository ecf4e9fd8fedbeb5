"""Wrong joins: kind, condition, and filters that undo them."""

from __future__ import annotations

from sqlglot import exp

from birdrl.gym.rewind.conditions import draw_condition
from birdrl.gym.rewind.data import quoted
from birdrl.gym.rewind.draft import Bench, Draft, Text, construction, mutation
from birdrl.gym.rewind.tree import owner
from birdrl.gym.schema import ForeignKey, Table


@mutation("joins")
def join_type(bench: Bench, tree: exp.Expression) -> Text | None:
    """Unmatched rows are kept or lost."""
    joins = [j for j in tree.find_all(exp.Join) if j.args.get("on") and isinstance(j.this, exp.Table)]
    if not joins:
        return None
    join = bench.rng.choice(joins)
    name = join.this.name
    if str(join.args.get("side") or "").upper() == "LEFT":
        join.set("side", None)
        join.set("kind", None)
        report = bench.words.pick(
            f"Rows without a match in {name} must stay in the list.", f"Everything that has no {name} is lost, keep it."
        )
        return Text(report, f"rows without a partner in {name} are dropped", f"keep rows that have no match in {name}")
    if join.args.get("side") or join.args.get("kind"):
        return None
    join.set("side", "LEFT")
    report = bench.words.pick(
        f"Rows without a match in {name} must not appear.",
        f"Unmatched rows slip in; leave out what has no {name}.",
        f"Rows with no partner in {name} should be left out.",
    )
    return Text(report, f"rows without a partner in {name} are kept", f"only rows that have a match in {name}")


@mutation("joins")
def join_condition(bench: Bench, tree: exp.Expression) -> Text | None:
    """The tables are matched on a wrong column."""
    conditions = [j.args["on"] for j in tree.find_all(exp.Join) if isinstance(j.args.get("on"), exp.EQ)]
    conditions = [n for n in conditions if isinstance(n.this, exp.Column) and isinstance(n.expression, exp.Column)]
    if not conditions:
        return None
    node = bench.rng.choice(conditions)
    left, right = owner(node.this, bench.schema), owner(node.expression, bench.schema)
    side = bench.rng.choice([node.this, node.expression])
    pair = bench.other_column(side)
    if left is None or right is None or pair is None:
        return None
    a, b = f"{left[0].name}.{left[1].name}", f"{right[0].name}.{right[1].name}"
    side.set("this", exp.to_identifier(pair[1].name))
    report = bench.words.pick(
        f"The tables are matched badly: {a} refers to {b}.",
        f"Rows that do not belong together stand side by side; {a} refers to {b}.",
        f"The pairs are wrong, {a} and {b} mean the same thing.",
    )
    return Text(report, f"the tables are matched on {pair[1].name}", f"pairs that belong together by {a} and {b}")


def _link(bench: Bench) -> tuple[Table, ForeignKey, Table, str, str] | None:
    """Child, key, parent, the parent's title column and the join condition (aliases p and c)."""
    options = [(c, k, p) for c, k, p in bench.data.links() if bench.data.title(p) is not None]
    if not options:
        return None
    child, key, parent = bench.rng.choice(options)
    title = bench.data.title(parent)
    if title is None:
        return None
    return child, key, parent, quoted(title.name), f"c.{quoted(key.column)} = p.{quoted(key.ref_column)}"


@construction("joins", "query")
def filter_undoes_left_join(bench: Bench) -> Draft | None:
    """A condition on the right table in WHERE drops the unmatched rows that LEFT JOIN kept."""
    link = _link(bench)
    if link is None:
        return None
    child, key, parent, title, on = link
    condition = draw_condition(bench, child, avoid=(key.column,))
    if condition is None:
        return None
    ref = f"p.{quoted(key.ref_column)}"
    head = f"SELECT p.{title}, COUNT(c.{quoted(key.column)}) FROM {quoted(parent.name)} AS p "
    head += f"LEFT JOIN {quoted(child.name)} AS c ON {on}"
    report = bench.words.pick(
        f"Every {parent.name} row should show, with 0 if it has no {child.name} with {condition.phrase}.",
        f"{parent.name} rows without {child.name} of {condition.phrase} vanish, they should count 0.",
    )
    text = Text(
        report,
        f"the filter on {child.name} is applied after the join and removes the unmatched rows",
        f"all {parent.name} rows, counting only {child.name} with {condition.phrase}",
    )
    return bench.select(
        f"{head} WHERE c.{condition.sql} GROUP BY {ref}", f"{head} AND c.{condition.sql} GROUP BY {ref}", text
    )


@construction("joins", "query")
def count_star_outer(bench: Bench) -> Draft | None:
    """COUNT(*) over a LEFT JOIN counts unmatched rows as one."""
    link = _link(bench)
    if link is None:
        return None
    child, key, parent, title, on = link
    pattern = f"SELECT p.{title}, COUNT({{}}) FROM {quoted(parent.name)} AS p LEFT JOIN {quoted(child.name)} AS c "
    pattern += f"ON {on} GROUP BY p.{quoted(key.ref_column)}"
    report = bench.words.pick(
        f"{parent.name} rows without any {child.name} show 1, it should be 0.",
        f"The count must be 0 when there is no {child.name} ({key.column}).",
    )
    text = Text(
        report,
        f"a {parent.name} row without {child.name} still counts as one row",
        f"count {child.name} rows by {key.column}, 0 where there are none",
    )
    k, t = quoted(key.column), quoted(child.name)
    fallback = f"DELETE FROM {t} WHERE {k} IN (SELECT MAX({k}) FROM {t})"
    return bench.select(pattern.format("*"), pattern.format(f"c.{quoted(key.column)}"), text, perturb_first=[fallback])


@construction("joins", "query")
def join_multiplies(bench: Bench) -> Draft | None:
    """A join to the many side repeats the one side, and the count is inflated."""
    link = _link(bench)
    if link is None:
        return None
    child, key, parent, _, on = link
    condition = draw_condition(bench, child, avoid=(key.column,))
    if condition is None:
        return None
    ref = f"p.{quoted(key.ref_column)}"
    pattern = f"SELECT COUNT({{}}) FROM {quoted(parent.name)} AS p JOIN {quoted(child.name)} AS c ON {on} "
    pattern += f"WHERE c.{condition.sql}"
    report = bench.words.pick(
        f"I count {parent.name} rows, each once, however many {child.name} it has with {condition.phrase}.",
        f"{parent.name} rows with several {child.name} are counted several times; each {key.ref_column} is one to me.",
    )
    text = Text(
        report, f"each matching {child.name} repeats its {parent.name} row", f"count each {parent.name} row once"
    )
    return bench.select(pattern.format("*"), pattern.format(f"DISTINCT {ref}"), text)


@construction("joins", "query")
def inner_after_left(bench: Bench) -> Draft | None:
    """A later inner join cancels the outer join before it."""
    links = bench.data.links()
    options = [(c, k, p, k2, o) for c, k, p in links for c2, k2, o in links if c2.name == c.name and k2 != k]
    options = [x for x in options if x[2].name != x[4].name and bench.data.title(x[2]) and bench.data.title(x[4])]
    if not options:
        return None
    child, key, parent, key2, other = bench.rng.choice(options)
    title, shown = bench.data.title(parent), bench.data.title(other)
    if title is None or shown is None:
        return None
    pattern = (
        f"SELECT p.{quoted(title.name)}, o.{quoted(shown.name)} FROM {quoted(parent.name)} AS p "
        f"LEFT JOIN {quoted(child.name)} AS c ON c.{quoted(key.column)} = p.{quoted(key.ref_column)} "
        f"{{}} {quoted(other.name)} AS o ON o.{quoted(key2.ref_column)} = c.{quoted(key2.column)}"
    )
    report = bench.words.pick(
        f"{parent.name} rows without any {child.name} disappear as soon as {other.name} is brought in; they should "
        "stay, "
        f"with nothing as {shown.name}.",
        f"I want every {parent.name}, also those that have no {child.name}, beside the {shown.name} of {other.name}.",
    )
    text = Text(
        report,
        f"the join with {other.name} drops the rows that the join before it has kept",
        f"all {parent.name} rows with the {shown.name} of their {other.name}, NULL where there is no {child.name}",
    )
    k, t = quoted(key.column), quoted(child.name)
    leaves_one_out = f"DELETE FROM {t} WHERE {k} = (SELECT MAX({k}) FROM {t})"
    return bench.select(pattern.format("JOIN"), pattern.format("LEFT JOIN"), text, perturb_first=[leaves_one_out])
