"""Somebody's own databases and gold SQL: the whole curriculum on Spider's development databases, in few steps."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from pathlib import Path

import pytest

from birdrl.active import Active
from birdrl.files import read_json, read_jsonl
from birdrl.stages import STAGES
from birdrl.stages.execute import execute_stage

ROOT = Path(__file__).parents[1]
DATA = Path(os.environ.get("BIRDRL_SHARED_DATA", ROOT.parent / "shared" / "data"))
SPIDER = DATA / "spider"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not (SPIDER / "dev.json").is_file(),
        reason=f"no Spider data at {SPIDER}; set BIRDRL_SHARED_DATA to the folder that holds spider/",
    ),
]

OVERRIDES = {
    "templates.source": "directory",
    "templates.directory": str(SPIDER / "database"),
    "gym.gold_sql": [str(SPIDER / "dev.json")],
    "gym.train_instances": 220,
    "gym.eval_instances": 80,
    "distill_reasoning.limit": 40,
    "distill_trajectories.limit": 24,
    "sft_reasoning.max_steps": 2,
    "sft_tools.max_steps": 2,
    "rl_reasoning.steps": 1,
    "rl_agentic.steps": 1,
    "evaluate.limit": 4,
}


def test_the_curriculum_runs_on_real_databases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copy(ROOT / "params.yaml", tmp_path)
    monkeypatch.chdir(tmp_path)
    active = Active("smoke", OVERRIDES)
    out = {name: execute_stage(name, active) for name in STAGES}

    train, held_out = (list(read_jsonl(out["gym"] / f"{split}.jsonl")) for split in ("train", "eval"))
    databases = [{row["db_id"] for row in rows} for rows in (train, held_out)]
    assert len(train) + len(held_out) >= 300
    assert len(databases[0] | databases[1]) >= 15
    assert not databases[0] & databases[1]
    assert len(Counter(row["category"] for row in train + held_out)) == 3

    rejected = read_json(out["templates"] / "rejected.json")
    assert "wta_1" in rejected, "an empty database is named, not dropped in silence"
    assert all(reason for reason in rejected.values())

    results = read_json(out["evaluate"] / "results.json")
    assert [row["instances"] for row in results["policies"]] == [4] * 5
    assert (out["report"] / "report.html").is_file()
