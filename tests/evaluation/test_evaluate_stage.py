"""The stage: every checkpoint with its protocol, one results file, one transcript file each."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from toy_shop import BAD_GOLD, BOUNDARY, BROKEN, UPDATE

from birdrl.errors import InfraError
from birdrl.files import read_json, read_jsonl, write_jsonl
from birdrl.gym.instance import Instance
from birdrl.params import load_params
from birdrl.stages.evaluate import run
from birdrl.stages.registry import StageContext


@pytest.fixture
def evaluate(tmp_path: Path, folder: Path, store):
    def call(instances: list[Instance]) -> Path:
        shutil.copytree(store.folder, tmp_path / "templates")
        write_jsonl(tmp_path / "gym" / "eval.jsonl", [instance.row() for instance in instances])
        for name in ("policy_init", "sft_tools"):
            shutil.copytree(folder, tmp_path / name / "model")
        overrides = {
            "evaluate.protocols": {"policy_init": "reasoning", "sft_tools": "agentic"},
            "evaluate.limit": 3,
            "agent.max_prompt_tokens": 2000,
        }
        params = load_params("smoke", overrides)
        out = tmp_path / "out"
        out.mkdir()
        run(StageContext("evaluate", params, tmp_path, out, tmp_path / "work"))
        return out

    return call


def test_every_checkpoint_gets_its_entry_and_its_trajectories(evaluate):
    out = evaluate([BOUNDARY, BROKEN, UPDATE])
    results = read_json(out / "results.json")
    assert [(entry["policy"], entry["protocol"]) for entry in results["policies"]] == [
        ("policy_init", "reasoning"),
        ("sft_tools", "agentic"),
    ]
    for entry in results["policies"]:
        assert (entry["instances"], entry["success"], entry["excluded"]) == (3, 0.0, {})
        assert sum(entry["stop_reasons"].values()) == 3
        rows = list(read_jsonl(out / "trajectories" / f"{entry['policy']}.jsonl"))
        assert [row["instance_id"] for row in rows] == ["boundary", "broken", "update"]
        assert all(row["messages"][0]["role"] == "system" for row in rows)
    assert set(results["policies"][0]["by_category"]) == {"query", "management"}


def test_nothing_scored_is_an_error_with_its_first_reason(evaluate, monkeypatch):
    # An empty answer is settled before the reference runs, so this policy has to say something.
    monkeypatch.setattr("birdrl.evaluation.runner.Episode.final_sql", ["SELECT 1"])
    with pytest.raises(InfraError, match=r"none of 1 instances could be scored \{'gold': 1\}.*no such column: nope"):
        evaluate([BAD_GOLD])
