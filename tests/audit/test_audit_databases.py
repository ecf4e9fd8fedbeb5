"""Overlaps that only the databases show: equal schemas, equal files, equal results of solutions."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from birdrl.audit.contamination import audit
from birdrl.audit.databases import Database, databases_by_id
from birdrl.audit.executed import MIN_CELLS, result_hashes, table_hash
from birdrl.audit.rows import Row
from birdrl.errors import InputError
from birdrl.gym.database_folder import open_databases
from birdrl.params import AuditParams
from birdrl.sql.pool import PoolConfig, ReplicaPool
from birdrl.sql.results import StatementResult

SCHEMAS = {
    "shop": "CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT);CREATE TABLE sale(item INTEGER REFERENCES item(id));",
    "store": "CREATE TABLE Sale(Item INTEGER REFERENCES item(id));"
    "CREATE TABLE ITEM(name TEXT, id INTEGER PRIMARY KEY);",
    "clinic": "CREATE TABLE patient(id INTEGER PRIMARY KEY, name TEXT);",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """shop and store hold other rows under the same schema; copy is the file of shop under another name."""
    root = tmp_path_factory.mktemp("databases")
    for db_id, schema in {**SCHEMAS, "copy": SCHEMAS["shop"]}.items():
        (root / db_id).mkdir()
        connection = sqlite3.connect(root / db_id / f"{db_id}.sqlite")
        connection.executescript(schema)
        table = "patient" if db_id == "clinic" else "item"
        first = 100 if db_id == "store" else 0
        connection.executemany(
            f"INSERT INTO {table}(id, name) VALUES (?, ?)", [(first + n, f"name {n}") for n in range(8)]
        )
        connection.commit()
        connection.close()
    return root


@pytest.fixture(scope="module")
def databases(folder: Path) -> dict[str, Database]:
    return databases_by_id(open_databases(folder), ["shop", "store", "clinic", "copy"])


@pytest.fixture(scope="module")
def pool() -> Iterator[ReplicaPool]:
    with ReplicaPool(PoolConfig(workers=2, statement_timeout_s=1.0)) as pool:
        yield pool


def row(number: int, db_id: str, *solution: str, preprocess: tuple[str, ...] = ()) -> Row:
    return Row(
        number, f"{db_id}-{number}", db_id, f"text {db_id} {number}", (f"SELECT {number}",), solution, preprocess
    )


def test_schema_fingerprints_ignore_order_and_case_but_not_columns(databases: dict[str, Database]) -> None:
    assert databases["shop"].schema_sha256 == databases["store"].schema_sha256 != databases["clinic"].schema_sha256
    assert databases["shop"].sha256 != databases["store"].sha256


def test_a_renamed_database_is_found_by_schema_and_a_copied_one_by_its_bytes(databases: dict[str, Database]) -> None:
    train = [row(1, "store"), row(2, "copy")]
    shop = {"copy": Database(databases["copy"].path, databases["shop"].sha256, databases["shop"].schema_sha256)}
    counts = audit(train, [row(1, "shop")], AuditParams(), databases={**databases, **shop}).counts()
    assert (counts["database_overlap"], counts["template_overlap"], counts["schema_overlap"]) == (0, 1, 1)


def test_what_needs_databases_is_not_looked_at_without_them() -> None:
    result = audit([row(1, "shop")], [row(1, "clinic")], AuditParams())
    counts = result.counts()
    assert [counts[key] for key in ("template_overlap", "schema_overlap", "result_overlap")] == [None, None, None]
    with pytest.raises(InputError, match="same_result"):
        audit([row(1, "shop")], [row(1, "clinic")], AuditParams(exclude=["same_result"]))


def test_equal_results_of_different_sql_are_found(databases: dict[str, Database], pool: ReplicaPool) -> None:
    train = [
        row(1, "shop", "SELECT id, name FROM item WHERE id < 4"),
        row(2, "shop", "SELECT id, name FROM item WHERE id < 5"),
        row(3, "shop", "SELECT COUNT(*) FROM item"),
        row(4, "shop", "UPDATE item SET name = 'x'"),
        row(5, "shop", "SELECT nothing FROM item"),
        row(6, "shop"),
        row(7, "shop", "SELECT id * 1.0, name FROM item WHERE id <= 3 ORDER BY id DESC"),
        row(8, "shop", "SELECT id, name FROM item WHERE id < 4", preprocess=("DELETE FROM item WHERE id = 0",)),
    ]
    evaluation = [row(1, "clinic", "SELECT id, name FROM patient WHERE id BETWEEN 0 AND 3")]
    params = AuditParams(exclude=["same_result"])
    result = audit(train, evaluation, params, databases=databases, pool=pool)
    assert [(flag.number, flag.reasons) for flag in result.flags] == [(1, ("same_result",)), (7, ("same_result",))]
    counts = result.counts()
    assert (counts["result_overlap"], counts["train_without_result"], counts["eval_without_result"]) == (1, 4, 0)


def test_hashes_of_tables() -> None:
    def table(*rows: tuple[object, ...], columns: int = 2) -> str:
        return table_hash(StatementResult("", "ok", tuple("abc"[:columns]), rows))

    assert table((1, "x"), (2, None)) == table((2.0, None), (1, "x"))
    assert table((1, "x"), (1, "x")) != table((1, "x"))
    assert table((1, "x")) != table(("1", "x"))
    assert table((1, "x")) != table(("x", 1))
    assert table((0.1 + 0.2, b"x")) == table((0.3, b"x"))
    assert table((float("inf"), None)) != table((-float("inf"), None))
    assert table(columns=2) != table(columns=3)


def test_small_tables_say_nothing(databases: dict[str, Database], pool: ReplicaPool) -> None:
    def sql(count: int) -> str:
        return " UNION ALL ".join(f"SELECT {n}, NULL" for n in range(count))

    rows = [row(1, "shop", sql(MIN_CELLS - 1)), row(2, "shop", sql(MIN_CELLS))]
    small, enough = result_hashes(rows, databases, pool)
    assert (small, enough is not None) == (None, True)


def test_a_missing_database_is_named(folder: Path) -> None:
    with pytest.raises(InputError, match=r"no database 'casino'"):
        databases_by_id(open_databases(folder), ["casino"])
