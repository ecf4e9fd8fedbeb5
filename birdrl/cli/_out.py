"""Places that a command is told to write to: looked at before the work, not after it."""

from __future__ import annotations

import tempfile
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
    """By trying, as permissions alone do not tell; missing folders are left to the writer, as a run may fail before."""
    existing = next(path for path in (folder.absolute(), *folder.absolute().parents) if path.exists())
    try:
        with tempfile.TemporaryDirectory(prefix=".birdrl-", dir=existing):
            pass
    except OSError as error:
        raise InputError(
            f"{option} {out}: cannot be created ({existing}: {error.strerror}); give another place"
        ) from error
