"""What an audit leaves in a folder."""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path

from birdrl.audit.contamination import Audit
from birdrl.audit.markdown import render_markdown
from birdrl.audit.rows import is_list
from birdrl.errors import InputError
from birdrl.files import read_json, write_lines, write_text

WRITTEN = ("report.json", "report.md", "train.jsonl")


def write_audit(result: Audit, folder: Path, train: Path) -> None:
    """Write `report.json`, `report.md` and `train.jsonl`, the rows of `train` that are kept, one a line."""
    write_text(folder / "report.json", json.dumps(result.to_json(), indent=2, ensure_ascii=False) + "\n")
    write_text(folder / "report.md", render_markdown(result))
    kept = copy_kept_rows(train, folder / "train.jsonl", result.excluded)
    if kept != result.counts()["kept_train"]:
        raise InputError(f"{train}: other rows than were audited; the file changed meanwhile, run again")


def copy_kept_rows(source: Path, target: Path, excluded: Collection[int]) -> int:
    """Copy the rows whose number is not excluded, lines byte for byte; returns how many. Blank lines are left out."""
    if is_list(source):
        rows = [json.dumps(row, ensure_ascii=False).encode() for row in read_json(source)]
        return write_lines(target, (row + b"\n" for number, row in enumerate(rows, 1) if number not in excluded))
    with source.open("rb") as lines:
        kept = (line for number, line in enumerate(lines, 1) if line.strip() and number not in excluded)
        return write_lines(target, (line if line.endswith(b"\n") else line + b"\n" for line in kept))
