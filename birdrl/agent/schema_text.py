"""How a prompt shows the database: full DDL, or one short line per table at hand."""

from __future__ import annotations

import re
from collections.abc import Sequence

import apsw
import sqlglot
from sqlglot import exp

from birdrl.gym.schema import Column, Schema, Table


def tables_at_hand(schema: Schema, text: str) -> list[Table]:
    """The tables whose name occurs as a word in `text` (any case); all tables when none does."""
    named = [t for t in schema.tables if re.search(rf"(?<!\w){re.escape(t.name)}(?!\w)", text, re.IGNORECASE)]
    return named or list(schema.tables)


def compact_table(table: Table) -> str:
    """`orders(id, customer_id, total)`."""
    return f"{_name(table.name)}({', '.join(_name(column.name) for column in table.columns)})"


def table_ddl(table: Table) -> str:
    """CREATE TABLE with types, keys, and for each column its meaning and up to two example values."""
    lines = []
    for column in table.columns:
        parts = [_name(column.name), column.type]
        parts += ["NOT NULL"] * column.not_null
        notes = [column.label] if column.label.lower() != column.name.lower() else []
        notes += [f"e.g. {', '.join(column.examples)}"] if column.examples else []
        # A line break inside an example would leave the comment.
        comment = " ".join("; ".join(notes).split())
        lines.append((" ".join(part for part in parts if part), comment))
    key = [column.name for column in table.columns if column.primary_key]
    constraints = [f"PRIMARY KEY ({', '.join(_name(name) for name in key)})"] if key else []
    constraints += [
        f"FOREIGN KEY ({_name(k.column)}) REFERENCES {_name(k.ref_table)}({_name(k.ref_column)})"
        for k in table.foreign_keys
    ]
    lines += [(constraint, "") for constraint in constraints]
    body = [
        f"  {text}{',' if i < len(lines) else ''}{f'  -- {comment}' if comment else ''}"
        for i, (text, comment) in enumerate(lines, 1)
    ]
    return "\n".join([f"CREATE TABLE {_name(table.name)} (  -- {table.rows} rows", *body, ")"])


def _name(name: str) -> str:
    """The name as SQL writes it: quoted only where it has to be."""
    if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) and name.upper() not in apsw.keywords:
        return name
    quoted = name.replace('"', '""')
    return f'"{quoted}"'


def working_tables(preprocess_sql: Sequence[str]) -> list[Table]:
    """The tables with a column list that an instance's preprocess_sql creates: they belong to the issue's database.

    What sqlglot does not read, or a CREATE TABLE AS, shows nothing here; the policy can still look at it with SQL.
    """
    tables = []
    for script in preprocess_sql:
        try:
            statements = sqlglot.parse(script, read="sqlite")
        except sqlglot.errors.SqlglotError:
            continue
        for statement in statements:
            if isinstance(statement, exp.Create) and isinstance(statement.this, exp.Schema):
                tables.append(_table(statement.this))
    return tables


def _table(definition: exp.Schema) -> Table:
    columns = []
    for part in definition.expressions:
        # A column without a type is read as a bare name; table constraints are neither.
        if isinstance(part, exp.ColumnDef | exp.Identifier):
            kind = part.args.get("kind")
            declared = kind.sql("sqlite") if kind else ""
            columns.append(Column(name=part.name, type=declared, label=part.name.replace("_", " ")))
    name = definition.this.name
    return Table(name=name, label=name.replace("_", " "), rows=0, columns=columns)
