"""Rows of JSON lines, JSON lists and gold files, each with its line; what cannot be read is set aside by name."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from birdrl.errors import InputError
from birdrl.files import read_text, write_text

Container = Literal["jsonl", "json", "lines"]
SHOWN_FIELDS = 12  # of an object that is none of ours


@dataclass(frozen=True)
class BrokenRow:
    """A row that is set aside. `row` counts rows, `line` lines of the file, both from 1; `field` may be empty."""

    file: str
    line: int
    row: int
    field: str
    message: str
    content: str = ""  # the row as it stands in the file, cut short

    def __str__(self) -> str:
        where = f", field {self.field!r}" if self.field else ""
        return f"{self.file}, line {self.line} (row {self.row}){where}: {self.message}"

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class RawRow:
    """A row as it was read."""

    line: int
    row: int
    values: dict[str, Any]


def container_of(path: Path) -> Container:
    """How a file holds its rows: by its name, or by its first character for JSON. Raises InputError."""
    if path.suffix in (".sql", ".txt"):
        return "lines"
    return "json" if read_text(path).lstrip()[:1] == "[" else "jsonl"


def read_rows(path: Path, container: Container) -> Iterator[RawRow | BrokenRow]:
    """The rows of a file in order.

    Raises InputError where nothing behind a place can be trusted, and for a file that is one JSON object.
    """
    text = read_text(path)
    if container == "json":
        return _list_rows(path, text)
    return _gold_lines(path, text) if container == "lines" else _json_lines(path, text)


def write_rows(path: Path, container: Container, rows: Iterable[dict[str, Any]]) -> int:
    """Write rows the way a format holds them; returns how many."""
    listed = list(rows)
    if container == "json":
        write_text(path, json.dumps(listed, indent=2, ensure_ascii=False) + "\n")
    elif container == "lines":
        write_text(path, "".join(f"{_one_line(row, path, n)}\t{row['db_id']}\n" for n, row in enumerate(listed, 1)))
    else:
        write_text(path, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in listed))
    return len(listed)


def _one_line(row: dict[str, Any], path: Path, number: int) -> str:
    """The SQL of a row on one line. Raises InputError where there is none, or a line end that has a meaning."""
    lines = [line for line in re.split(r"\r\n|\r|\n", str(row.get("SQL", ""))) if line.strip()]
    if not lines:
        raise InputError(f"{path}, row {number}: no SQL, which gold lines need; export to another format")
    joined = len(lines) > 1
    if joined and any("--" in line or any(line.count(quote) % 2 for quote in "'\"`") for line in lines):
        raise InputError(
            f"{path}, row {number}: a comment or a literal goes over the end of a line, and gold lines hold each SQL "
            "on one; export to another format"
        )
    return " ".join(line.strip() for line in lines) if joined else lines[0]


def _json_lines(path: Path, text: str) -> Iterator[RawRow | BrokenRow]:
    row = 0
    for line, content in enumerate(text.split("\n"), 1):
        if not content.strip():
            continue
        row += 1
        try:
            values = json.loads(content)
        except (json.JSONDecodeError, RecursionError) as error:
            if row == 1:
                _refuse_whole_object(path, text)
            yield BrokenRow(str(path), line, row, "", f"not valid JSON ({error})", content[:200])
            continue
        yield _object(path, line, row, values, content)


def _refuse_whole_object(path: Path, text: str) -> None:
    """Raise InputError when the text is one JSON object over several lines, which no format of rows is."""
    try:
        values = json.loads(text)
    except (json.JSONDecodeError, RecursionError):
        return
    if isinstance(values, dict):
        fields = ", ".join(list(values)[:SHOWN_FIELDS])
        raise InputError(
            f"{path}: one JSON object (fields: {fields}), not rows; write its rows as a JSON list or one on a line"
        )


def _list_rows(path: Path, text: str) -> Iterator[RawRow | BrokenRow]:
    decoder = json.JSONDecoder()
    position = _skip(text, text.index("[") + 1, " \t\r\n")
    line, counted, row = text.count("\n", 0, position) + 1, position, 0
    while position < len(text) and text[position] != "]":
        line, counted, row = line + text.count("\n", counted, position), position, row + 1
        try:
            values, end = decoder.raw_decode(text, position)
        except (json.JSONDecodeError, RecursionError) as error:
            raise InputError(f"{path}, line {line} (row {row}): not valid JSON ({error}); repair the file") from error
        yield _object(path, line, row, values, text[position:end])
        position = _skip(text, end, " \t\r\n,")
    rest = text[position + 1 :].strip()
    if position >= len(text) or rest:
        last = text.count("\n", 0, position) + 1
        what = f"there is more behind the list: {rest[:40]}" if rest else "the list does not end, the file is cut short"
        raise InputError(f"{path}, line {last}: {what}; repair the file")


def _skip(text: str, position: int, characters: str) -> int:
    while position < len(text) and text[position] in characters:
        position += 1
    return position


def _gold_lines(path: Path, text: str) -> Iterator[RawRow | BrokenRow]:
    row = 0
    for line, content in enumerate(text.split("\n"), 1):
        if not content.strip():
            continue
        row += 1
        sql, tab, db_id = content.rpartition("\t")
        if tab and sql.strip() and db_id.strip():
            yield RawRow(line, row, {"SQL": sql, "db_id": db_id.strip()})
        else:
            yield BrokenRow(str(path), line, row, "db_id", "expected SQL<TAB>db_id", content[:200])


def _object(path: Path, line: int, row: int, values: Any, content: str) -> RawRow | BrokenRow:
    if isinstance(values, dict):
        return RawRow(line, row, values)
    return BrokenRow(str(path), line, row, "", f"expected an object, got {type(values).__name__}", content[:200])
