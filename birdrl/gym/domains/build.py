"""Build the SQLite file of a domain: the same seed and scale give the same bytes."""

from __future__ import annotations

import random
from pathlib import Path

import apsw

from birdrl.gym.domains.vocabulary import Domain, Draw, TableSpec, Value

MIN_ROWS = 24  # a scaled-down table keeps enough rows that wrong queries still give wrong answers
_MAX_REDRAWS = 200


def create_statement(spec: TableSpec, types: dict[str, str], keys: dict[str, str]) -> str:
    """CREATE TABLE with keys, NOT NULL, UNIQUE, CHECK and foreign keys.

    `types` are the resolved column types, `keys` the key column of every table that can be referenced.
    """
    lines = []
    for name, column in spec.columns.items():
        parts = [name, types[name]]
        if column.primary_key:
            parts.append("PRIMARY KEY")
        elif column.null == 0:
            parts.append("NOT NULL")
        if column.unique:
            parts.append("UNIQUE")
        lines.append(" ".join(parts))
    if spec.primary_key:
        lines.append(f"PRIMARY KEY ({', '.join(spec.primary_key)})")
    lines += [f"UNIQUE ({', '.join(columns)})" for columns in spec.unique]
    lines += [f"CHECK ({check})" for check in spec.checks]
    for name, column in spec.columns.items():
        if column.references:
            target = column.references
            lines.append(f"FOREIGN KEY ({name}) REFERENCES {target} ({keys[target]})")
    return f"CREATE TABLE {spec.name} (\n  " + ",\n  ".join(lines) + "\n)"


def draw_rows(
    domain: Domain, spec: TableSpec, seed: int, scale: float, parents: dict[str, list[dict[str, Value]]]
) -> list[dict[str, Value]]:
    """All rows of a table. Each column has a generator of its own, so adding a column leaves the others alone."""
    count = max(round(spec.rows * scale), min(spec.rows, MIN_ROWS))
    generators = {name: random.Random(f"{seed}/{domain.db_id}/{spec.name}/{name}") for name in spec.columns}
    unique = [columns for columns in (spec.primary_key, *spec.unique) if columns]
    seen: list[set[tuple[Value, ...]]] = [set() for _ in unique]
    rows: list[dict[str, Value]] = []
    for index in range(count):
        for _ in range(_MAX_REDRAWS):
            row: dict[str, Value] = {}
            for name, column in spec.columns.items():
                rng = generators[name]
                absent = column.null > 0 and rng.random() < column.null
                value = column.draw(Draw(rng, index, count, row, parents))
                row[name] = None if absent else value
            identities = [tuple(row[c] for c in columns) for columns in unique]
            if not any(identity in known for identity, known in zip(identities, seen, strict=True)):
                break
        else:
            break  # every combination is taken: the table stays shorter than asked for
        for identity, known in zip(identities, seen, strict=True):
            known.add(identity)
        rows.append(row)
    return rows


def build_domain(domain: Domain, path: Path, *, seed: int, scale: float = 1.0) -> None:
    """Write the domain's database to `path`, which must not exist."""
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE)
    try:
        connection.execute("PRAGMA page_size = 4096; PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF")
        connection.execute("PRAGMA foreign_keys = ON; BEGIN")
        parents: dict[str, list[dict[str, Value]]] = {}
        types: dict[tuple[str, str], str] = {}
        keys = {spec.name: next(iter(spec.columns)) for spec in domain.tables}
        for spec in domain.tables:
            resolved = {name: column.type or "INTEGER" for name, column in spec.columns.items()}
            for name, column in spec.columns.items():
                if column.references and column.references != spec.name:
                    resolved[name] = types[column.references, keys[column.references]]
            types |= {(spec.name, name): kind for name, kind in resolved.items()}
            connection.execute(create_statement(spec, resolved, keys))
            rows = draw_rows(domain, spec, seed, scale, parents)
            marks = ", ".join("?" * len(spec.columns))
            connection.executemany(f"INSERT INTO {spec.name} VALUES ({marks})", [tuple(r.values()) for r in rows])
            for number, columns in enumerate(spec.indexes, 1):
                connection.execute(f"CREATE INDEX {spec.name}_idx{number} ON {spec.name} ({columns})")
            parents[spec.name] = rows
        connection.execute("COMMIT")
    finally:
        connection.close()


def labels(domain: Domain) -> dict[str, dict[str, str]]:
    """Words given by the definition: {table: {"": table label, column: column label}}; only those that differ."""
    named = {}
    for spec in domain.tables:
        entries = {name: column.label for name, column in spec.columns.items() if column.label}
        if spec.label:
            entries[""] = spec.label
        if entries:
            named[spec.name] = entries
    return named
