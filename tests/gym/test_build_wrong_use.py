"""Wrong uses of `birdrl gym build`: the message says where and what to do, and nothing is left behind."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from rewind_store import make_store


@pytest.fixture(scope="module")
def databases(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("wrong")
    store = make_store(folder / "store", ("shop_a",))
    (folder / "databases" / "shop_a").mkdir(parents=True)
    (folder / "databases" / "shop_a" / "shop_a.sqlite").write_bytes(store.path("shop_a").read_bytes())
    return folder / "databases"


def refused(folder: Path, *options: str) -> str:
    """What the command says when it refuses its input, in a folder that is left as it was."""
    before = sorted(path.relative_to(folder) for path in folder.rglob("*"))
    done = subprocess.run(
        [sys.executable, "-m", "birdrl", "gym", "build", "--instances", "5", "--workers", "1", *options],
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    assert sorted(path.relative_to(folder) for path in folder.rglob("*")) == before
    return done.stderr


def test_a_folder_without_databases_is_named(tmp_path):
    (tmp_path / "none").mkdir()
    said = refused(tmp_path, "--databases", str(tmp_path / "none"), "--out", str(tmp_path / "gym"))
    assert f"{tmp_path / 'none'}: no usable database; expected <db>/<db>.sqlite" in said


def test_a_file_is_no_folder(databases, tmp_path):
    file = databases / "shop_a" / "shop_a.sqlite"
    said = refused(tmp_path, "--databases", str(file), "--out", str(tmp_path / "gym"))
    assert f"{file}: a file, not a folder" in said


def test_refused_queries_are_named(databases, tmp_path):
    gold = tmp_path / "gold.sql"
    gold.write_text("SELECT 1\tnowhere\nSELECT no_such FROM sale\tshop_a\n")
    said = refused(tmp_path, "--databases", str(databases), "--sql", str(gold), "--out", str(tmp_path / "gym"))
    assert f"{gold}, row 1: unknown database 'nowhere'" in said
    assert f"{gold}, row 2: does not execute: no such column: no_such" in said


def test_a_gold_file_without_a_query_is_told(databases, tmp_path):
    gold = tmp_path / "gold.sql"
    gold.write_text("\n")
    said = refused(tmp_path, "--databases", str(databases), "--sql", str(gold), "--out", str(tmp_path / "gym"))
    assert f"{gold}: holds no query" in said


@pytest.mark.parametrize("option", ["--instances", "--eval-instances", "--workers"])
def test_impossible_numbers_name_the_option(option, databases, tmp_path):
    said = refused(tmp_path, "--databases", str(databases), "--out", str(tmp_path / "gym"), option, "-1")
    assert f"{option}: Input should be greater than" in said


def test_only_a_gym_is_replaced(databases, tmp_path):
    other = tmp_path / "letters"
    other.mkdir()
    (other / "dear.txt").write_text("Dear")
    said = refused(tmp_path, "--databases", str(databases), "--out", str(other))
    assert f"{other}: holds something else than a gym" in said
    said = refused(tmp_path, "--databases", str(databases), "--out", str(other / "dear.txt"))
    assert f"{other / 'dear.txt'}: a file" in said


def test_a_place_that_cannot_be_written_is_told(databases, tmp_path):
    (tmp_path / "file").write_text("")
    said = refused(tmp_path, "--databases", str(databases), "--out", str(tmp_path / "file" / "deep" / "gym"))
    assert "cannot be created" in said
