"""A profile folder with the outputs that the quality stage reads: two small databases, a few instances."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from birdrl.gym.schema import Column, Schema, Table
from birdrl.gym.templates import TemplateWriter
from birdrl.params import load_params
from birdrl.stages.registry import StageContext

Row = dict[str, Any]
LIMITS = {"quality.min_train_instances": 8, "quality.min_eval_instances": 4, "quality.min_bug_kinds": 2}


@pytest.fixture
def rows() -> dict[str, list[Row]]:
    """Sound instances, to be spoilt by a test: eight for training on `shop`, four for evaluation on `clinic`."""
    return {
        "train": [_instance(f"train-{n}", "shop", n) for n in range(8)],
        "eval": [_instance(f"eval-{n}", "clinic", n) for n in range(4)],
    }


@pytest.fixture
def context(tmp_path: Path) -> Callable[[dict[str, list[Row]]], StageContext]:
    """Writes the inputs and returns the context of the quality stage, with an empty `out`."""

    def build(instances: dict[str, list[Row]]) -> StageContext:
        root = tmp_path / "artifacts" / "test"
        for folder in ("templates", "gym", "audit", "work/quality"):
            (root / folder).mkdir(parents=True, exist_ok=True)
        writer = TemplateWriter(root / "templates")
        for db_id in ("shop", "clinic"):
            writer.add(db_id, _database(tmp_path / f"{db_id}.sqlite", db_id), _schema(db_id), "test")
        writer.finish()
        for path, side in (("audit/train.jsonl", "train"), ("gym/eval.jsonl", "eval")):
            (root / path).write_text("".join(json.dumps(row) + "\n" for row in instances[side]))
        flagged = [{"instance_id": "train-99"}]
        counts = {"database_overlap": 0, "result_overlap": None, "flagged_train": 1, "kept_train": 8}
        report = {"counts": counts, "thresholds": {"text": 0.85, "sql": 0.9}, "flagged": flagged}
        (root / "audit/report.json").write_text(json.dumps(report))
        part = {
            "instances": 9,
            "by_category": {"query": 3},
            "distinct_test_cases": 9,
            "by_kind": {"a": 9},
            "domains": 1,
        }
        stats = {"train": part, "eval": part, "shortfall": {"train": 2, "eval": 0}, "rejections": {"empty": 4}}
        (root / "gym/stats.json").write_text(json.dumps(stats))
        out = root / ".quality.part"
        out.mkdir()
        params = load_params("smoke", LIMITS, Path(__file__).parents[2] / "params.yaml")
        return StageContext("quality", params, root, out, root / "work" / "quality")

    return build


def _instance(identifier: str, db_id: str, number: int) -> Row:
    return {
        "instance_id": identifier,
        "db_id": db_id,
        "dialect": "SQLite",
        "category": ("query", "management", "personalization")[number % 3],
        "query": f"The list number {number} leaves out the last item, please include it.",
        "issue_sql": [f"SELECT id FROM item WHERE id < {number + 1}"],
        "sol_sql": [f"SELECT id FROM item WHERE id <= {number + 1}"],
        "test_cases": [{"kind": "result"}],
        "bug": {"kind": f"kind_{number % 2}", "family": "filtering", "cause": "c", "intent": "i"},
        "source": {},
    }


def _database(path: Path, db_id: str) -> Path:
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT)")
        connection.execute(f"CREATE TABLE of_{db_id}(id INTEGER PRIMARY KEY, name TEXT)")
        connection.executemany("INSERT INTO item(name) VALUES (?)", [(f"{db_id} {n}",) for n in range(9)])
    connection.close()
    return path


def _schema(db_id: str) -> Schema:
    columns = [Column(name=name, type=kind, label=name) for name, kind in (("id", "INTEGER"), ("name", "TEXT"))]
    names = ("item", f"of_{db_id}")
    return Schema(db_id=db_id, tables=[Table(name=name, label=name, rows=9, columns=columns) for name in names])
