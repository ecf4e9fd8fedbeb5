"""Stage `audit`: how much training and evaluation issues overlap; flagged training issues are left out."""

from __future__ import annotations

import json
from pathlib import Path

from birdrl.audit import audit, render_markdown
from birdrl.errors import InputError
from birdrl.files import write_text
from birdrl.gym.instance import read_instances
from birdrl.gym.templates import TemplateStore
from birdrl.stages.registry import StageContext


def run(ctx: StageContext) -> None:
    """Write `train.jsonl` (kept rows, byte for byte, in order), `report.json` and `report.md`."""
    store = TemplateStore(ctx.input("templates"))
    gym = ctx.input("gym")
    train_path = gym / "train.jsonl"
    result = audit(
        read_instances(train_path),
        read_instances(gym / "eval.jsonl"),
        {db_id: store.sha256(db_id) for db_id in store.db_ids},
        ctx.params.audit,
    )
    write_text(ctx.out / "report.json", json.dumps(result.to_json(), indent=2, ensure_ascii=False) + "\n")
    write_text(ctx.out / "report.md", render_markdown(result))
    copy_kept_rows(train_path, ctx.out / "train.jsonl", result.kept)


def copy_kept_rows(source: Path, target: Path, kept: list[bool]) -> int:
    """Copy the lines of a JSON-lines file whose flag is true; blank lines do not count as rows. Returns how many.

    Raises InputError when the number of rows differs from the number of flags.
    """
    lines = [line for line in source.read_bytes().decode("utf-8").split("\n") if line.strip()]
    if len(lines) != len(kept):
        raise InputError(
            f"{source}: {len(lines)} rows, but {len(kept)} were audited; the file changed meanwhile, run again"
        )
    rows = [line + "\n" for line, keep in zip(lines, kept, strict=True) if keep]
    write_text(target, "".join(rows))
    return len(rows)
