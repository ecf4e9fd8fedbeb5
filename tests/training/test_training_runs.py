"""Real runs of the engine on CPU, through the stages."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from birdrl.files import read_json, read_jsonl
from birdrl.params import Params
from birdrl.stages import train
from birdrl.training import results
from birdrl.training.engine import read_metrics
from training.layout import make_context

pytestmark = pytest.mark.slow


def weights(folder: Path) -> dict[str, object]:
    from safetensors.numpy import load_file

    return load_file(folder / "model.safetensors")


def test_imitation_lowers_the_loss_and_exports_a_policy(stage_root: Path, nano_folder: Path, params: Params) -> None:
    import numpy as np
    from transformers import AutoModelForCausalLM, AutoTokenizer

    context = make_context("sft_reasoning", stage_root, params)
    train.run_sft_reasoning(context)

    rows = list(read_jsonl(context.out / "metrics.jsonl"))
    assert [row["step"] for row in rows] == [1, 2, 3]
    assert rows[-1]["loss"] < rows[0]["loss"]
    assert rows[0]["lr"] > 0
    summary = read_json(context.out / "summary.json")
    assert summary["steps"] == 3
    assert summary["samples"] == 13
    before, after = weights(nano_folder), weights(context.out / "model")
    assert before.keys() == after.keys()
    assert all(array.dtype == np.float32 for array in after.values())
    assert any((before[name] != after[name]).any() for name in before)
    loaded = AutoModelForCausalLM.from_pretrained(context.out / "model")
    assert loaded.num_parameters() == summary["parameters"]
    same = [AutoTokenizer.from_pretrained(f) for f in (nano_folder, context.out / "model")]
    assert same[0].chat_template == same[1].chat_template
    assert same[0].encode("SELECT id<|im_end|>\n") == same[1].encode("SELECT id<|im_end|>\n")
    assert not any(context.work.iterdir()), "checkpoints are removed after success"


RESUMED = """
import sys
from pathlib import Path
from training.layout import PARAMS, make_context
from birdrl.params import validate_params
from birdrl.stages import train
from birdrl.training import results
from birdrl.training.engine import read_metrics
train.run_sft_reasoning(make_context("sft_reasoning", Path(sys.argv[1]), validate_params(PARAMS, "test")))
"""


def test_a_killed_run_continues_to_the_same_weights(stage_root: Path, params: Params) -> None:
    """`save_every` is 2 of 3 steps: the run is killed with a checkpoint behind it and work left to do."""
    import numpy as np

    tests = Path(__file__).parents[1]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(tests), str(tests.parent)])}
    command = [sys.executable, "-c", RESUMED, str(stage_root)]
    first = subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL)
    work = stage_root / "work" / "sft_reasoning"
    deadline = time.monotonic() + 300
    while not list(work.glob("*/checkpoints/latest_checkpointed_iteration.txt")):
        assert first.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.02)
    first.kill()
    first.wait()

    context = make_context("sft_reasoning", stage_root, params)
    train.run_sft_reasoning(context)
    assert [row["step"] for row in read_jsonl(context.out / "metrics.jsonl")] == [1, 2, 3]
    continued = weights(context.out / "model")
    shutil.rmtree(context.out)
    context = make_context("sft_reasoning", stage_root, params)
    train.run_sft_reasoning(context)
    for name, array in weights(context.out / "model").items():
        np.testing.assert_allclose(continued[name], array, atol=1e-6, err_msg=name)


def test_multi_turn_reinforcement_runs_on_replicas(
    stage_root: Path, nano_folder: Path, params: Params, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With two agent workers, each on its share of the replicas."""
    tracked: list[dict[str, float]] = []  # what the engine gives to its loggers, MLflow's included
    step_rows = results.step_rows

    def spy(attempts: Iterable[Path]) -> list[dict[str, Any]]:
        paths = list(attempts)
        tracked.extend(line["data"] for path in paths for line in read_metrics(path))
        return step_rows(paths)

    monkeypatch.setattr(results, "step_rows", spy)
    engine = params.engine.model_copy(update={"agent_workers": 2})
    context = make_context("rl_agentic", stage_root, params.model_copy(update={"engine": engine}))
    train.run_rl_agentic(context)

    assert [line["rollout/pool/tools/leases"] for line in tracked] == [4, 4]
    assert all("rollout/pool/scoring/leases" in line for line in tracked)
    assert all(line["rollout/pool/tools/written_bytes"] == line["rollout/pool/tools/deaths"] == 0 for line in tracked)
    rows = list(read_jsonl(context.out / "metrics.jsonl"))
    assert [row["step"] for row in rows] == [1, 2]
    assert all(row["rollout_probs_diff_max"] < 1e-4 for row in rows), "rollout and trainer agree on the policy"
    assert rows[0]["kl"] == pytest.approx(0, abs=1e-6)
    rollouts = [json.loads(line) for line in (context.out / "rollouts" / "1.jsonl").read_text().splitlines()]
    assert len(rollouts) == 4
    assert {row["instance_id"] for row in rollouts} <= {"boundary", "broken", "update"}
    assert all(0 <= row["reward"] <= 1 for row in rollouts)
    assert read_json(context.out / "summary.json")["failures_infra"] == 0
    assert (context.out / "model" / "model.safetensors").is_file()
    assert not any(context.work.iterdir())
