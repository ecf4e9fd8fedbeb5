"""Checkpoints of the engine: which run they belong to, which to keep, and the export of the last one."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from birdrl.errors import InfraError
from birdrl.files import canonical_json, sha256_file, sha256_text

TRACKER = "latest_checkpointed_iteration.txt"
WEIGHT_PATTERNS = ("*.safetensors", "*.safetensors.index.json")


def run_folder(work: Path, inputs: Mapping[str, Path], settings: Mapping[str, Any]) -> Path:
    """Folder of the run with these inputs and settings under `work`; folders of other runs are removed.

    A run with other data, model or parameters never continues from these checkpoints.
    """
    identity = {"inputs": {name: _tree_hash(path) for name, path in sorted(inputs.items())}, "settings": dict(settings)}
    folder = work / sha256_text(canonical_json(identity))[:16]
    folder.mkdir(parents=True, exist_ok=True)
    for other in work.iterdir():
        if other.is_dir() and other != folder and len(other.name) == len(folder.name):
            shutil.rmtree(other)
    return folder


def latest_step(checkpoints: Path) -> int:
    """Step of the last complete checkpoint, 0 without one; others, half-written ones too, are removed."""
    tracker = checkpoints / TRACKER
    step = int(tracker.read_text()) if tracker.is_file() else 0
    if not (checkpoints / f"global_step_{step}").is_dir():
        step = 0
    for folder in checkpoints.glob("global_step_*"):
        if folder.name != f"global_step_{step}":
            shutil.rmtree(folder)
    return step


def export_policy(checkpoint: Path, start: Path, target: Path) -> None:
    """Weights of `checkpoint` (its `huggingface` folder) with configuration and tokenizer of `start`.

    All but the weights is copied from the policy that training started from, so prompts cannot change on the way.
    Raises InfraError when the engine left no weights.
    """
    exported = [path for pattern in WEIGHT_PATTERNS for path in sorted(checkpoint.glob(f"huggingface/{pattern}"))]
    if not exported:
        raise InfraError(f"{checkpoint}/huggingface: the engine left no weights")
    target.mkdir(parents=True)
    for path in sorted(start.iterdir()):
        if path.is_file() and not any(path.match(pattern) for pattern in WEIGHT_PATTERNS):
            shutil.copyfile(path, target / path.name)
    for path in exported:
        shutil.copyfile(path, target / path.name)


def _tree_hash(path: Path) -> str:
    if path.is_file():
        return sha256_file(path)
    files = sorted(file for file in path.rglob("*") if file.is_file())
    return sha256_text(canonical_json({str(file.relative_to(path)): sha256_file(file) for file in files}))
