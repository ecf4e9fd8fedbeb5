"""`birdrl gym`: build from a folder of databases, import, export, stats, show."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

import apsw
import pytest
from rewind_store import make_store

from birdrl.cli import gym_build, gym_import, main
from birdrl.files import read_json, read_jsonl
from birdrl.gym.instance import read_instances

GOLD = [
    ("shop_a", "SELECT product_name FROM product WHERE stock > 5"),
    ("shop_a", "SELECT category, COUNT(*) FROM product WHERE stock > 0 GROUP BY category"),
    ("shop_a", "SELECT product_name FROM product WHERE stock > 5"),
    ("shop_b", "SELECT DISTINCT channel FROM sale WHERE quantity >= 4"),
    ("shop_b", "SELECT no_such_column FROM sale"),
    ("elsewhere", "SELECT 1"),
]


@pytest.fixture(scope="module")
def databases(tmp_path_factory) -> Path:
    """<db>/<db>.sqlite of two shops, one empty database and one file that is none."""
    folder = tmp_path_factory.mktemp("mine")
    store = make_store(folder / "store", ("shop_a", "shop_b"))
    databases = folder / "databases"
    for db_id in store.db_ids:
        (databases / db_id).mkdir(parents=True)
        (databases / db_id / f"{db_id}.sqlite").write_bytes(store.path(db_id).read_bytes())
    for db_id, content in (("empty", None), ("odd", b"this is no database, " * 100)):
        (databases / db_id).mkdir()
        path = databases / db_id / f"{db_id}.sqlite"
        if content is None:
            apsw.Connection(str(path)).execute("CREATE TABLE t (a)")
        else:
            path.write_bytes(content)
    (folder / "gold.sql").write_text("".join(f"{sql}\t{db_id}\n" for db_id, sql in GOLD))
    return databases


def build(*options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "birdrl", "gym", "build", *options]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)


@pytest.fixture(scope="module")
def built(databases) -> tuple[Path, str]:
    """A gym of those databases, and what the command said."""
    out = databases.parent / "gym"
    done = build(
        "--databases", str(databases), "--sql", str(databases.parent / "gold.sql"), "--out", str(out),
        "--instances", "40", "--workers", "2",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return out, done.stdout


def test_build_makes_a_gym_and_counts_what_was_of_no_use(built):
    out, said = built
    instances = read_instances(out / "train.jsonl")
    assert len(instances) == 40
    assert {i.db_id for i in instances} == {"shop_a", "shop_b"}
    assert list(read_jsonl(out / "eval.jsonl")) == []
    unusable = read_json(out / "stats.json")["unusable"]
    assert sum(unusable["databases"].values()) == 2
    assert unusable["gold_sql"] == {
        "does not execute: no such column": 1,
        "duplicate of an earlier query of this database": 1,
        "unknown database ...: not among the templates": 1,
    }
    assert "not usable, databases: 2" in said
    assert "not usable, verified SQL: 3" in said
    assert "40 issues on 2 databases" in said
    assert not out.with_name(".gym.work").exists()


def test_reports_are_long_and_tell_what_was_seen(built):
    texts = [i.query for i in read_instances(built[0] / "train.jsonl")]
    assert sum(len(text.split()) for text in texts) / len(texts) > 50
    assert len(set(texts)) == 40


def test_too_few_is_a_failure_and_wrong_input_is_told(databases, tmp_path):
    gold = str(databases.parent / "gold.sql")
    wanted = ["--databases", str(databases), "--sql", gold, "--set", "kinds=[lost_distinct]", "--workers", "1"]
    few = build(*wanted, "--out", str(tmp_path / "few"), "--instances", "30")
    assert few.returncode == 1
    assert "WARN gym.train_instances: 30 wanted" in few.stderr
    missing = build("--databases", str(tmp_path / "none"), "--out", str(tmp_path / "x"))
    assert missing.returncode == 2
    assert "no such folder" in missing.stderr
    typo = build("--out", str(tmp_path / "x"), "--set", "text_stile=report")
    assert typo.returncode == 2
    assert "text_stile" in typo.stderr


def test_one_value_of_a_group_can_be_set():
    options = ["--out", "x", "--set", "rates.multi_sql=0.5", "--set", "gym.max_words=99"]
    parser = argparse.ArgumentParser()
    gym_build.add_arguments(parser)
    _, params = gym_build.params_of(parser.parse_args(options))
    assert params.rates.model_dump() == {"preprocess": 0.70, "clean_up": 0.19, "multi_sql": 0.5}
    assert params.max_words == 99
    assert gym_build.SHAPE["rates"]["multi_sql"] == 0.09


def test_stats_stand_beside_the_papers(built, capsys, tmp_path):
    out, _ = built
    assert main(["gym", "stats", str(out), "--plots", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    for shown in (
        "SIX-GYM-SQLite",
        "2,477",
        "162.55 / 917",
        "446.16 / 1,085",
        "distinct wordings",
        "0 give the solution",
    ):
        assert shown in said
    assert {path.name for path in tmp_path.iterdir()} == {"shape.png", "lengths.png", "features.png", "domains.png"}
    assert main(["gym", "stats", str(out / "train.jsonl"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["instances"] == 40


def test_stats_fail_on_a_leak(built, capsys, tmp_path):
    row = {**next(iter(read_jsonl(built[0] / "train.jsonl")))}
    row["query"] = "Use SELECT MAX(stock) here."
    row["sol_sql"] = ["SELECT MAX(stock) FROM product"]
    (tmp_path / "leak.jsonl").write_text(json.dumps(row) + "\n")
    assert main(["gym", "stats", str(tmp_path / "leak.jsonl")]) == 1
    assert "quotes the solution" in capsys.readouterr().out


def test_show_prints_one_instance(built, capsys):
    out, _ = built
    assert main(["gym", "show", "gym_shop_a_0", "--gym", str(out)]) == 0
    said = capsys.readouterr().out
    instance = next(i for i in read_instances(out / "train.jsonl") if i.instance_id == "gym_shop_a_0")
    assert all(sql in said for sql in (*instance.issue_sql, *instance.sol_sql))
    assert instance.bug.cause in said
    assert main(["gym", "show", "shop_a_1", "--gym", str(out)]) == 2
    assert "ids like it: gym_shop_a_1" in capsys.readouterr().err


def test_import_and_export_go_round(built, capsys, tmp_path):
    public, back = tmp_path / "public.jsonl", tmp_path / "back.jsonl"
    train = built[0] / "train.jsonl"
    assert main(["gym", "export", str(train), "--format", "six-gym", "--out", str(public)]) == 0
    assert main(["gym", "import", str(public), "--out", str(back)]) == 0
    assert read_instances(back) == read_instances(train), "bug record, difficulty and source included"
    assert "40 rows of SIX-GYM" in capsys.readouterr().out


def test_import_sets_broken_rows_aside(capsys, tmp_path):
    path = tmp_path / "dev.jsonl"
    row = {"instance_id": "a", "db_id": "d", "query": "?", "issue_sql": ["SELECT 1"]}
    path.write_text(json.dumps(row) + "\n" + json.dumps({**row, "issue_sql": 4}) + "\n")
    out = tmp_path / "out.jsonl"
    assert main(["gym", "import", str(path), "--out", str(out)]) == 1
    said = capsys.readouterr()
    assert f"{path}, line 2 (row 2), field 'issue_sql': expected a statement" in said.err
    [broken] = read_jsonl(tmp_path / "out.broken.jsonl")
    assert (broken["line"], broken["field"]) == (2, "issue_sql")
    assert len(read_instances(out)) == 1
    assert main(["gym", "import", str(path), "--out", str(out), "--format", "nope"]) == 2
    assert main(["gym", "export", str(path), "--format", "six-gym", "--out", str(out)]) == 2


def test_import_shows_the_first_broken_rows_and_keeps_all(capsys, tmp_path):
    row = {"instance_id": "A", "db_id": "shop", "query": "Why?", "issue_sql": "SELECT 1"}
    broken = [{**row, "instance_id": f"B{n}", "issue_sql": 5} for n in range(gym_import.SHOWN + 7)]
    path, out = tmp_path / "rows.jsonl", tmp_path / "out.jsonl"
    path.write_text("".join(json.dumps(r) + "\n" for r in (row, *broken)))
    assert main(["gym", "import", str(path), "--out", str(out)]) == 1
    said = capsys.readouterr().err.splitlines()
    assert len(said) == gym_import.SHOWN + 1
    assert said[-1].startswith("and 7 more, all in ")
    assert len(list(read_jsonl(tmp_path / "out.broken.jsonl"))) == len(broken)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"instance_id": 4}\n[1]\n', "none of its 2 rows can be read as SIX-GYM"),
        ("", "none of its 0 rows can be read"),
        ('{\n  "results": [],\n  "mode": "x"\n}\n', "one JSON object (fields: results, mode), not rows"),
    ],
)
def test_import_of_a_file_without_any_row_is_a_mistake(capsys, tmp_path, content, message):
    path, out = tmp_path / "rows.jsonl", tmp_path / "out.jsonl"
    path.write_text(content)
    assert main(["gym", "import", str(path), "--out", str(out), "--format", "six-gym"]) == 2
    assert message in capsys.readouterr().err
    assert sorted(tmp_path.iterdir()) == [path]


def test_what_is_read_is_not_written_over(built, capsys, tmp_path):
    public = tmp_path / "public.jsonl"
    row = {"instance_id": "a", "db_id": "d", "query": "?", "issue_sql": ["SELECT 1"]}
    public.write_text(json.dumps(row) + "\n")
    aside = tmp_path / "next.broken.jsonl"
    aside.write_text(public.read_text())
    for words in (
        ["import", str(public), "--out", str(public)],
        ["import", str(aside), "--out", str(tmp_path / "next.jsonl")],
        ["export", str(public), "--format", "six-gym", "--out", str(public)],
    ):
        before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
        assert main(["gym", *words]) == 2
        assert "is one of the files that are read" in capsys.readouterr().err
        assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize("place", ["", "file/deep/out.jsonl"])
def test_a_place_that_cannot_be_written_is_told_first(built, capsys, tmp_path, place):
    (tmp_path / "file").write_text("")
    out, train = tmp_path / place, str(built[0] / "train.jsonl")
    for words in (["import", train], ["export", train, "--format", "six-gym"]):
        assert main(["gym", *words, "--out", str(out)]) == 2
        said = capsys.readouterr()
        assert f"--out {out}: " in said.err
        assert said.out == ""
    assert main(["gym", "stats", train, "--plots", str(tmp_path / "file")]) == 2
    assert f"--plots {tmp_path / 'file'}: a file" in capsys.readouterr().err


def test_public_files_are_shown_and_counted(capsys, tmp_path):
    path = tmp_path / "six_gym.jsonl"
    row = {
        "instance_id": "TRAIN_8", "db_id": "d", "query": "Too many rows.", "issue_sql": ["SELECT a FROM t"],
        "sol_sql": ["SELECT DISTINCT a FROM t"], "test_cases": [], "category": "Query", "dialect": "PostgreSQL",
    }  # fmt: skip
    path.write_text(json.dumps(row) + "\n")
    assert main(["gym", "show", "TRAIN_8", "--gym", str(path)]) == 0
    assert "SELECT DISTINCT a FROM t;" in capsys.readouterr().out
    assert main(["gym", "stats", str(path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["by_category"]["query"] == 1
    path.write_text(json.dumps(row) + "\n" + json.dumps({**row, "issue_sql": 3}) + "\n")
    assert main(["gym", "stats", str(path)]) == 2
    assert f"{path}, line 2 (row 2), field 'issue_sql': expected a statement" in capsys.readouterr().err
    (tmp_path / "dev.json").write_text(json.dumps([{"db_id": "d", "question": "Which?", "SQL": "SELECT 1"}]))
    assert main(["gym", "stats", str(tmp_path / "dev.json")]) == 2
    assert "rows of BIRD are questions, not issues" in capsys.readouterr().err
