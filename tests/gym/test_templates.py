"""The templates stage and the store: what gets in, what is named with its remedy, what stays untouched."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from birdrl.errors import InputError
from birdrl.files import sha256_file
from birdrl.gym.introspect import words
from birdrl.gym.templates import TemplateStore, open_template
from birdrl.params import load_params
from birdrl.stages.registry import StageContext
from birdrl.stages.templates import run

REAL_DATA = Path(os.environ.get("BIRDRL_SHARED_DATA", "../shared/data"))


def build_store(out: Path, **overrides: Any) -> TemplateStore:
    params = load_params("smoke", {f"templates.{key}": value for key, value in overrides.items()})
    out.mkdir()
    run(StageContext("templates", params, out.parent, out, out.parent / "work"))
    return TemplateStore(out)


def make_database(folder: Path, db_id: str, script: str, suffix: str = "") -> Path:
    path = folder / db_id / f"{db_id}{suffix}.sqlite"
    path.parent.mkdir(parents=True, exist_ok=True)
    with sqlite3.connect(path) as connection:
        connection.executescript(script)
    connection.close()
    return path


GOOD = "CREATE TABLE pets (petId INTEGER PRIMARY KEY, Pet_Name TEXT); INSERT INTO pets VALUES (1, 'Rex'), (2, NULL);"


def test_generated_store_has_manifest_schemas_and_read_only_files_named_by_hash(tmp_path: Path) -> None:
    store = build_store(tmp_path / "out", scale=0.1)
    assert len(store.db_ids) >= 12
    assert store.rejected == {}
    store.verify()
    for db_id in store.db_ids:
        path = store.path(db_id)
        assert path.name == f"{sha256_file(path)}.sqlite" == f"{store.sha256(db_id)}.sqlite"
        assert stat.S_IMODE(path.stat().st_mode) == 0o444
        assert store.manifest[db_id]["rows"] == sum(t.rows for t in store.schema(db_id).tables) > 0
    assert {p.suffix for p in (tmp_path / "out").iterdir()} == {".sqlite", ".json"}


def test_two_generated_stores_are_equal_byte_for_byte(tmp_path: Path) -> None:
    build_store(tmp_path / "a", scale=0.1)
    build_store(tmp_path / "b", scale=0.1)
    contents = [{p.name: p.read_bytes() for p in (tmp_path / side).iterdir()} for side in "ab"]
    assert contents[0] == contents[1]


def test_schema_gives_keys_labels_and_examples_without_a_database(tmp_path: Path) -> None:
    store = build_store(tmp_path / "out", scale=0.1)
    for path in store.folder.glob("*.sqlite"):
        path.unlink()
    schema = store.schema("bank_loans")
    loans = schema.table("LOANS")
    assert loans is not None
    assert [(k.column, k.ref_table, k.ref_column) for k in loans.foreign_keys] == [
        ("client_id", "clients", "client_id")
    ]
    key, purpose = loans.column("loan_id"), loans.column("purpose")
    assert key is not None
    assert key.primary_key
    assert purpose is not None
    assert purpose.type == "TEXT"
    assert purpose.not_null
    assert len(set(purpose.examples)) == 2
    clients = schema.table("clients")
    assert clients is not None
    income = clients.column("income")
    assert income is not None
    assert income.label == "yearly income in thousands"


@pytest.mark.parametrize(
    ("name", "expected"),
    [("unit_price", "unit price"), ("petId", "pet id"), ("FacID", "fac id"), ("Free Meal Count", "free meal count")],
)
def test_names_are_split_into_words(name: str, expected: str) -> None:
    assert words(name) == expected


def test_both_layouts_are_read_and_the_template_file_wins(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    make_database(folder, "plain", GOOD)
    make_database(folder, "both", GOOD + "INSERT INTO pets VALUES (3, 'used copy');")
    make_database(folder, "both", GOOD, "_template")
    store = build_store(tmp_path / "out", source="directory", directory=str(folder))
    assert store.db_ids == ["both", "plain"]
    assert store.manifest["both"]["rows"] == 2
    assert store.manifest["both"]["source"] == "both_template.sqlite"


def test_a_wal_database_becomes_a_rollback_template_and_the_source_stays_as_it_is(tmp_path: Path) -> None:
    source = make_database(tmp_path / "in", "pets", "PRAGMA journal_mode = WAL;" + GOOD)
    before = (sha256_file(source), source.stat().st_mtime_ns, sorted(p.name for p in source.parent.iterdir()))
    assert source.read_bytes()[18:20] == b"\x02\x02"
    store = build_store(tmp_path / "out", source="directory", directory=str(tmp_path / "in"))
    assert store.path("pets").read_bytes()[18:20] == b"\x01\x01"
    with open_template(store.path("pets")) as connection:
        assert connection.execute("SELECT * FROM pets").fetchall() == [(1, "Rex"), (2, None)]
    assert before == (sha256_file(source), source.stat().st_mtime_ns, sorted(p.name for p in source.parent.iterdir()))


def _corrupt(folder: Path) -> None:
    path = make_database(folder, "bad", GOOD + "CREATE INDEX i ON pets (Pet_Name);")
    content = bytearray(path.read_bytes())
    content[4096 + 8 : 4096 + 200] = b"\xff" * 192  # the table's root page
    path.write_bytes(content)


def _not_sqlite(folder: Path) -> None:
    (folder / "bad").mkdir(parents=True)
    (folder / "bad" / "bad.sqlite").write_bytes(b"version https://git-lfs.github.com/spec/v1\n" * 30)


def _no_tables(folder: Path) -> None:
    (folder / "bad").mkdir(parents=True)
    (folder / "bad" / "bad.sqlite").touch()


def _no_rows(folder: Path) -> None:
    make_database(folder, "bad", "CREATE TABLE t (a INTEGER);")


def _wal_leftover(folder: Path) -> None:
    source = make_database(folder, "live", "PRAGMA journal_mode = WAL;" + GOOD)
    writer = sqlite3.connect(source)
    writer.execute("INSERT INTO pets VALUES (3, 'only in the wal')")
    writer.commit()
    (folder / "bad").mkdir()
    for suffix in ("", "-wal"):
        shutil.copy(f"{source}{suffix}", folder / "bad" / f"bad.sqlite{suffix}")
    writer.close()
    shutil.rmtree(source.parent)


def _not_utf8(folder: Path) -> None:
    make_database(folder, "bad", "CREATE TABLE t (a TEXT); INSERT INTO t VALUES (CAST(x'4dfc6e' AS TEXT));")


def _no_file(folder: Path) -> None:
    (folder / "bad").mkdir(parents=True)
    (folder / "bad" / "other.sqlite").touch()


@pytest.mark.parametrize(
    ("spoil", "reason", "remedy"),
    [
        (_corrupt, "corrupt|not a sound", ".recover"),
        (_not_sqlite, "not a sound SQLite database", ".recover"),
        (_no_tables, "empty (no tables)", "templates.skip"),
        (_no_rows, "empty (1 tables without any row)", "templates.skip"),
        (_wal_leftover, "bad.sqlite-wal", "wal_checkpoint"),
        (_not_utf8, "table 't' holds text that is not UTF-8", "iconv"),
        (_no_file, "holds neither bad.sqlite nor", "rename"),
    ],
)
def test_an_unusable_file_is_named_with_reason_and_remedy_and_the_others_are_used(
    spoil: Any, reason: str, remedy: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spoil(tmp_path / "in")
    make_database(tmp_path / "in", "good", GOOD)
    store = build_store(tmp_path / "out", source="directory", directory=str(tmp_path / "in"))
    assert store.db_ids == ["good"]
    message = store.rejected["bad"]
    assert any(r in message for r in reason.split("|")), message
    assert remedy in message
    assert f"WARN bad: {message}" in capsys.readouterr().err
    with pytest.raises(InputError, match="was rejected"):
        store.path("bad")


def test_a_locked_file_is_named(tmp_path: Path) -> None:
    source = make_database(tmp_path / "in", "busy", GOOD)
    make_database(tmp_path / "in", "good", GOOD)
    holder = subprocess.Popen(
        [sys.executable, "-c", "import sqlite3, sys\nc = sqlite3.connect(sys.argv[1])\nc.execute('BEGIN EXCLUSIVE')\n"
         "print('locked', flush=True)\nsys.stdin.read()", str(source)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "locked\n"
        store = build_store(tmp_path / "out", source="directory", directory=str(tmp_path / "in"))
    finally:
        holder.communicate("")
    assert "locked by another process" in store.rejected["busy"]
    assert store.db_ids == ["good"]


def test_without_any_usable_database_the_stage_fails_and_says_why(tmp_path: Path) -> None:
    _no_rows(tmp_path / "in")
    with pytest.raises(InputError, match=r"no usable template database; 1 rejected:\n  bad: .*without any row"):
        build_store(tmp_path / "out", source="directory", directory=str(tmp_path / "in"))


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"source": "directory"}, "templates.directory: empty"),
        ({"source": "directory", "directory": "nowhere"}, "nowhere: no such folder"),
        ({"skip": ["nonsense"]}, "templates.skip: no database 'nonsense'; known are: airline"),
    ],
)
def test_wrong_parameters_are_named(overrides: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message):
        build_store(tmp_path / "out", **overrides)


def test_skipped_databases_are_left_out(tmp_path: Path) -> None:
    _no_rows(tmp_path / "in")
    make_database(tmp_path / "in", "good", GOOD)
    store = build_store(tmp_path / "out", source="directory", directory=str(tmp_path / "in"), skip=["bad"])
    assert (store.db_ids, store.rejected) == (["good"], {})


def test_a_changed_or_cut_template_is_noticed(tmp_path: Path) -> None:
    make_database(tmp_path / "in", "good", GOOD)
    store = build_store(tmp_path / "out", source="directory", directory=str(tmp_path / "in"))
    path = store.path("good")
    path.chmod(0o644)
    path.write_bytes(path.read_bytes().replace(b"Rex", b"Max"))
    with pytest.raises(InputError, match="its bytes changed"):
        store.verify()
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(InputError, match="cut short"):
        TemplateStore(store.folder).path("good")


def test_an_unknown_database_is_named(tmp_path: Path) -> None:
    make_database(tmp_path / "in", "good", GOOD)
    store = build_store(tmp_path / "out", source="directory", directory=str(tmp_path / "in"))
    with pytest.raises(InputError, match="no database 'gone'; known are: good"):
        store.schema("gone")


def test_real_spider_databases_get_in_and_exactly_the_empty_ones_are_rejected(tmp_path: Path) -> None:
    folder = REAL_DATA / "spider"
    if not (folder / "database").is_dir():
        pytest.skip(f"needs the Spider databases under {folder}; set BIRDRL_SHARED_DATA")
    store = build_store(tmp_path / "out", source="directory", directory=str(folder / "database"))
    inventory = json.loads((folder / "database_inventory.json").read_text())
    assert set(store.rejected) == {entry["db_id"] for entry in inventory if entry["rows"] == 0}
    assert all("without any row" in reason for reason in store.rejected.values())
    assert len(store.db_ids) >= 150
