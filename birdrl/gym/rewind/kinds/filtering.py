"""Filters that keep the wrong rows."""

from __future__ import annotations

from sqlglot import exp

from birdrl.gym.rewind.data import quoted, sql_literal
from birdrl.gym.rewind.draft import Bench, Draft, Text, construction, mutation
from birdrl.gym.rewind.tree import COMPARISONS, literal_text, owner

_BOUNDARY: dict[type[exp.Expression], type[exp.Binary]] = {
    exp.GT: exp.GTE, exp.GTE: exp.GT, exp.LT: exp.LTE, exp.LTE: exp.LT,
}  # fmt: skip
_OPPOSITE: dict[type[exp.Expression], type[exp.Binary]] = {
    exp.GT: exp.LT, exp.GTE: exp.LTE, exp.LT: exp.GT, exp.LTE: exp.GTE, exp.EQ: exp.NEQ, exp.NEQ: exp.EQ,
}  # fmt: skip


def _filters(tree: exp.Expression, *kinds: type[exp.Expression]) -> list[exp.Expression]:
    """Conditions of the given kinds inside WHERE and HAVING, in order of appearance."""
    found: list[exp.Expression] = []
    for clause in tree.find_all(exp.Where, exp.Having):
        found.extend(n for n in clause.find_all(*kinds) if n.find_ancestor(exp.Where, exp.Having) is clause)
    return found


def _replace(node: exp.Expression, kind: type[exp.Binary]) -> None:
    node.replace(kind(this=node.this.copy(), expression=node.expression.copy()))


@mutation("filtering")
def comparison_boundary(bench: Bench, tree: exp.Expression) -> Text | None:
    """The bound itself is kept or lost: > against >=, < against <=."""
    nodes = [n for n in _filters(tree, *_BOUNDARY) if bench.words.condition(n)]
    if not nodes:
        return None
    node = bench.rng.choice(nodes)
    phrase, value = bench.words.condition(node), literal_text(node.expression) or "the limit"
    keeps = isinstance(node, exp.GTE | exp.LTE)
    edge = f"{value} itself {'belongs to' if keeps else 'does not belong in'} the result"
    _replace(node, _BOUNDARY[type(node)])
    report = bench.words.pick(
        f"Rows at the edge are {'missing' if keeps else 'not wanted'}: we need {phrase}.",
        f"It must be {phrase}, and {edge}.",
        f"The rule is {phrase}; {value} should {'count too' if keeps else 'not count'}.",
    )
    return Text(report, f"the comparison treats the bound {value} wrongly", f"only rows with {phrase}, where {edge}")


@mutation("filtering")
def comparison_operator(bench: Bench, tree: exp.Expression) -> Text | None:
    """The comparison points the wrong way."""
    nodes = [n for n in _filters(tree, *_OPPOSITE) if bench.words.condition(n)]
    if not nodes:
        return None
    node = bench.rng.choice(nodes)
    phrase = bench.words.condition(node)
    _replace(node, _OPPOSITE[type(node)])
    report = bench.words.pick(
        f"I get the very rows I do not want; keep those with {phrase}.",
        f"{phrase} is what we need, and it shows the opposite.",
        f"It should only cover {phrase}.",
    )
    return Text(report, "the comparison points the wrong way", f"only rows with {phrase}")


@mutation("filtering")
def wrong_literal(bench: Bench, tree: exp.Expression) -> Text | None:
    """The filter compares with another value than the one asked for."""
    nodes = [
        n for n in _filters(tree, *COMPARISONS) if isinstance(n.expression, exp.Literal) and bench.words.condition(n)
    ]
    if not nodes:
        return None
    node = bench.rng.choice(nodes)
    phrase, old = bench.words.condition(node), node.expression
    new = _other_text(bench, node) if old.is_string else _other_number(bench, str(old.this))
    if new is None:
        return None
    node.set("expression", new)
    shown, wanted = literal_text(new), literal_text(old)
    clear = [f"It looks at {shown}, but we asked for {phrase}.", f"We agreed on {wanted}, and it goes by {shown}."]
    brief = (
        [f"We asked for {phrase}.", f"This is about {phrase}, what comes has another value."] if len(nodes) == 1 else []
    )
    report = bench.words.pick(*clear, *brief)
    return Text(report, f"the filter compares with {shown}", f"only rows with {phrase}")


def _other_text(bench: Bench, node: exp.Expression) -> exp.Literal | None:
    found = owner(node.this, bench.schema) if isinstance(node.this, exp.Column) else None
    if found is None:
        return None
    values = [v.value for v in bench.data.values(*found) if isinstance(v.value, str)]
    others = [v for v in values if v != node.expression.this]
    return exp.Literal.string(bench.rng.choice(others)) if others else None


