"""What is to be scored: instances of the gym and of the public files, in one form.

Read are birdrl's and SIX-GYM's / BIRD-CRITIC's JSON lines (`instance_id`, `db_id`, `sol_sql`, `test_cases`, ...), the
JSON lists of BIRD and Spider (`db_id`, `SQL` or `query`, `question_id`), and lines `SQL<TAB>db_id`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from birdrl.errors import InputError
from birdrl.files import read_json, read_jsonl, read_lines
from birdrl.gym.instance import TestCase

_TESTS: TypeAdapter[list[TestCase]] = TypeAdapter(list[TestCase])
_DATABASE_FIELDS = ("db_id", "selected_database", "db_name")
_GOLD_FIELDS = ("sol_sql", "SQL", "query", "gold_sql")
_ID_FIELDS = ("instance_id", "question_id", "id")
_CRITIC_FIELDS = ("sol_sql", "pred_sqls", "issue_sql", "preprocess_sql")
_GROUP_FIELDS = ("category", "difficulty", "hardness")


@dataclass(frozen=True)
class Task:
    """One thing to be scored. `group`: category or difficulty, empty if unknown. `place`: file and row."""

    instance_id: str
    db_id: str
    sol_sql: tuple[str, ...]
    preprocess_sql: tuple[str, ...] = ()
    issue_sql: tuple[str, ...] = ()
    test_cases: tuple[TestCase, ...] = ()
    conditions: dict[str, Any] = field(default_factory=dict)
    group: str = ""
    place: str = ""


def read_tasks(path: Path) -> list[Task]:
    """Read a file of instances. Raises InputError that names file, row and field, for a repeated id too."""
    tasks = [_task(row, f"{path}, row {number}", number) for number, row in enumerate(_rows(path), 1)]
    if not tasks:
        raise InputError(f"{path}: holds no instance")
    places: dict[str, str] = {}
    for task in tasks:
        if task.instance_id in places:
            raise InputError(
                f"{task.place}: instance {task.instance_id!r} is there twice (first {places[task.instance_id]}); "
                "remove one"
            )
        places[task.instance_id] = task.place
    return tasks


def statements(value: Any, *, field: str = "") -> list[str] | None:
    """A field that holds one statement or a list of them; None for anything else.

    In BIRD-CRITIC's fields a text may hold several statements with "[split]" between them.
    """
    if isinstance(value, str):
        pieces = value.split("[split]") if field in _CRITIC_FIELDS else [value]
        return [piece for piece in pieces if piece.strip()]
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return list(value)
    return None


def identity(row: dict[str, Any], fields: Sequence[str], place: str, position: int) -> str | int:
    """A row's id as text, the first of the `fields` that it has, else its position. Raises InputError for one that is
    neither text nor number."""
    name = next((name for name in fields if name in row), None)
    if name is None:
        return position
    value = row[name]
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise InputError(f"{place}: field {name!r} is {value!r}, expected a text or a whole number")
    return str(value)


def _rows(path: Path) -> Iterable[dict[str, Any]]:
    if path.suffix in (".sql", ".txt"):
        return _lines(path)
    if path.suffix != ".json":
        return read_jsonl(path)
    rows = read_json(path)
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise InputError(f"{path}: expected a JSON list of objects, or JSON lines in a file named *.jsonl")
    return rows


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    lines = read_lines(path)
    while lines and not lines[-1].strip():
        lines.pop()
    for number, line in enumerate(lines, 1):
        sql, tab, db_id = line.rpartition("\t")
        if not tab or not sql.strip():
            raise InputError(f"{path}, line {number}: expected SQL<TAB>db_id")
        yield {"SQL": sql.strip(), "db_id": db_id.strip()}


def _task(row: dict[str, Any], place: str, number: int) -> Task:
    name = identity(row, _ID_FIELDS, place, number - 1)
    db_id = next((row[key] for key in _DATABASE_FIELDS if isinstance(row.get(key), str)), None)
    if db_id is None:
        raise InputError(f"{place}: names no database; expected one of {', '.join(_DATABASE_FIELDS)}")
    # SIX-GYM's `query` is the user's text: its gold is `sol_sql`, and only without one is `query` SQL.
    gold_field = next((key for key in _GOLD_FIELDS if row.get(key)), None)
    if gold_field == "query" and "issue_sql" in row:
        gold_field = None
    gold = statements(row[gold_field], field=gold_field) if gold_field else None
    if not gold:
        raise InputError(f"{place} ({name}): holds no gold SQL; expected one of {', '.join(_GOLD_FIELDS)}")
    fields = {}
    for key in ("preprocess_sql", "issue_sql"):
        value = statements(row.get(key) or [], field=key)
        if value is None:
            raise InputError(f"{place} ({name}), field {key!r}: expected a statement or a list of statements")
        fields[key] = tuple(value)
    try:
        tests = _TESTS.validate_python(row.get("test_cases") or [])
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise InputError(f"{place} ({name}), field 'test_cases.{where}': {first['msg']}; correct the row") from error
    conditions = row.get("conditions") or {}
    if not isinstance(conditions, dict):
        raise InputError(f"{place} ({name}), field 'conditions': expected an object")
    group = next((str(row[key]).lower() for key in _GROUP_FIELDS if isinstance(row.get(key), str)), "")
    return Task(
        str(name), db_id, tuple(gold), fields["preprocess_sql"], fields["issue_sql"], tuple(tests), conditions, group,
        place,
    )  # fmt: skip
