"""Places that a command is told to write to: looked at before the work, not after it."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from birdrl.errors import InputError


def check_file(out: Path, inputs: Iterable[Path], option: str = "--out") -> None:
    """Raise InputError unless a file can be written at `out` that is none of the files that are read."""
    if out.is_dir():
        raise InputError(f"{option} {out}: is a folder; give the name of a file")
    if out.resolve() in {path.resolve() for path in inputs}:
        raise InputError(f"{option} {out}: is one of the files that are read; give another name")
    if out.exists() and not out.is_file():  # it is replaced by renaming, a device must not be
        raise InputError(f"{option} {out}: is a device or a pipe; give the name of a file")
    _check_parent(out.parent, out, option)


def check_folder(out: Path, option: str = "--out") -> None:
    """Raise InputError unless there can be a folder at `out`."""
    if out.exists() and not out.is_dir():
        raise InputError(f"{option} {out}: a file; give the name of a folder")
    _check_parent(out.parent, out, option)


def _check_parent(folder: Path, out: Path, option: str) -> None:
    """Look, do not touch: a run that fails later leaves no empty folder behind."""
    existing = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not existing.is_dir():
        raise InputError(f"{option} {out}: cannot be created ({existing} is a file); give another place")
    if not os.access(existing, os.W_OK | os.X_OK):
        raise InputError(f"{option} {out}: nothing may be written in {existing}; give another place")
