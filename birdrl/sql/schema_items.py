"""Which columns a statement refers to, with aliases resolved. Works on sqlglot trees: `features` says where to run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def referenced_columns(tree: Any, bound: frozenset[str]) -> set[str]:
    """Columns of a syntax tree as `table.column`, lower case, or `column` where the text does not tell the table.

    `bound` holds the names of common table expressions. Columns of these and of subqueries in FROM are left out: what
    they are made of is in the tree as well. So are names that only repeat an output alias.
    """
    from sqlglot import exp

    owners = (exp.Select, exp.Update, exp.Delete, exp.Insert)
    sources: dict[int, dict[str, str | None]] = {}
    for node in tree.find_all(exp.Table, exp.Subquery):
        owner = node.find_ancestor(*owners)
        if owner is None or not (isinstance(node, exp.Table) or isinstance(node.parent, exp.From | exp.Join)):
            continue
        real = node.name.lower() if isinstance(node, exp.Table) and node.name.lower() not in bound else None
        sources.setdefault(id(owner), {})[node.alias_or_name.lower()] = real
    found: set[str] = set()
    for column in tree.find_all(exp.Column):
        if isinstance(column.this, exp.Star) or not column.name:
            continue
        item = _resolve(column, owners, sources)
        if item:
            found.add(item)
    return found


def _resolve(column: Any, owners: tuple[Any, ...], sources: Mapping[int, Mapping[str, str | None]]) -> str:
    name, qualifier = column.name.lower(), column.table.lower()
    owner = column.find_ancestor(*owners)
    if not qualifier and _repeats_an_alias(column, owner):
        return ""
    while owner is not None:
        here = sources.get(id(owner), {})
        if qualifier in here:
            table = here[qualifier]
            return "" if table is None else f"{table}.{name}"
        if not qualifier and here:
            tables = {table for table in here.values() if table is not None}
            if not tables:
                return ""
            return f"{tables.pop()}.{name}" if len(here) == 1 else name
        owner = owner.find_ancestor(*owners)
    return f"{qualifier}.{name}" if qualifier else name


def _repeats_an_alias(column: Any, owner: Any) -> bool:
    from sqlglot import exp

    if not isinstance(owner, exp.Select) or column.find_ancestor(exp.Order, exp.Group, exp.Having, exp.Select) is owner:
        return False
    return any(
        isinstance(output, exp.Alias) and output.alias.lower() == column.name.lower() for output in owner.expressions
    )
