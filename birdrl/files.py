"""Reading and writing files so that nothing is half-written and every bad row is named."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from birdrl.errors import InputError


def sha256_file(path: Path) -> str:
    """Hex SHA-256 of a file's bytes."""
    with path.open("rb") as f:
        return hashlib.file_digest(f, "sha256").hexdigest()


def sha256_text(text: str) -> str:
    """Hex SHA-256 of a text's UTF-8 bytes."""
    return hashlib.sha256(text.encode()).hexdigest()


def canonical_json(value: Any) -> str:
    """JSON with sorted keys and no spaces: equal values give equal text, so it can be hashed."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def write_text(path: Path, text: str) -> None:
    """Write through a temporary name in the same folder, then rename."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        temporary.write_text(text, encoding="utf-8")
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def write_lines(path: Path, lines: Iterable[bytes]) -> int:
    """Write lines as they come, through a temporary name; returns their number. Memory does not grow with the file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    count = 0
    try:
        with temporary.open("wb") as handle:
            for line in lines:
                handle.write(line)
                count += 1
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    return count


def write_json(path: Path, value: Any, *, sort_keys: bool = True) -> None:
    """Indented JSON. With sorted keys the same value gives the same bytes; without, its order must be as sure."""
    write_text(path, json.dumps(value, indent=2, sort_keys=sort_keys, ensure_ascii=False) + "\n")


def write_jsonl(path: Path, rows: Iterable[Any]) -> int:
    """One JSON object a line; returns the number of rows."""
    lines = [json.dumps(row, ensure_ascii=False) + "\n" for row in rows]
    write_text(path, "".join(lines))
    return len(lines)


def read_json(path: Path) -> Any:
    """Parse a JSON file. Raises InputError that names the file and the place."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: not valid JSON ({error}); repair or rebuild the file") from error


def read_jsonl(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the objects of a JSON-lines file. Raises InputError that names file and line."""
    try:
        handle = path.open(encoding="utf-8")
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    with handle:
        for number, line in enumerate(handle, 1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
            except json.JSONDecodeError as error:
                raise InputError(
                    f"{path}, line {number}: not valid JSON ({error}); repair or remove the line"
                ) from error
            if not isinstance(row, dict):
                raise InputError(f"{path}, line {number}: expected a JSON object, got {type(row).__name__}")
            yield row


@contextmanager
def atomic_dir(target: Path) -> Iterator[Path]:
    """Build a folder under a temporary name; on success it replaces `target`, on failure it is removed."""
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f".{target.name}.part")
    if temporary.exists():
        shutil.rmtree(temporary)
    temporary.mkdir()
    try:
        yield temporary
        if target.exists():
            shutil.rmtree(target)
        temporary.replace(target)
    finally:
        if temporary.exists():
            shutil.rmtree(temporary)
