"""Which SQL features a script uses, read off its syntax tree, never off its text.

Parsing is slow or endless for degenerate input: call this in a process that can be killed
(`Lease.features`), and never in the trainer.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

from birdrl.sql.results import PolicySqlError
from birdrl.sql.schema_items import referenced_columns
from birdrl.sql.splitting import split_statements, without_comments_before


@dataclass(frozen=True)
class SqlFeatures:
    """`names`: feature names, lower case; `tables`: lower-cased tables read or written, common table
    expressions left out; `columns`: see `referenced_columns`; `statements`: how many statements the script holds."""

    names: frozenset[str]
    tables: frozenset[str]
    columns: frozenset[str]
    statements: int


# Features that are one class of syntax node; the others are in `_structural`.
_NODES = {
    "select": "Select", "group_by": "Group", "having": "Having", "order_by": "Order", "limit": "Limit",
    "offset": "Offset", "exists": "Exists", "window": "Window", "union": "Union", "intersect": "Intersect",
    "except": "Except", "case": "Case", "aggregate": "AggFunc", "returning": "Returning", "insert": "Insert",
    "update": "Update", "delete": "Delete", "alter_table": "Alter", "drop": "Drop", "transaction": "Transaction",
    "commit": "Commit", "rollback": "Rollback", "like": "Like", "glob": "Glob", "between": "Between", "in": "In",
    "cast": "Cast", "coalesce": "Coalesce", "values": "Values", "not": "Not", "upsert": "OnConflict",
    "pragma": "Pragma", "check": "CheckColumnConstraint", "foreign_key": "Reference",
}  # fmt: skip
_DATE_FUNCTIONS = frozenset(("date", "time", "datetime", "julianday", "strftime", "unixepoch", "timediff"))
# sqlglot has node classes of its own for some of them; `sql_name` of those is not SQLite's name.
_DATE_NODES = (
    "Date", "Time", "Datetime", "Timestamp", "TimeToStr", "StrToTime", "TsOrDsToDate", "TsOrDsToTimestamp",
    "CurrentDate", "CurrentTime", "CurrentTimestamp", "DateStrToDate", "UnixToTime", "TimeStrToTime",
)  # fmt: skip
_CREATED = {"TABLE": "create_table", "INDEX": "create_index", "VIEW": "create_view", "TRIGGER": "create_trigger"}


def extract_features(script: str) -> SqlFeatures:
    """The features of an SQLite script. Raises PolicySqlError when it does not parse.

    Function names occur as `function:<name>`, lower case. Statements without a syntax tree (triggers,
    savepoints, VACUUM) give what their leading words tell.
    """
    import sqlglot
    from sqlglot.errors import SqlglotError

    logging.getLogger("sqlglot").setLevel(logging.ERROR)  # it warns about statements it knows only as a command
    names: set[str] = set()
    tables: set[str] = set()
    columns: set[str] = set()
    pieces = list(split_statements(script))
    try:
        for piece in pieces:
            leading = _leading_feature(piece)
            if leading:
                names.add(leading)
                continue
            for tree in sqlglot.parse(piece, read="sqlite"):
                if tree is not None:
                    _collect(tree, names, tables, columns)
    except SqlglotError as error:
        raise PolicySqlError(f"the SQL does not parse: {str(error).splitlines()[0]}") from error
    except RecursionError as error:
        raise PolicySqlError("the SQL is nested too deeply to parse") from error
    except Exception as error:  # a parser that breaks on a policy's text is no failure of the machinery
        raise PolicySqlError(f"the SQL does not parse: {type(error).__name__} in the parser") from error
    return SqlFeatures(frozenset(names), frozenset(tables), frozenset(columns), len(pieces))


def _leading_feature(statement: str) -> str:
    """The feature of a statement that sqlglot has no syntax tree for, else empty."""
    words = without_comments_before(statement)[:200].lower().rstrip("; ").split()
    if not words:
        return ""
    if words[0] == "create" and "trigger" in words[:3]:
        return "create_trigger"
    return {"savepoint": "transaction", "release": "transaction", "vacuum": "vacuum", "reindex": "reindex"}.get(
        words[0], ""
    )


def _collect(tree: Any, names: set[str], tables: set[str], columns: set[str]) -> None:
    from sqlglot import exp

    classes = [(name, getattr(exp, node)) for name, node in _NODES.items()]
    date_nodes = tuple(getattr(exp, node) for node in _DATE_NODES if hasattr(exp, node))
    bound = frozenset(cte.alias_or_name.lower() for cte in tree.find_all(exp.CTE))
    columns |= referenced_columns(tree, bound)
    for node in tree.walk():
        names.update(name for name, cls in classes if isinstance(node, cls))
        if isinstance(node, exp.Table) and node.name and node.name.lower() not in bound:
            tables.add(node.name.lower())
        elif isinstance(node, exp.Anonymous):
            name = node.name.lower()
            names.add(f"function:{name}")
            if name in _DATE_FUNCTIONS:
                names.add("date_function")
        elif isinstance(node, exp.Func):
            names.add(f"function:{node.sql_name().lower()}")
            if isinstance(node, date_nodes):
                names.add("date_function")
                if isinstance(node, exp.TimeToStr):
                    names.update(("strftime", "function:strftime"))
        _structural(node, names)


def _structural(node: Any, names: set[str]) -> None:
    """Features that need more than the class of a node."""
    from sqlglot import exp

    if isinstance(node, exp.Distinct):
        names.add("distinct")
    elif isinstance(node, exp.Join):
        names.add("join")
        side = (node.side or "").lower()
        if side in ("left", "right", "full"):
            names.add(f"{side}_join")
        if (node.kind or "").upper() == "CROSS":
            names.add("cross_join")
    elif isinstance(node, exp.With):
        names.add("cte")
        if node.recursive and any(_refers_to_itself(cte) for cte in node.expressions):
            names.add("recursive_cte")
    elif isinstance(node, exp.Is) and isinstance(node.expression, exp.Null):
        names.add("is_null")
    elif isinstance(node, exp.Union) and not node.args.get("distinct"):
        names.add("union_all")
    elif isinstance(node, exp.Create):
        kind = _CREATED.get((node.args.get("kind") or "").upper())
        if kind:
            names.add(kind)
        if kind == "create_index" and node.args.get("unique"):
            names.add("unique_index")
    elif isinstance(node, exp.Insert) and node.args.get("alternative"):
        names.add(f"insert_or_{str(node.args['alternative']).lower()}")
        names.add("upsert")
    elif isinstance(node, exp.Command):
        names.add(str(node.this).lower())
    if isinstance(node, exp.Select | exp.SetOperation) and _is_subquery(node):
        names.add("subquery")
        if isinstance(node, exp.Select) and _is_correlated(node):
            names.add("correlated_subquery")


def _refers_to_itself(cte: Any) -> bool:
    from sqlglot import exp

    name = cte.alias_or_name.lower()
    return any(table.name.lower() == name for table in cte.this.find_all(exp.Table))


def _is_subquery(node: Any) -> bool:
    from sqlglot import exp

    parent = node.parent
    while isinstance(parent, exp.SetOperation | exp.Paren):
        parent = parent.parent
    return isinstance(parent, exp.Subquery | exp.In | exp.Exists | exp.Any | exp.All)


def _is_correlated(select: Any) -> bool:
    """Whether a column is qualified by a source that this query does not name itself."""
    from sqlglot import exp

    own = {source.alias_or_name.lower() for source in select.find_all(exp.Table, exp.Subquery)}
    return any(column.table and column.table.lower() not in own for column in select.find_all(exp.Column))
