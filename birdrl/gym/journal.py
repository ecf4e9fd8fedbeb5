"""What a build has done so far, on disk: a killed build goes on where it was.

    <work>/<key>/<database>/verified.json    the verified SQL of a database, and what was rejected
    <work>/<key>/<database>/0000.json ...    its slices, in order

The key is a hash of everything that the issues depend on: databases, gold SQL, parameters, seed, and this code. What
another key has left is removed. Every file is written under a temporary name first, so a file is whole or absent.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

import apsw

from birdrl.files import canonical_json, read_json, sha256_file, sha256_text, write_text
from birdrl.gym.rewind.rewinder import Slice
from birdrl.gym.templates import TemplateStore
from birdrl.gym.verified import Rejected, VerifiedSql
from birdrl.params import GymParams

_ROOM = Path(__file__).resolve().parents[1]
_CODE = ("compare", "gym", "rewards", "sql", "files.py", "params.py")  # what a build executes


def build_key(store: TemplateStore, params: GymParams, seed: int) -> str:
    """Hash of what a build's issues depend on; the number of workers is not among it."""
    identity = {
        "templates": {db_id: store.sha256(db_id) for db_id in store.db_ids},
        "gold": [sha256_file(Path(name)) for name in params.gold_sql],
        "params": params.model_dump(mode="json", exclude={"workers"}),
        "seed": seed,
        "code": _code_hash(),
        "engines": [apsw.sqlite_lib_version(), version("sqlglot")],
    }
    return sha256_text(canonical_json(identity))[:16]


def _code_hash() -> str:
    files = [file for name in _CODE for file in sorted((_ROOM / name).rglob("*.py") or [])]
    files += [_ROOM / name for name in _CODE if name.endswith(".py")]
    return sha256_text(canonical_json({str(file.relative_to(_ROOM)): sha256_file(file) for file in files}))


class Journal:
    """The folder of one build. Each database is written by one process at a time."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @classmethod
    def open(cls, work: Path, key: str) -> Journal:
        """The journal of the build `key` under `work`; those of other builds are removed."""
        folder = work / key
        folder.mkdir(parents=True, exist_ok=True)
        for other in work.iterdir():
            if other.is_dir() and other != folder and len(other.name) == len(key):
                shutil.rmtree(other)
        return cls(folder)

    def remove(self) -> None:
        """The build is done."""
        shutil.rmtree(self.folder)

    def verified(self, db_id: str) -> tuple[list[VerifiedSql], list[Rejected]] | None:
        """The verified SQL of a database, or None when it has not been written yet."""
        path = self.folder / db_id / "verified.json"
        if not path.is_file():
            return None
        row = read_json(path)
        return [VerifiedSql(**item) for item in row["accepted"]], [Rejected(**item) for item in row["rejected"]]

    def all_verified(self) -> dict[str, tuple[list[VerifiedSql], list[Rejected]]]:
        """The same of every database so far, by name."""
        names = sorted(path.name for path in self.folder.iterdir() if path.is_dir())
        return {db_id: found for db_id in names if (found := self.verified(db_id)) is not None}

    def write_verified(self, db_id: str, accepted: Sequence[VerifiedSql], rejected: Sequence[Rejected]) -> None:
        self._write(
            db_id, "verified", {"accepted": [asdict(v) for v in accepted], "rejected": [asdict(r) for r in rejected]}
        )

    def slice(self, db_id: str, number: int) -> Slice | None:
        """A slice of a database, or None when it has not been made yet."""
        path = self.folder / db_id / f"{number:04d}.json"
        return Slice.of_row(read_json(path)) if path.is_file() else None

    def write_slice(self, db_id: str, number: int, made: Slice) -> None:
        self._write(db_id, f"{number:04d}", made.row())

    def _write(self, db_id: str, name: str, row: Mapping[str, Any]) -> None:
        write_text(self.folder / db_id / f"{name}.json", json.dumps(row, ensure_ascii=False))
