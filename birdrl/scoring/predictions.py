"""Files of predictions, in the forms that BIRD, Spider and BIRD-CRITIC use.

* JSON lines or a JSON list of objects: an id (`instance_id`, `question_id`, `idx`, `id`) and the SQL (`pred_sqls`,
  `pred_sql`, `predicted_sql`, `pred`, `prediction`, `sql`, `SQL`), one statement or a list of them;
* a JSON object from id to SQL: BIRD's values end in `<TAB>----- bird -----<TAB>db_id`;
* a JSON list of texts, or a text file with one SQL per line (Spider; `<TAB>db_id` may follow): in the instances' order.

Where the ids of a file are not those of the instances but numbers from 0 on, they are positions in the instances' file:
if none of them is an instance's id, or if they are all the positions there are (BIRD's mini-dev, whose instances have
the ids of the larger benchmark).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from birdrl.errors import InputError
from birdrl.files import read_json, read_jsonl, read_lines
from birdrl.scoring.tasks import Task, identity, statements

_ID_FIELDS = ("instance_id", "question_id", "idx", "id")
_SQL_FIELDS = ("pred_sqls", "pred_sql", "predicted_sql", "pred", "prediction", "sql", "SQL")
_BIRD_SEPARATOR = "\t----- bird -----\t"
_SHOWN = 10  # ids in a message


@dataclass(frozen=True)
class Prediction:
    """One answer to one instance. `trial` counts an instance's answers from 0; `db_id` only if the file names it."""

    instance_id: str
    sqls: tuple[str, ...]
    trial: int = 0
    db_id: str = ""
    place: str = ""


@dataclass(frozen=True)
class _Row:
    key: str | int  # an id as text, or a position as number
    sqls: list[str]
    place: str
    db_id: str = ""


def read_predictions(
    path: Path, tasks: Sequence[Task], *, trials: bool = False, missing: bool = False
) -> list[Prediction]:
    """Predictions in the order of the instances, then of the file.

    `trials`: an instance may have several. `missing`: it may have none, and then gets one without SQL. Raises
    InputError that names the file, the rows or the ids: a broken row, an unknown instance, another database than the
    instance's, a duplicate without `trials`, an instance without prediction unless `missing`.
    """
    rows = list(_read(path, len(tasks)))
    tasks_by_key: dict[str | int, Task] = dict(enumerate(tasks))
    tasks_by_key.update(_tasks_by_name(rows, tasks))
    found: dict[str, list[Prediction]] = {}
    for row in rows:
        task = tasks_by_key.get(row.key)
        if task is None:
            known = ", ".join(task.instance_id for task in tasks[:_SHOWN])
            raise InputError(f"{row.place}: no instance {str(row.key)!r}; known are {known}, ...")
        answers = found.setdefault(task.instance_id, [])
        if answers and not trials:
            raise InputError(
                f"{row.place}: a second prediction for instance {task.instance_id!r} (first {answers[0].place}); "
                "remove one, or give --trials if each instance has several"
            )
        if row.db_id and row.db_id != task.db_id:
            raise InputError(
                f"{row.place}: predicts on database {row.db_id!r}, but instance {task.instance_id!r} is on "
                f"{task.db_id!r}; are the files of the same benchmark and order?"
            )
        answers.append(Prediction(task.instance_id, tuple(row.sqls), len(answers), row.db_id, row.place))
    without = [task.instance_id for task in tasks if task.instance_id not in found]
    if without and not missing:
        shown = ", ".join(without[:_SHOWN]) + (f" and {len(without) - _SHOWN} more" if len(without) > _SHOWN else "")
        raise InputError(f"{path}: no prediction for {shown}; add them, or give --missing zero to score them 0")
    return [
        answer
        for task in tasks
        for answer in found.get(task.instance_id, [Prediction(task.instance_id, (), place=str(path))])
    ]


def _tasks_by_name(rows: Sequence[_Row], tasks: Sequence[Task]) -> dict[str, Task]:
    """Instances by what the rows call them: their id, or for numbers that are no ids their position."""
    by_id = {task.instance_id: task for task in tasks}
    by_position = {str(position): task for position, task in enumerate(tasks)}
    names = {row.key for row in rows if isinstance(row.key, str)}
    if names <= by_id.keys():
        return by_id
    foreign = all(name.isdecimal() for name in names) and not names & by_id.keys()
    return by_position if foreign or names == by_position.keys() else by_id


def _read(path: Path, instances: int) -> Iterator[_Row]:
    if path.suffix in (".sql", ".txt"):
        yield from _from_lines(path, instances)
    elif path.suffix == ".json":
        value = read_json(path, unique_keys=True)
        if isinstance(value, dict):
            yield from (_from_pair(path, key, item) for key, item in value.items())
        elif isinstance(value, list):
            yield from _from_list(path, value)
        else:
            raise InputError(f"{path}: expected a JSON object or list, got {type(value).__name__}")
    else:
        yield from _from_list(path, read_jsonl(path))


def _from_lines(path: Path, instances: int) -> Iterator[_Row]:
    """A blank line is an empty answer, but for those at the end that no instance is left for."""
    for position, line in enumerate(read_lines(path)):
        sql, _, db_id = line.partition("\t")
        if line.strip() or position < instances:
            yield _Row(position, [sql] if sql.strip() else [], f"{path}, line {position + 1}", db_id.strip())


def _from_list(path: Path, rows: Iterable[Any]) -> Iterator[_Row]:
    for position, row in enumerate(rows):
        place = f"{path}, row {position + 1}"
        if isinstance(row, str):
            yield _with_database(position, row, place)
            continue
        if not isinstance(row, dict):
            raise InputError(f"{place}: expected an object or a text, got {type(row).__name__}")
        key = identity(row, _ID_FIELDS, place, position)
        field = next((name for name in _SQL_FIELDS if name in row), None)
        sqls = None if field is None else [] if row[field] is None else statements(row[field], field=field)
        if sqls is None:
            what = f"field {field!r} is neither a text nor a list of texts" if field else "holds no SQL"
            raise InputError(f"{place} ({key}): {what}; expected one of {', '.join(_SQL_FIELDS)}")
        db_id = row.get("db_id")
        yield _Row(key, sqls, place, db_id if isinstance(db_id, str) else "")


def _from_pair(path: Path, key: str, value: Any) -> _Row:
    place = f"{path}, key {key!r}"
    if isinstance(value, str):
        return _with_database(key, value, place)
    sqls = [] if value is None else statements(value)
    if sqls is None:
        raise InputError(f"{place}: expected a text or a list of texts, got {type(value).__name__}")
    return _Row(key, sqls, place)


def _with_database(key: str | int, text: str, place: str) -> _Row:
    sql, _, db_id = text.partition(_BIRD_SEPARATOR)
    return _Row(key, [sql] if sql.strip() else [], place, db_id.strip())
