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
    """Try it and leave no trace: permissions alone do not tell, and a run may fail before it writes anything."""
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{option} {out}: cannot be created ({error.strerror}); give another place") from error
    else:
        if not os.access(folder, os.W_OK):
            raise InputError(f"{option} {out}: nothing may be written in {folder}; give another place")
    finally:
        for path in missing:
            if path.is_dir():
                path.rmdir()
