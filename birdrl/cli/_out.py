"""Places that a command is told to write to: looked at before the work, not after it."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from birdrl.errors import InputError


def check_file(out: Path, inputs: Iterable[Path], option: str = "--out") -> None:
    """Raise InputError unless a file can be written at `out` that is none of the files that are read."""
    if out.is_dir():
        raise InputError(f"{out}: a folder; name a file with {option}")
    if any(_same(out, path) for path in inputs):
        raise InputError(f"{out}: is read by this command and would be lost; name another file with {option}")
    _check_parent(out, option)


def check_folder(out: Path, option: str = "--out", *, files: Iterable[str] = (), inputs: Iterable[Path] = ()) -> None:
    """Raise InputError unless `files` can be written into a folder `out`, and none of them is an input."""
    if out.exists() and not out.is_dir():
        raise InputError(f"{out}: a file; name a folder with {option}")
    for path in inputs:
        if any(_same(out / name, path) for name in files):
            raise InputError(f"{path}: is read by this command and would be lost; name another folder with {option}")
    _check_parent(out / "file", option)


def _same(out: Path, path: Path) -> bool:
    return out.exists() and path.exists() and out.samefile(path)


def _check_parent(out: Path, option: str) -> None:
    parent = next(folder for folder in out.absolute().parents if folder.exists())
    why = "" if parent.is_dir() else f"{parent} is no folder"
    if not why and not os.access(parent, os.W_OK | os.X_OK):
        why = f"nothing may be written in {parent}"
    if why:
        raise InputError(f"{out}: cannot be created, {why}; name another place with {option}")
