"""The stage as DVC sees it: is it up to date, and what is its fingerprint."""

from __future__ import annotations

import hashlib
import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from dvc.exceptions import DvcException
from dvc.lock import LockError
from dvc.repo import Repo
from dvc.stage.serialize import to_single_stage_lockfile

from birdrl.errors import BirdrlError, InputError
from birdrl.files import canonical_json

logging.getLogger("dvc").setLevel(logging.ERROR)


@dataclass(frozen=True)
class StageStatus:
    """`clean`: DVC would skip the stage. `fingerprint`: what DVC keys its run cache by."""

    clean: bool
    fingerprint: str
    changes: str


def stage_status(stage: str, root: Path = Path()) -> StageStatus:
    """Status and fingerprint of one stage of the active profile. Its inputs must exist.

    The fingerprint is the SHA-256 of the entry DVC writes to dvc.lock for the stage (command, hashes of all
    dependencies, parameter values), with the paths of the outputs in place of their hashes.
    """
    try:
        with Repo(str(root)) as repo, repo.lock:
            [found] = repo.stage.collect(stage)
            built = any(out.hash_info for out in found.outs)
            changes = found.status()
            found.save_deps()
            entry: dict[str, Any] = dict(to_single_stage_lockfile(found))
    except LockError as error:
        raise InputError(f"{root.resolve()}: another dvc command is at work; wait for it to end ({error})") from error
    except DvcException as error:
        raise BirdrlError(f"dvc cannot tell the state of stage {stage}: {error}") from error
    entry["outs"] = [out["path"] for out in entry.get("outs", [])]
    key = hashlib.sha256(canonical_json(entry).encode()).hexdigest()
    return StageStatus(clean=not changes, fingerprint=key, changes=_in_words(changes) if built else "not built yet")


def output_hashes(profile: str, root: Path = Path()) -> dict[str, str]:
    """DVC hash of each stage's output folder, from dvc.lock; only stages that DVC has run in this profile."""
    path = root / "dvc.lock"
    if not path.exists():
        return {}
    stages = (yaml.safe_load(path.read_text(encoding="utf-8")) or {}).get("stages") or {}
    return {
        name.removesuffix(f"@{profile}"): entry["outs"][0]["md5"]
        for name, entry in stages.items()
        if name.endswith(f"@{profile}") and entry.get("outs")
    }


def _in_words(changes: dict[str, Any]) -> str:
    """`{"gym@demo": [{"changed deps": {"params.yaml": {"demo.gym": "modified"}}}]}` as one line."""
    parts = []
    for entries in changes.values():
        for entry in entries:
            if isinstance(entry, str):
                parts.append(entry)
                continue
            for kind, items in entry.items():
                names = ", ".join(f"{name} {what}" for name, what in items.items())
                parts.append(f"{kind}: {names}")
    return "; ".join(parts)
