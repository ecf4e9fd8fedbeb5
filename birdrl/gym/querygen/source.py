"""What a generated query reads from: one table or a chain of tables joined along foreign keys."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from random import Random
from typing import TypeVar

from birdrl.gym.introspect import quote
from birdrl.gym.schema import Table
from birdrl.gym.values import ColumnKind, ColumnProfile, DatabaseValues

T = TypeVar("T")

_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_RESERVED_TEXT = (
    "add all alter and as asc between by case check collate column commit create cross current default delete desc "
    "distinct drop else end escape except exists filter foreign from full group having if in index inner insert "
    "intersect into is join key left like limit match natural no not null of offset on or order outer over partition "
    "primary range references replace right row rows select set table then to transaction trigger union "
    "unique update using values view when where window with"
)
_RESERVED = frozenset(_RESERVED_TEXT.split())


def name(identifier: str) -> str:
    """The identifier, quoted only where SQL needs it."""
    plain = _PLAIN_NAME.fullmatch(identifier) and identifier.lower() not in _RESERVED
    return identifier if plain else quote(identifier)


@dataclass(frozen=True)
class Field:
    """One column as a query sees it: `ref` is how the query writes it, `words` what a person calls it."""

    ref: str
    words: str
    table: Table
    profile: ColumnProfile

    @property
    def kind(self) -> ColumnKind:
        return self.profile.kind

    @property
    def is_flag(self) -> bool:
        return self.kind is ColumnKind.INTEGER and set(self.profile.values) <= {0, 1}

    @property
    def is_year(self) -> bool:
        """Whole numbers that are all years: nobody adds them up."""
        return self.kind is ColumnKind.INTEGER and all(1500 <= float(v) <= 2100 for v in self.profile.values)


@dataclass(frozen=True)
class Edge:
    """A foreign key of one column: each row of `child` has at most one row of `parent`."""

    child: Table
    child_column: str
    parent: Table
    parent_column: str


@dataclass(frozen=True)
class Source:
    """A FROM clause, its fields, and the columns that identify one of its rows (empty: none do)."""

    sql: str
    noun: str
    tables: tuple[Table, ...]
    fields: tuple[Field, ...]
    key: tuple[str, ...]

    def of_kind(self, *kinds: ColumnKind) -> list[Field]:
        return [f for f in self.fields if f.kind in kinds]


class Database:
    """The tables of a template that have rows, their single-column foreign keys, and sources over them."""

    def __init__(self, values: DatabaseValues) -> None:
        self.values = values
        self.tables = [t for t in values.schema.tables if t.rows > 0]
        self.edges = self._edges()

    def _edges(self) -> list[Edge]:
        filled = {t.name: t for t in self.tables}
        edges = []
        for child in self.tables:
            # Several columns of one key refer to different columns of one table; two keys to the same one do not.
            targets: dict[str, set[str]] = {}
            for key in child.foreign_keys:
                targets.setdefault(key.ref_table, set()).add(key.ref_column)
            for key in child.foreign_keys:
                parent = filled.get(key.ref_table)
                if parent and len(targets[key.ref_table]) == 1 and self.unique(parent, key.ref_column):
                    edges.append(Edge(child, key.column, parent, key.ref_column))
        return edges

    def unique(self, table: Table, column: str) -> bool:
        return self.values.profile(table.name, column).unique

    def fields(self, table: Table, prefix: str = "", owner: str = "") -> list[Field]:
        """Fields of a table; `prefix` qualifies the reference, `owner` the words."""
        return [
            Field(prefix + name(c.name), owned(owner, c.label), table, self.values.profile(table.name, c.name))
            for c in table.columns
        ]

    def key(self, table: Table, prefix: str = "") -> tuple[str, ...]:
        """Columns that identify a row: the primary key, else the first unique column, else none."""
        primary = [c.name for c in table.columns if c.primary_key]
        if not primary:
            primary = next(([c.name] for c in table.columns if self.unique(table, c.name)), [])
        elif any(self.values.profile(table.name, c).nulls for c in primary):
            return ()
        return tuple(prefix + name(c) for c in primary)

    def single(self, table: Table) -> Source:
        """One table, columns unqualified."""
        return Source(name(table.name), noun(table.label), (table,), tuple(self.fields(table)), self.key(table))

    def joined(self, rng: Random, *, tables: int = 2) -> Source | None:
        """A chain of `tables` tables from child to parent in a random style, or None without such a chain."""
        chain = self._chain(rng, tables)
        if chain is None:
            return None
        path = [chain[0].child, *(edge.parent for edge in chain)]
        style = rng.choice(("numbered", "numbered", "plain", "plain", "initials"))
        marks = _marks(path, style)
        text = _aliased(path[0], marks[0])
        for edge, mark, previous in zip(chain, marks[1:], marks, strict=False):
            join = f"{previous}.{name(edge.child_column)} = {mark}.{name(edge.parent_column)}"
            text += f" JOIN {_aliased(edge.parent, mark)} ON {join}"
        roles = ["", *(self._role(edge) for edge in chain)]
        shared = Counter(c.name.lower() for t in path for c in t.columns)
        fields = []
        for table, mark, role in zip(path, marks, roles, strict=True):
            for field in self.fields(table, f"{mark}.", f"{singular(table.label)} "):
                column = field.profile.column
                bare = style == "plain" and shared[column.lower()] == 1
                alone = owned(role, table_words(table, column))
                words = field.words if shared[column.lower()] > 1 and not role else alone
                fields.append(Field(name(column) if bare else field.ref, words, table, field.profile))
        return Source(text, noun(path[0].label), tuple(path), tuple(fields), self.key(path[0], f"{marks[0]}."))

    def _role(self, edge: Edge) -> str:
        """'origin ' where origin_id and target_id refer to the same table, else nothing."""
        rivals = [e for e in self.edges if e.child.name == edge.child.name and e.parent.name == edge.parent.name]
        return re.sub(r" id$", "", table_words(edge.child, edge.child_column)) + " " if len(rivals) > 1 else ""

    def _chain(self, rng: Random, tables: int) -> list[Edge] | None:
        for _ in range(8):
            if not self.edges:
                return None
            chain = [rng.choice(self.edges)]
            used = {chain[0].child.name, chain[0].parent.name}
            while len(chain) < tables - 1:
                onward = [e for e in self.edges if e.child.name == chain[-1].parent.name and e.parent.name not in used]
                if not onward:
                    break
                chain.append(rng.choice(onward))
                used.add(chain[-1].parent.name)
            if len(chain) == tables - 1 and len(used) == tables:
                return chain
        return None


def table_words(table: Table, column: str) -> str:
    found = table.column(column)
    return found.label if found else column


def _marks(path: Sequence[Table], style: str) -> list[str]:
    if style == "numbered":
        return [f"T{i + 1}" for i in range(len(path))]
    if style == "initials":
        initials = [re.sub(r"[^a-z]", "", t.name.lower())[:1] for t in path]
        if all(initials) and len(set(initials)) == len(initials):
            return initials
    return [name(t.name) for t in path]


def _aliased(table: Table, mark: str) -> str:
    return mark if mark == name(table.name) else f"{name(table.name)} AS {mark}"


def noun(label: str) -> str:
    """Words for several rows of a table ('order items'; 'singer' becomes 'singers')."""
    return label if label.endswith("s") or label in ("staff", "aircraft") else f"{label} records"


def owned(owner: str, label: str) -> str:
    """'order date' for a column 'date' of orders, but 'player name' alone where its label names the owner."""
    return label if label.startswith(owner) else owner + label


def of_rows(words: str, rows: str) -> str:
    """'average price of tickets', but 'number of tickets' alone."""
    return words if words.endswith(rows) else f"{words} of {rows}"


def singular(label: str) -> str:
    """Words for one row of a table ('order item')."""
    if label.endswith("ies"):
        return label[:-3] + "y"
    if label.endswith(("ches", "shes", "sses")):
        return label[:-2]
    return label[:-1] if label.endswith("s") and not label.endswith("ss") else label


def choose(rng: Random, options: Iterable[T]) -> T | None:
    """One of the options, or None when there are none."""
    listed = list(options)
    return rng.choice(listed) if listed else None


def single(db: Database, rng: Random) -> Source | None:
    """One table of the database, or None when all are empty."""
    table = choose(rng, db.tables)
    return db.single(table) if table else None


def alias(tables: Iterable[Table], word: str) -> str:
    """The word, or a longer form of it where a column has that name: GROUP BY would take the column for the alias."""
    taken = {c.name.lower() for t in tables for c in t.columns}
    while word in taken:
        word = f"{word}_value"
    return word
