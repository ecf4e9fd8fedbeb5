"""Syntax trees of verified SQL: one canonical spelling, and which table a column belongs to.

Issue and solution are always written by the same generator, so that they differ by the edit alone.
"""

from __future__ import annotations

import re
from functools import lru_cache

import sqlglot
from sqlglot import exp
from sqlglot.dialects.sqlite import SQLite
from sqlglot.errors import SqlglotError

from birdrl.gym.schema import Column, Schema, Table

AGGREGATES: tuple[type[exp.Expression], ...] = (exp.Count, exp.Sum, exp.Avg, exp.Min, exp.Max)
COMPARISONS: tuple[type[exp.Expression], ...] = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE)


class _CanonicalGenerator(SQLite.Generator):  # type: ignore[misc,valid-type]
    """SQLite spelling with the negation where people put it: `x NOT IN (...)`, `x IS NOT NULL`."""

    def not_sql(self, expression: exp.Not) -> str:
        inner = expression.this
        if isinstance(inner, exp.Is):
            return f"{self.sql(inner, 'this')} IS NOT {self.sql(inner, 'expression')}"
        if isinstance(inner, exp.In | exp.Between):
            head = self.sql(inner, "this")
            text = self.sql(inner)
            if text.startswith(f"{head} "):
                return f"{head} NOT {text[len(head) + 1 :]}"
        return str(super().not_sql(expression))


def render(tree: exp.Expression) -> str:
    """The canonical SQLite text of a tree, on one line, without comments."""
    return str(_CanonicalGenerator(dialect="sqlite", comments=False).generate(tree))


def parse(sql: str) -> exp.Expression:
    """Parse one statement of our own or verified SQL. Raises ValueError when it does not parse."""
    try:
        tree = sqlglot.parse_one(sql.strip().rstrip(";"), read="sqlite")
    except SqlglotError as error:
        raise ValueError(f"SQL does not parse: {sql!r}") from error
    if not isinstance(tree, exp.Expression):
        raise ValueError(f"SQL does not parse: {sql!r}")
    return tree


@lru_cache(maxsize=4096)
def peek(sql: str) -> exp.Expression:
    """`parse` for reading only: the tree is shared, nobody may change it."""
    return parse(sql)


def has_tree(sql: str) -> bool:
    """Whether the parser knows the statement; triggers and transaction control stay text."""
    return not re.match(
        r"\s*(CREATE (TEMP |TEMPORARY )?TRIGGER|BEGIN|COMMIT|ROLLBACK|SAVEPOINT|RELEASE)\b", sql, re.IGNORECASE
    )


@lru_cache(maxsize=4096)
def canonical(sql: str) -> str:
    """Canonical text of one statement; a statement without a tree stays as it is."""
    return render(peek(sql)) if has_tree(sql) else sql


def is_ordered(tree: exp.Expression) -> bool:
    """Whether the statement's rows have a defined order (a top-level ORDER BY)."""
    return tree.args.get("order") is not None


@lru_cache(maxsize=1 << 16)
def tables_of(sql: str) -> tuple[str, ...]:
    """Names of the tables that one statement reads or writes; guessed from the words before them without a tree."""
    if has_tree(sql):
        try:
            return tuple(table_names(peek(sql)))
        except ValueError:  # another dialect's syntax
            pass
    return tuple(dict.fromkeys(re.findall(r"\b(?:FROM|JOIN|INTO|UPDATE|TABLE|ON)\s+(\w+)", sql, re.IGNORECASE)))


def is_canonical(sql: str) -> bool:
    """Whether the text is what the generator writes, so that its tree can be edited and written again."""
    if not has_tree(sql):
        return False
    try:
        return canonical(sql) == sql
    except ValueError:
        return False


def table_names(tree: exp.Expression) -> list[str]:
    """Names of the tables a tree reads or writes, in order of appearance, CTE names left out."""
    ctes = {cte.alias.lower() for cte in tree.find_all(exp.CTE)}
    names: list[str] = []
    for table in tree.find_all(exp.Table):
        if table.name and table.name.lower() not in ctes and table.name not in names:
            names.append(table.name)
    return names


def _sources(select: exp.Expression) -> list[exp.Table]:
    sources = []
    holders = [select.args.get("from_"), *(select.args.get("joins") or [])]
    for holder in holders:
        if holder is not None and isinstance(holder.this, exp.Table):
            sources.append(holder.this)
    return sources


def owner(column: exp.Column, schema: Schema) -> tuple[Table, Column] | None:
    """Table and schema column that a column reference means, or None (alias, star, derived table)."""
    scope = column.find_ancestor(exp.Select)
    while scope is not None:
        for source in _sources(scope):
            if column.table and source.alias_or_name.lower() != column.table.lower():
                continue
            table = schema.table(source.name)
            found = table.column(column.name) if table else None
            if table and found:
                return table, found
        scope = scope.find_ancestor(exp.Select)
    return None


def literal_text(node: exp.Expression | None) -> str | None:
    """A literal as a person writes it (strings in single quotes), or None when the node is not a literal."""
    if isinstance(node, exp.Neg) and isinstance(node.this, exp.Literal):
        return f"-{node.this.this}"
    if isinstance(node, exp.Literal):
        return f"'{node.this}'" if node.is_string else str(node.this)
    return None
