"""Wrong output: columns and repeats."""

from __future__ import annotations

from sqlglot import exp

from birdrl.gym.rewind.draft import Bench, Text, mutation


def _output_columns(tree: exp.Expression) -> list[exp.Column]:
    """Plain columns of the outermost select list."""
    select = tree if isinstance(tree, exp.Select) else None
    if select is None:
        return []
    return [c for c in select.expressions if isinstance(c, exp.Column) and not isinstance(c.this, exp.Star)]


@mutation("projection")
def wrong_output_column(bench: Bench, tree: exp.Expression) -> Text | None:
    """The output shows another column."""
    columns = _output_columns(tree)
    if not columns:
        return None
    column = bench.rng.choice(columns)
    pair = bench.other_column(column, exclude=[c.name for c in columns])
    if pair is None:
        return None
    meant, other = pair
    column.set("this", exp.to_identifier(other.name))
    name = bench.words.name(meant)
    report = bench.words.pick(
        f"The output should show {name} instead of {other.name}.",
        f"I want to see {name}, not {other.name}.",
        f"We expect {name} where {other.name} is shown.",
    )
    return Text(report, f"it returns {other.name}", f"show {name}")


@mutation("projection")
def missing_output_column(bench: Bench, tree: exp.Expression) -> Text | None:
    """A column of the output is missing."""
    if not isinstance(tree, exp.Select) or len(tree.expressions) < 2 or tree.args.get("distinct"):
        return None
    last = tree.expressions[-1]
    phrase = bench.words.expression(last)
    if phrase is None or isinstance(last, exp.Alias):
        return None
    tree.set("expressions", [e.copy() for e in tree.expressions[:-1]])
    report = bench.words.pick(
        f"Each row should also end with the {phrase}.",
        f"The {phrase} is missing as the last column.",
        f"Please add the {phrase} at the end of each row.",
    )
    return Text(report, "the last output column is missing", f"show the {phrase} as the last column")


@mutation("projection")
def lost_distinct(bench: Bench, tree: exp.Expression) -> Text | None:
    """The list repeats the same entry."""
    selects = [s for s in tree.find_all(exp.Select) if s.args.get("distinct")]
    if not selects:
        return None
    select = bench.rng.choice(selects)
    phrase = bench.words.expression(select.expressions[0])
    if phrase is None:
        return None
    select.set("distinct", None)
    report = bench.words.pick(
        f"The list repeats the same {phrase}.", "Duplicate rows show up.", f"Each {phrase} should be listed once."
    )
    return Text(report, "equal rows are repeated", f"list each {phrase} once")


@mutation("projection")
def extra_distinct(bench: Bench, tree: exp.Expression) -> Text | None:
    """Repeated rows are dropped although each counts."""
    if not isinstance(tree, exp.Select) or tree.args.get("distinct") or tree.args.get("group"):
        return None
    if any(e.find(exp.AggFunc) for e in tree.expressions) or tree.args.get("limit"):
        return None
    phrase = bench.words.expression(tree.expressions[0])
    if phrase is None:
        return None
    tree.set("distinct", exp.Distinct())
    report = bench.words.pick(
        "Rows are missing, all repeats are needed.",
        f"The same {phrase} may occur several times, keep every row.",
        f"Repeated {phrase} must be kept.",
    )
    return Text(report, "repeated rows are dropped", f"one row for each match, repeated {phrase} included")


@mutation("projection")
def swapped_columns(bench: Bench, tree: exp.Expression) -> Text | None:
    """Two output columns stand in the wrong order."""
    if not isinstance(tree, exp.Select) or len(tree.expressions) < 2:
        return None
    first, second, *rest = tree.expressions
    a, b = bench.words.expression(first), bench.words.expression(second)
    if a is None or b is None or a == b or isinstance(first, exp.Alias) or isinstance(second, exp.Alias):
        return None
    tree.set("expressions", [second.copy(), first.copy(), *(e.copy() for e in rest)])
    report = bench.words.pick(
        f"The columns are in the wrong order: first {a}, then {b}.",
        f"Our import expects {a} first and {b} second.",
    )
    return Text(report, "the first two output columns are swapped", f"{a} comes first and {b} second")
