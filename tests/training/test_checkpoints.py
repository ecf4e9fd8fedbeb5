"""Which checkpoints a run continues from, and what becomes of the others."""

from __future__ import annotations

from pathlib import Path

import pytest

from birdrl.errors import InfraError
from birdrl.training.checkpoints import export_policy, latest_step, run_folder


@pytest.fixture
def data(tmp_path: Path) -> Path:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "weights").write_text("a")
    return tmp_path / "model"


def test_the_same_inputs_find_their_folder_again(tmp_path: Path, data: Path) -> None:
    work = tmp_path / "work"
    first = run_folder(work, {"model": data}, {"lr": 1})
    (first / "kept").touch()
    assert run_folder(work, {"model": data}, {"lr": 1}) == first
    assert (first / "kept").exists()


@pytest.mark.parametrize("changed", ["data", "settings"])
def test_other_inputs_start_anew(tmp_path: Path, data: Path, changed: str) -> None:
    work = tmp_path / "work"
    first = run_folder(work, {"model": data}, {"lr": 1})
    if changed == "data":
        (data / "weights").write_text("b")
    second = run_folder(work, {"model": data}, {"lr": 2 if changed == "settings" else 1})
    assert second != first
    assert not first.exists()


def test_only_the_tracked_checkpoint_survives(tmp_path: Path) -> None:
    assert latest_step(tmp_path) == 0
    for step in (2, 4, 6):
        (tmp_path / f"global_step_{step}").mkdir()
    (tmp_path / "latest_checkpointed_iteration.txt").write_text("4")
    assert latest_step(tmp_path) == 4
    assert [path.name for path in tmp_path.glob("global_step_*")] == ["global_step_4"]


def test_a_tracked_checkpoint_that_is_gone_counts_for_nothing(tmp_path: Path) -> None:
    (tmp_path / "latest_checkpointed_iteration.txt").write_text("4")
    assert latest_step(tmp_path) == 0


def test_weights_are_the_engines_and_all_else_the_starting_policys(tmp_path: Path) -> None:
    start, exported = tmp_path / "start", tmp_path / "checkpoint" / "huggingface"
    for folder, mark in ((start, "old"), (exported, "new")):
        folder.mkdir(parents=True)
        for name in ("model.safetensors", "tokenizer.json", "config.json"):
            (folder / name).write_text(mark)
    (start / "chat_template.jinja").write_text("old")
    export_policy(exported.parent, start, tmp_path / "out")
    texts = {path.name: path.read_text() for path in (tmp_path / "out").iterdir()}
    assert texts == {
        "model.safetensors": "new", "tokenizer.json": "old", "config.json": "old", "chat_template.jinja": "old",
    }  # fmt: skip


def test_a_checkpoint_without_weights_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InfraError, match="left no weights"):
        export_policy(tmp_path, tmp_path, tmp_path / "out")
