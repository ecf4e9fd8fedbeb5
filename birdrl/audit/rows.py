"""What the audit reads of an instance, from files of any of the public forms, whole or block by block."""

from __future__ import annotations

import json
from bisect import bisect_left
from codecs import BOM_UTF8
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from birdrl.audit.masking import dialect_name
from birdrl.errors import InputError
from birdrl.files import read_json
from birdrl.gym.instance import OWN_FIELD, Instance

# Keys of a row's `source`, or of the row itself: the verified SQL of our own gym, the source of imported rows, a post.
SOURCE_KEYS = ("verified_sql", "source_id", "post_id")
CONSTRUCTED = "constructed"  # written without a source
BLOCK_BYTES = 1 << 19


@dataclass(frozen=True, slots=True)
class Row:
    """One instance as the audit sees it.

    `number` is the line of a JSON-lines file or the place in a list, from 1. `sql` is the buggy SQL, and in rows
    without one (text-to-SQL) the solution. `dialect` is sqlglot's name.
    """

    number: int
    instance_id: str
    db_id: str
    text: str
    sql: tuple[str, ...]
    solution: tuple[str, ...] = ()
    preprocess: tuple[str, ...] = ()
    source: str | None = None
    dialect: str = "sqlite"


@dataclass(frozen=True)
class Block:
    """`lines` whole lines of a JSON-lines file, the first of them number `line`: bytes from `start` to `stop`."""

    path: Path
    start: int
    stop: int
    line: int
    lines: int


def rows_of(instances: Iterable[Instance]) -> list[Row]:
    """Rows of instances in memory, numbered from 1."""
    return [parse_row(instance.row(), number, "instance") for number, instance in enumerate(instances, 1)]


def read_rows(path: Path) -> list[Row]:
    """All rows of a JSON-lines file or of a JSON list. Raises InputError that names file, row and field."""
    if not is_list(path):
        return [row for block in blocks_of(path) for row in read_block(block)]
    values = read_json(path)
    for number, value in enumerate(values, 1):
        if not isinstance(value, dict):
            raise InputError(f"{path}, row {number}: expected a JSON object, got {type(value).__name__}")
    return [parse_row(value, number, f"{path}, row") for number, value in enumerate(values, 1)]


def database_ids(path: Path) -> set[str]:
    """The databases that a file's rows name."""
    if is_list(path):
        return {row.db_id for row in read_rows(path)}
    return {row.db_id for block in blocks_of(path) for row in read_block(block)}


def is_list(path: Path) -> bool:
    """Whether a file holds one JSON list rather than one object a line. Raises InputError when it cannot be read."""
    try:
        with path.open("rb") as handle:
            return handle.read(1024).removeprefix(BOM_UTF8).lstrip()[:1] == b"["
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}); name a file of instances") from None


def blocks_of(path: Path, size: int = BLOCK_BYTES) -> list[Block]:
    """The file cut at line ends into blocks of about `size` bytes. Raises InputError when it cannot be read."""
    blocks: list[Block] = []
    start = stop = line = done = 0
    try:
        with path.open("rb") as handle:
            for text in handle:
                stop += len(text)
                line += 1
                if stop - start >= size:
                    blocks.append(Block(path, start, stop, done + 1, line - done))
                    start, done = stop, line
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}); name a file of instances") from None
    return [*blocks, Block(path, start, stop, done + 1, line - done)] if stop > start else blocks


def read_block(block: Block) -> list[Row]:
    """The rows of a block. Raises InputError that names file, line and field."""
    with block.path.open("rb") as handle:
        handle.seek(block.start)
        lines = handle.read(block.stop - block.start).split(b"\n")
    rows = []
    for number, line in enumerate(lines, block.line):
        if not line.strip():
            continue
        where = f"{block.path}, line {number}"
        try:
            value = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise InputError(f"{where}: not valid JSON ({error}); repair or remove the line") from error
        if not isinstance(value, dict):
            raise InputError(f"{where}: expected a JSON object, got {type(value).__name__}")
        rows.append(parse_row(value, number, f"{block.path}, line"))
    return rows


def find_rows(path: Path, numbers: Collection[int]) -> dict[int, Row]:
    """Some rows of a JSON-lines file by number."""
    wanted = sorted(numbers)
    found: dict[int, Row] = {}
    for block in blocks_of(path) if wanted else ():
        here = wanted[bisect_left(wanted, block.line) : bisect_left(wanted, block.line + block.lines)]
        if here:
            rows = {row.number: row for row in read_block(block)}
            found.update({number: rows[number] for number in here})
    return found


def parse_row(value: Mapping[str, Any], number: int, where: str) -> Row:
    """A row from the published fields of SIX-GYM, BIRD-CRITIC, LiveSQLBench, BIRD or Spider.

    Raises InputError naming the field that is missing or of another type.
    """
    place = f"{where} {number}"
    generation = "question" in value  # text-to-SQL: Spider's `query` is the SQL
    solution = _statements(value, ("sol_sql", "SQL", "query") if generation else ("sol_sql", "SQL"), place)
    own = value.get(OWN_FIELD)
    source = own.get("source") if isinstance(own, dict) else value.get("source")
    return Row(
        number=number,
        instance_id=_text(value, ("instance_id", "question_id"), place, str(number)),
        db_id=_text(value, ("db_id", "selected_database"), place),
        text=_text(value, ("question",) if generation else ("query",), place),
        sql=_statements(value, ("issue_sql", "error_sql"), place) or solution,
        solution=solution,
        preprocess=_statements(value, ("preprocess_sql",), place),
        source=source_id({**value, **source} if isinstance(source, dict) else value),
        dialect=dialect_name(_text(value, ("dialect",), place, "SQLite")),
    )


def source_id(value: Mapping[str, Any]) -> str | None:
    """Where the SQL came from, for example `post_id:4711`; None when there is no source or the row does not say."""
    for key in SOURCE_KEYS:
        found = value.get(key)
        if found not in (None, "", CONSTRUCTED):
            return f"{key}:{found}"
    return None


def _text(value: Mapping[str, Any], keys: tuple[str, ...], place: str, default: str | None = None) -> str:
    for key in keys:
        found = value.get(key)
        if isinstance(found, str | int) and not isinstance(found, bool):
            return str(found)
        if found is not None:
            raise InputError(f"{place}, field {key!r}: expected a text, got {type(found).__name__}; correct the row")
    if default is None:
        raise InputError(f"{place}: no field {' or '.join(map(repr, keys))}; add it or remove the row")
    return default


def _statements(value: Mapping[str, Any], keys: tuple[str, ...], place: str) -> tuple[str, ...]:
    for key in keys:
        found = value.get(key)
        if isinstance(found, str):
            return (found,) if found.strip() else ()
        if isinstance(found, list) and all(isinstance(statement, str) for statement in found):
            return tuple(found)
        if found is not None:
            raise InputError(f"{place}, field {key!r}: expected SQL or a list of statements; correct the row")
    return ()
