"""The generated domains: the same bytes for the same seed, keys that hold, data in which wrong queries show."""

from __future__ import annotations

from pathlib import Path

import apsw
import pytest

from birdrl.files import sha256_file
from birdrl.gym.domains import DOMAINS
from birdrl.gym.domains.build import build_domain


def _build(db_id: str, path: Path, seed: int = 7, scale: float = 1.0) -> apsw.Connection:
    build_domain(DOMAINS[db_id], path, seed=seed, scale=scale)
    return apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)


def test_there_are_at_least_twelve_domains_of_four_to_six_tables() -> None:
    assert len(DOMAINS) >= 12
    assert all(4 <= len(domain.tables) <= 6 for domain in DOMAINS.values())


def test_same_seed_same_bytes_and_another_seed_other_bytes(tmp_path: Path) -> None:
    hashes = []
    for number, seed in enumerate((7, 7, 8)):
        _build("retail_orders", tmp_path / f"{number}.sqlite", seed, 0.3).close()
        hashes.append(sha256_file(tmp_path / f"{number}.sqlite"))
    assert hashes[0] == hashes[1] != hashes[2]


@pytest.mark.parametrize("db_id", DOMAINS)
def test_a_domain_is_sound_and_has_rows_nulls_and_used_foreign_keys(db_id: str, tmp_path: Path) -> None:
    with _build(db_id, tmp_path / "d.sqlite") as db:
        assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert db.execute("PRAGMA foreign_key_check").fetchall() == []
        nulls = keys = 0
        for table in DOMAINS[db_id].tables:
            (rows,) = db.execute(f"SELECT COUNT(*) FROM {table.name}").fetchone()
            assert 50 <= rows <= 2000, table.name
            for name, column in table.columns.items():
                (missing,) = db.execute(f"SELECT COUNT(*) FROM {table.name} WHERE {name} IS NULL").fetchone()
                assert missing < rows, f"{table.name}.{name} is always NULL"
                assert missing == 0 or column.null > 0 or column.type == "TEXT", f"{table.name}.{name}"
                nulls += missing
            keys += len(db.execute(f"PRAGMA foreign_key_list({table.name})").fetchall())
        assert nulls > 50
        assert keys >= 3


def test_some_parents_have_no_child_and_popular_ones_have_many(tmp_path: Path) -> None:
    with _build("retail_orders", tmp_path / "d.sqlite") as db:
        query = (
            "SELECT COUNT(o.order_id) FROM customers AS c LEFT JOIN orders AS o USING (customer_id) "
            "GROUP BY c.customer_id"
        )
        counts = [n for (n,) in db.execute(query)]
    assert counts.count(0) >= 20
    assert max(counts) >= 5 * (sum(counts) / len(counts))


def test_checks_unique_constraints_and_indexes_are_declared(tmp_path: Path) -> None:
    with _build("hotel_stays", tmp_path / "d.sqlite") as db:
        ddl = "\n".join(sql for (sql,) in db.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL"))
    for part in (
        "CHECK (check_out > check_in)",
        "UNIQUE (hotel_id, room_no)",
        "CREATE INDEX",
        "REFERENCES rooms (room_id)",
    ):
        assert part in ddl


def test_a_small_scale_keeps_a_floor_of_rows(tmp_path: Path) -> None:
    with _build("museum", tmp_path / "d.sqlite", scale=0.01) as db:
        assert db.execute("SELECT COUNT(*) FROM artists").fetchone() == (24,)
