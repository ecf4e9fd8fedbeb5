"""A copy of a template with the same rows stored in reverse order: what depends on visiting order shows a difference.

SQL tables have no order, but SQLite answers in the order in which it happens to visit rows. Ties in ORDER BY, LIMIT
without a full order, bare columns in a GROUP BY and group_concat() therefore look deterministic until something moves.
"""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote as url_quote

import apsw

from birdrl.gym.introspect import quote, table_names


def reversed_copy(path: Path) -> apsw.Connection:
    """A private temporary database with the template's tables (rows reversed), columns, collations, indexes and views.

    No column is the rowid there and no constraint is kept, so the stored order is the only difference to a query.
    Virtual tables become ordinary ones.
    """
    connection = apsw.Connection("", flags=apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE | apsw.SQLITE_OPEN_URI)
    connection.execute("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF")
    connection.execute("ATTACH ? AS source", (f"file:{url_quote(str(path.absolute()))}?mode=ro&immutable=1",))
    connection.execute("BEGIN")
    indexes = []
    for table in table_names(connection, "source"):
        connection.execute(_create(connection, table))
        connection.execute(
            f"INSERT INTO main.{quote(table)} SELECT * FROM source.{quote(table)} {_descending(connection, table)}"
        )
        indexes += _indexes(connection, table)
    views = connection.execute("SELECT sql FROM source.sqlite_master WHERE type = 'view'").fetchall()
    connection.execute("COMMIT")
    connection.execute("DETACH source")
    for number, index in enumerate(indexes):
        connection.execute(f"CREATE INDEX main.mirror_index_{number} ON {index}")
    for (sql,) in views:
        connection.execute(str(sql))
    return connection


def _create(connection: apsw.Connection, table: str) -> str:
    columns = []
    for (name,) in connection.execute("SELECT name FROM pragma_table_xinfo(?, 'source') WHERE hidden <> 1", (table,)):
        declared, collation, *_ = connection.column_metadata("source", table, str(name))
        columns.append(f"{quote(str(name))} {declared or ''} COLLATE {collation}")
    return f"CREATE TABLE main.{quote(table)} ({', '.join(columns)})"


def _descending(connection: apsw.Connection, table: str) -> str:
    (without_rowid,) = connection.execute(
        "SELECT wr FROM pragma_table_list(?) WHERE schema = 'source'", (table,)
    ).fetchall()[0]
    if not without_rowid:
        return "ORDER BY rowid DESC"
    keys = connection.execute("SELECT name FROM pragma_table_xinfo(?, 'source') WHERE pk > 0 ORDER BY pk", (table,))
    return "ORDER BY " + ", ".join(f"{quote(str(name))} DESC" for (name,) in keys)


def _indexes(connection: apsw.Connection, table: str) -> list[str]:
    """'table (columns)' of the primary key and of every index on plain columns, for speed."""
    found = []
    keys = [
        quote(str(name))
        for (name,) in connection.execute(
            "SELECT name FROM pragma_table_xinfo(?, 'source') WHERE pk > 0 ORDER BY pk", (table,)
        )
    ]
    if keys:
        found.append(f"{quote(table)} ({', '.join(keys)})")
    for (index,) in connection.execute("SELECT name FROM pragma_index_list(?, 'source')", (table,)).fetchall():
        names = [n for (n,) in connection.execute("SELECT name FROM pragma_index_info(?, 'source')", (index,))]
        if all(n is not None for n in names):
            found.append(f"{quote(table)} ({', '.join(quote(str(n)) for n in names)})")
    return list(dict.fromkeys(found))
