"""Reading and writing files so that nothing is half-written and every bad row is named."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import threading
from collections import Counter
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


def encodable(text: str) -> str:
    """The text with every lone surrogate, which UTF-8 cannot hold, as a question mark."""
    return text.encode("utf-8", "replace").decode()


def write_text(path: Path, text: str) -> None:
    """Write through a temporary name in the same folder, then rename."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}.part")
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


def read_text(path: Path) -> str:
    """A text file in UTF-8, with or without byte-order mark, every line end as "\\n". Raises InputError naming it."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not UTF-8 (byte {error.start}: {error.reason}); convert the file") from error
    except OSError as error:
        raise _unreadable(path, error) from None


def read_lines(path: Path) -> list[str]:
    """The lines of a text file without their ends, which are "\\n", "\\r\\n" and "\\r" alone: strings in SQL may hold
    what else Unicode calls a line end."""
    return read_text(path).removesuffix("\n").split("\n")


def read_json(path: Path, *, unique_keys: bool = False) -> Any:
    """Parse a JSON file. Raises InputError that names the file and the place, with `unique_keys` also for a key that
    an object has twice."""
    try:
        return json.loads(read_text(path), object_pairs_hook=_unique if unique_keys else None)
    except json.JSONDecodeError as error:
        raise InputError(f"{path}: not valid JSON ({error}); repair or rebuild the file") from error
    except _RepeatedKeyError as error:
        raise InputError(f"{path}: an object holds the key {error.args[0]!r} twice; remove one") from None
    except RecursionError:
        raise InputError(f"{path}: nested too deeply for JSON; repair or rebuild the file") from None


def read_jsonl(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the objects of a JSON-lines file. Raises InputError that names file and line."""
    try:
        handle = path.open("rb")
    except OSError as error:
        raise _unreadable(path, error) from None
    with handle:
        for number, line in enumerate(handle, 1):
            try:
                text = line.decode("utf-8-sig" if number == 1 else "utf-8")
                if not text.strip():
                    continue
                row = json.loads(text)
            except json.JSONDecodeError as error:
                raise InputError(
                    f"{path}, line {number}: not valid JSON ({error}); repair or remove the line"
                ) from error
            except UnicodeDecodeError as error:
                raise InputError(
                    f"{path}, line {number}: not UTF-8 (byte {error.start}: {error.reason}); convert the file"
                ) from error
            except RecursionError:
                raise InputError(f"{path}, line {number}: nested too deeply for JSON; remove the line") from None
            if not isinstance(row, dict):
                raise InputError(f"{path}, line {number}: expected a JSON object, got {type(row).__name__}")
            yield row


class _RepeatedKeyError(Exception):
    """An object with the same key twice, which Python's reader would take the last of."""


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise _RepeatedKeyError(Counter(key for key, _ in pairs).most_common(1)[0][0])
    return found


def _unreadable(path: Path, error: OSError) -> InputError:
    if isinstance(error, FileNotFoundError):
        return InputError(f"{path}: no such file")
    return InputError(f"{path}: cannot be read ({error.strerror})")


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