def _other_number(bench: Bench, text: str) -> exp.Expression | None:
    try:
        value = float(text)
    except ValueError:
        return None
    candidates = [value + 1, value - 1, value * 10, value * 2, value // 2, value + 5]
    changed = [c for c in candidates if c >= 0 and c != value]
    return exp.Literal.number(f"{bench.rng.choice(changed):g}") if changed and abs(value) < 1e5 else None


@mutation("filtering")
def lost_condition(bench: Bench, tree: exp.Expression) -> Text | None:
    """A condition of the WHERE clause is missing."""
    clauses = list(tree.find_all(exp.Where))
    if not clauses:
        return None
    clause = bench.rng.choice(clauses)
    condition = clause.this
    if isinstance(condition, exp.And):
        sides = [(condition.this, condition.expression), (condition.expression, condition.this)]
        dropped, kept = bench.rng.choice(sides)
        phrase = bench.words.condition(dropped)
        if phrase is None:
            return None
        clause.set("this", kept.copy())
    else:
        phrase = bench.words.condition(condition)
        if phrase is None or clause.parent is None:
            return None
        clause.parent.set("where", None)
    report = bench.words.pick(
        f"Too many rows, only {phrase} matter.",
        f"Only rows with {phrase} should count.",
        f"It ignores that {phrase} is required.",
        f"Limit it to {phrase}.",
    )
    return Text(report, "a required condition is missing, so too many rows take part", f"only rows with {phrase}")


@mutation("filtering")
def wrong_filter_column(bench: Bench, tree: exp.Expression) -> Text | None:
    """The filter tests another column than the one meant."""
    nodes = [n for n in _filters(tree, *COMPARISONS, exp.Like, exp.Between) if isinstance(n.this, exp.Column)]
    nodes = [n for n in nodes if bench.words.condition(n)]
    if not nodes:
        return None
    node = bench.rng.choice(nodes)
    phrase, pair = bench.words.condition(node), bench.other_column(node.this)
    if pair is None:
        return None
    other = pair[1]
    node.this.set("this", exp.to_identifier(other.name))
    report = bench.words.pick(
        f"I need {phrase}; {other.name} has nothing to do with it.",
        f"Rows are chosen by their {other.name}, what matters is {phrase}.",
        f"It is all about {phrase}.",
    )
    return Text(report, f"the filter tests {other.name}", f"only rows with {phrase}")


@mutation("filtering")
def and_or(bench: Bench, tree: exp.Expression) -> Text | None:
    """AND where OR is meant, or the reverse."""
    nodes = [n for n in _filters(tree, exp.And, exp.Or) if bench.words.condition(n)]
    if not nodes:
        return None
    node = bench.rng.choice(nodes)
    both = isinstance(node, exp.And)
    left, right = bench.words.condition(node.this), bench.words.condition(node.expression)
    node.replace((exp.Or if both else exp.And)(this=node.this.copy(), expression=node.expression.copy()))
    if both:
        report = bench.words.pick(
            f"Both must hold at once: {left}, and also {right}.",
            f"I get rows with just one of the two; I need {left} together with {right}.",
        )
    else:
        report = bench.words.pick(
            f"One of the two is enough: {left}, or {right}.",
            f"Rows are missing; either {left} or {right} will do.",
        )
    want = f"rows with {left} {'and also' if both else 'or else'} {right}"
    return Text(report, "the two conditions are tied together wrongly", want)


@mutation("filtering")
def range_bound(bench: Bench, tree: exp.Expression) -> Text | None:
    """One end of a BETWEEN is wrong."""
    nodes = [n for n in _filters(tree, exp.Between) if bench.words.condition(n)]
    nodes = [n for n in nodes if not n.args["low"].is_string and not n.args["high"].is_string]
    if not nodes:
        return None
    node = bench.rng.choice(nodes)
    phrase, end = bench.words.condition(node), bench.rng.choice(["low", "high"])
    new = _other_number(bench, str(node.args[end].this))
    if new is None:
        return None
    node.set(end, new)
    report = bench.words.pick(f"The range is off: it goes for {phrase}.", f"We need {phrase}.")
    return Text(report, f"the range has a wrong {end} end", f"only rows with {phrase}")


@construction("filtering", "query")
def lost_parentheses(bench: Bench) -> Draft | None:
    """OR escapes the other condition because AND binds tighter."""
    options = [
        (t, g, m) for t in bench.data.tables() for g in bench.data.text_groups(t) for m in bench.data.measures(t)
    ]
    if not options:
        return None
    table, group, measure = bench.rng.choice(options)
    first, second = bench.rng.sample([v.value for v in bench.data.values(table, group)], 2)
    bound = bench.rng.choice(bench.data.values(table, measure)).value
    shown = bench.data.title(table) or group
    g, m = quoted(group.name), quoted(measure.name)
    either = f"{g} = {sql_literal(first)} OR {g} = {sql_literal(second)}"
    head, tail = f"SELECT {quoted(shown.name)}, {g}, {m} FROM {quoted(table.name)} WHERE", f"AND {m} > {bound}"
    report = bench.words.pick(
        f"{first} rows with a low {measure.name} slip in; {measure.name} above {bound} must hold for both {first} and "
        f"{second}.",
        f"Every row needs {measure.name} above {bound}, whether {group.name} is {first} or {second}.",
        f"The limit {measure.name} > {bound} only applies to {second}; {first} must obey it too.",
    )
    text = Text(
        report,
        f"AND binds tighter than OR, so the limit on {measure.name} does not apply to {first}",
        f"rows of {group.name} {first} or {second}, all with {measure.name} above {bound}",
    )
    return bench.select(f"{head} {either} {tail}", f"{head} ({either}) {tail}", text)
