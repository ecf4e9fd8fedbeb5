"""Results of solutions as hashes: two issues whose solutions give the same table may be one issue in other words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from birdrl.audit.databases import Database, database_of
from birdrl.audit.rows import Row
from birdrl.files import sha256_text
from birdrl.sql.compare import canonical
from birdrl.sql.pool import ReplicaPool, unique_trajectory_id
from birdrl.sql.results import StatementResult

# Ours: smaller tables ("3", "yes") are equal by chance too often to say anything.
MIN_CELLS = 6


def result_hashes(rows: Sequence[Row], databases: Mapping[str, Database], pool: ReplicaPool) -> Iterator[str | None]:
    """For each row the hash of what its solution shows; None where it shows no table, too small a one, or fails.

    Raises InfraError when SQL workers fail, InputError for a row whose database is not there.
    """

    def hashed(row: Row) -> str | None:
        return _hash(_last_table(row, database_of(row.db_id, row.instance_id, databases), pool))

    with ThreadPoolExecutor(pool.config.workers) as threads:
        yield from threads.map(hashed, rows)


def table_hash(table: StatementResult) -> str:
    """Equal for tables with the same multiset of rows, columns in order; numbers compare by value."""
    rows = sorted(tuple(canonical(value) for value in row) for row in table.rows)
    return sha256_text(repr([len(table.columns), [[_spelt(cell) for cell in row] for row in rows]]))


def _spelt(cell: object) -> object:
    """1.0 is written like 1, which it equals."""
    kind, *rest = cell if isinstance(cell, tuple) else (cell,)
    value = rest[0] if rest else None
    return (kind, int(value)) if isinstance(value, float) and value.is_integer() else (kind, value)


def _hash(table: StatementResult | None) -> str | None:
    if table is None or table.truncated:
        return None
    cells = sum(value is not None for row in table.rows for value in row)
    return table_hash(table) if cells >= MIN_CELLS else None


def _last_table(row: Row, database: Database, pool: ReplicaPool) -> StatementResult | None:
    if not row.solution:
        return None
    found: StatementResult | None = None
    with pool.acquire(unique_trajectory_id(f"audit:{row.instance_id}"), database.path) as lease:
        for statement in (*row.preprocess, *row.solution):
            for result in lease.execute(statement):
                if not result.ok:
                    return None
                found = result if result.has_table else found
    return found
