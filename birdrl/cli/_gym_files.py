"""Where the instances and schemas of a gym lie, for the commands under `birdrl gym`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from birdrl.errors import InputError
from birdrl.formats import import_file
from birdrl.gym.instance import Instance, read_instances
from birdrl.gym.schema import Schema
from birdrl.gym.templates import TemplateStore

SPLITS = ("train", "eval")


def gym_instances(gym: Path, split: str = "all") -> list[Instance]:
    """Instances of a file in any public form, or of one or both splits of a gym's folder.

    Raises InputError where there are none, and for a broken row.
    """
    if gym.is_file():
        return _issues(gym)
    if split not in (*SPLITS, "all"):
        raise InputError(f"--split {split}: expected {', '.join(SPLITS)} or all")
    names = SPLITS if split == "all" else (split,)
    files = [path for name in names if (path := gym / f"{name}.jsonl").is_file()]
    if not files:
        raise InputError(
            f"{gym}: no {' or '.join(f'{name}.jsonl' for name in names)} there; name a gym's folder or file"
        )
    return [instance for path in files for instance in read_instances(path)]


def _issues(path: Path) -> list[Instance]:
    read = import_file(path)
    if read.broken:
        raise InputError(f"{read.broken[0]}; correct the row or remove it, {len(read.broken)} are broken in all")
    issues = [item for item in read.items if isinstance(item, Instance)]
    if len(issues) < len(read.items):
        raise InputError(f"{path}: rows of {read.format.title} are questions, not issues; name a file of issues")
    return issues


def schemas_beside(gym: Path) -> Mapping[str, Schema]:
    """Schemas of the template store in or beside a gym; empty where there is none."""
    folder = gym if gym.is_dir() else gym.parent
    for store in (folder / "templates", folder.parent / "templates"):
        if (store / "schemas.json").is_file():
            return TemplateStore(store).schemas
    return {}
