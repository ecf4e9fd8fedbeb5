"""Verdicts held against those that others published, and against real gold SQL and real bugs."""

from __future__ import annotations

import json
import os
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from birdrl.cli import main
from birdrl.compare import MODES
from birdrl.compare.syntax import orders_rows
from birdrl.files import read_json, read_jsonl, write_json, write_jsonl

ROOT = Path(__file__).parents[2]
DATA = Path(os.environ.get("BIRDRL_SHARED_DATA", ROOT.parent / "shared" / "data"))


def needs(name: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(
        not (DATA / name).exists(),
        reason=f"no {DATA / name}; set BIRDRL_SHARED_DATA to the folder that holds {name.split('/')[0]}/",
    )


def score(
    folder: Path, instances: Path, predictions: Path, databases: Path, mode: str, *more: str
) -> dict[str, int | None]:
    out = folder / f"{mode}.jsonl"
    status = main(
        [
            "score", "--instances", str(instances), "--predictions", str(predictions), "--databases", str(databases),
            "--mode", mode, "--out", str(out), "--workers", "2", *more,
        ]
    )  # fmt: skip
    assert status == 0
    return {row["id"]: row["verdict"] for row in read_jsonl(out)}


@needs("spider_predictions/nl2sql360_SuperSQL.json")
def test_a_published_run_on_spider_is_reproduced_verdict_for_verdict(tmp_path: Path) -> None:
    """SuperSQL's 972 answers on the 19 databases that hold rows (wta_1 has none)."""
    published = [
        row for row in read_json(DATA / "spider_predictions/nl2sql360_SuperSQL.json") if row["db_id"] != "wta_1"
    ]
    assert len(published) == 972
    instances = [{"question_id": row["idx"], "db_id": row["db_id"], "SQL": row["gold"]} for row in published]
    predictions = [{"question_id": row["idx"], "db_id": row["db_id"], "pred": row["pred"]} for row in published]
    write_json(tmp_path / "instances.json", instances)
    write_json(tmp_path / "predictions.json", predictions)
    verdicts = score(
        tmp_path, tmp_path / "instances.json", tmp_path / "predictions.json", DATA / "spider" / "database", "spider"
    )
    different = [row["idx"] for row in published if verdicts[str(row["idx"])] != row["exec_result"]]
    assert not different


@needs("bird/database/superhero")
@pytest.mark.parametrize("mode", MODES)
def test_the_gold_of_birds_superhero_is_right_in_every_mode(mode: str, tmp_path: Path) -> None:
    questions = [row for row in read_json(DATA / "bird" / "dev.json") if row["db_id"] == "superhero"]
    assert len(questions) == 129
    write_json(tmp_path / "instances.json", questions)
    predictions = {str(row["question_id"]): f"{row['SQL']}\t----- bird -----\tsuperhero" for row in questions}
    write_json(tmp_path / "predictions.json", predictions)
    verdicts = score(
        tmp_path, tmp_path / "instances.json", tmp_path / "predictions.json", DATA / "bird" / "database", mode
    )
    assert set(verdicts.values()) == {1}


@needs("sql_bugs/cases.jsonl")
@pytest.mark.parametrize("mode", ["ordered", "critic_strict"])
@pytest.mark.parametrize("by", ["comparison", "tests"])
def test_real_bugs_score_zero_and_their_repairs_one(by: str, mode: str, tmp_path: Path) -> None:
    cases = [case for case in read_jsonl(DATA / "sql_bugs" / "cases.jsonl")]
    assert len(cases) == 21
    instances, broken, fixed = [], [], []
    for case in cases:
        folder = tmp_path / "databases" / case["id"]
        folder.mkdir(parents=True)
        connection = sqlite3.connect(folder / f"{case['id']}.sqlite")
        connection.executescript(";".join(case["setup_sql"]))
        connection.close()
        instances.append(_instance(case, with_tests=by == "tests"))
        broken.append({"instance_id": case["id"], "pred_sqls": case["broken_sql_sketch"]})
        fixed.append({"instance_id": case["id"], "pred_sqls": case["fixed_sql_sketch"]})
    write_jsonl(tmp_path / "instances.jsonl", instances)
    for name, answers, verdict in (("broken", broken, 0), ("fixed", fixed, 1)):
        write_jsonl(tmp_path / f"{name}.jsonl", answers)
        verdicts = score(
            tmp_path, tmp_path / "instances.jsonl", tmp_path / f"{name}.jsonl", tmp_path / "databases", mode,
            "--timeout", "2",
        )  # fmt: skip
        assert {key: found for key, found in verdicts.items() if found != verdict} == {}


def _instance(case: dict[str, Any], *, with_tests: bool) -> dict[str, Any]:
    """A case as a row of the gym. Foreign keys are a setting of the connection: preprocessing."""
    probes = case["probe_sql"]
    row: dict[str, Any] = {
        "instance_id": case["id"], "db_id": case["id"], "category": case["category"], "query": case["title"],
        "issue_sql": case["broken_sql_sketch"], "sol_sql": case["fixed_sql_sketch"],
        "preprocess_sql": ["PRAGMA foreign_keys = ON"] if case["foreign_keys"] else [],
        "conditions": {"order": orders_rows(case["fixed_sql_sketch"][-1])},
    }  # fmt: skip
    if with_tests and probes is None:
        row["test_cases"] = [{"kind": "result", "ordered": orders_rows(case["fixed_sql_sketch"][-1])}]
    elif with_tests and isinstance(probes, str):
        row["test_cases"] = [{"kind": "state", "probe_sql": probes}]
    elif with_tests:
        *steps, query = probes
        source = (
            "def test_case(pred_sqls, sol_sqls, db_path, conn):\n"
            f"    for sql in {json.dumps(steps)}:\n        conn.execute(sql)\n"
            f"    rows = conn.execute({query!r}).fetchall()\n"
            f"    assert [list(row) for row in rows] == {case['fixed_result']!r}, rows\n"
        )
        row["test_cases"] = [source]
    return row
