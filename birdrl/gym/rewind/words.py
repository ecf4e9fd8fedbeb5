"""How a person speaks about columns, values and conditions in an issue report."""

from __future__ import annotations

from random import Random

from sqlglot import exp

from birdrl.gym.rewind.tree import literal_text, owner
from birdrl.gym.schema import Column, Schema, Table

_COMPARISON: dict[type[exp.Expression], tuple[str, ...]] = {
    exp.GT: ("above", "greater than", "more than"),
    exp.GTE: ("at least", "no less than"),
    exp.LT: ("below", "less than", "under"),
    exp.LTE: ("at most", "no more than"),
    exp.EQ: ("equal to", "exactly"),
    exp.NEQ: ("different from", "other than"),
}
_AGGREGATE: dict[type[exp.Expression], tuple[str, ...]] = {
    exp.Min: ("lowest", "smallest", "minimum"),
    exp.Max: ("highest", "largest", "maximum"),
    exp.Sum: ("total", "sum of"),
    exp.Avg: ("average", "mean"),
    exp.Count: ("number of",),
}


class Words:
    """Phrases over one schema; wording is drawn from `rng`, facts never are."""

    def __init__(self, schema: Schema, rng: Random) -> None:
        self.schema = schema
        self.rng = rng

    def name(self, thing: Column | Table) -> str:
        """Identifier (mostly, so that the reader can find it) or label of a column or table."""
        return thing.name if self.rng.random() < 0.75 else thing.label

    def pick(self, *options: str) -> str:
        """One of several wordings."""
        return self.rng.choice(options)

    def expression(self, node: exp.Expression | None) -> str | None:
        """Noun phrase for a column or aggregate, or None when we have no plain words for it."""
        if isinstance(node, exp.Alias | exp.Paren):
            return self.expression(node.this)
        if isinstance(node, exp.Column):
            if isinstance(node.this, exp.Star):
                return None
            found = owner(node, self.schema)
            return self.name(found[1]) if found else node.name.replace("_", " ")
        if isinstance(node, exp.Distinct) and len(node.expressions) == 1:
            inner = self.expression(node.expressions[0])
            return f"different {inner}" if inner else None
        if isinstance(node, exp.Round):
            return self.expression(node.this)
        for kind, words in _AGGREGATE.items():
            if isinstance(node, kind):
                if isinstance(node.this, exp.Star):
                    return "number of rows"
                inner = self.expression(node.this)
                return f"{self.pick(*words)} {inner}" if inner else None
        return None

    def condition(self, node: exp.Expression | None) -> str | None:
        """Phrase for a condition ("price above 30"), or None when we have no plain words for it."""
        if isinstance(node, exp.Paren):
            return self.condition(node.this)
        if isinstance(node, exp.And | exp.Or):
            left, right = self.condition(node.this), self.condition(node.expression)
            glue = "and" if isinstance(node, exp.And) else "or"
            return f"{left} {glue} {right}" if left and right else None
        if isinstance(node, exp.Not):
            return self._negated(node.this)
        subject = self.expression(node.this) if node is not None and isinstance(node.this, exp.Expression) else None
        if node is None or subject is None:
            return None
        if isinstance(node, exp.Is) and isinstance(node.expression, exp.Null):
            return f"{subject} {self.pick('missing', 'not filled in', 'empty (NULL)')}"
        if isinstance(node, exp.Between):
            low, high = literal_text(node.args["low"]), literal_text(node.args["high"])
            return f"{subject} between {low} and {high}" if low and high else None
        if isinstance(node, exp.Like):
            return like_phrase(subject, node.expression)
        if isinstance(node, exp.In):
            values = [literal_text(v) for v in node.expressions]
            known = [v for v in values if v]
            return f"{subject} one of {', '.join(known)}" if known and len(known) == len(values) else None
        if type(node) in _COMPARISON:
            value = literal_text(node.expression) or self._inner_value(node.expression)
            return f"{subject} {self.pick(*_COMPARISON[type(node)])} {value}" if value else None
        return None

    def _negated(self, node: exp.Expression) -> str | None:
        subject = self.expression(node.this)
        if subject is None:
            return None
        if isinstance(node, exp.Is) and isinstance(node.expression, exp.Null):
            return f"{subject} {self.pick('filled in', 'present', 'not NULL')}"
        if isinstance(node, exp.Like):
            return like_phrase(subject, node.expression, negated=True)
        return None

    def _inner_value(self, node: exp.Expression | None) -> str | None:
        """`(SELECT AVG(x) FROM t)` as "the average x"."""
        if isinstance(node, exp.Subquery) and isinstance(node.this, exp.Select) and not node.this.args.get("where"):
            inner = self.expression(node.this.expressions[0])
            return f"the {inner}" if inner else None
        return None


def like_phrase(subject: str, pattern: exp.Expression, *, negated: bool = False) -> str | None:
    """`%x%`, `x%` and `%x` in words; other patterns verbatim."""
    if not isinstance(pattern, exp.Literal):
        return None
    text = str(pattern.this)
    core = text.strip("%")
    verbs = {(True, True): "containing", (False, True): "starting with", (True, False): "ending with"}
    verb = verbs.get((text.startswith("%"), text.endswith("%")))
    plain = verb is not None and core and "%" not in core and "_" not in core
    phrase = f"{verb} '{core}'" if plain else f"like '{text}'"
    return f"{subject} not {phrase}" if negated else f"{subject} {phrase}"
