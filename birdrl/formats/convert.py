"""Between public rows and ours, without loss.

What importing has to change (a statement that stands alone, an id that is a number, a category of other words) is
kept in `source.published`; exporting takes it from there unless the value has been changed since. Fields that we do
not know stay on the instance. So exporting an imported row gives the row that was imported.

What is ours and has no field in the public format (bug record, difficulty, source) is written into one field more,
`birdrl`, and taken from there on import. Gold lines have no room for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from birdrl.errors import InputError
from birdrl.formats.files import BrokenRow, RawRow, container_of, read_rows
from birdrl.formats.specs import FORMATS, Format, detect
from birdrl.gym.generation import GenerationTask
from birdrl.gym.instance import CATEGORIES, OWN_FIELD, Instance

Item = Instance | GenerationTask

_MODELS: dict[str, type[Instance] | type[GenerationTask]] = {"issue": Instance, "generation": GenerationTask}
_SQL_LISTS = ("issue_sql", "sol_sql", "preprocess_sql", "clean_up_sql")
_GOLD = ("sol_sql", "test_cases")  # not every public file has them
# Set for every imported row, also where its format has no such field.
_MADE_UP = ("instance_id", "query", "question", "category", "dialect", "version")
# Issues about speed are queries with a stricter judge.
_CATEGORY_OF: dict[str, str] = {**{name: name for name in CATEGORIES}, "efficiency": "query"}


@dataclass
class Imported:
    """What a file held."""

    format: Format
    items: list[Item] = field(default_factory=list)
    broken: list[BrokenRow] = field(default_factory=list)


class _BadField(Exception):
    def __init__(self, name: str, message: str) -> None:
        super().__init__(message)
        self.name = name


def import_file(path: Path, form: Format | None = None) -> Imported:
    """Read a file of a public format (recognised by its fields when none is named).

    Rows that are broken are set aside, and so are issues that repeat an id; a question that does gets its row behind
    the id. Raises InputError for a file that is none of the format's.
    """
    form = form or detect(path)
    result = Imported(form)
    rows_of: dict[str, int] = {}
    for raw in read_rows(path, container_of(path)):
        if isinstance(raw, BrokenRow):
            result.broken.append(raw)
            continue
        try:
            item = import_row(raw, form, path.name)
        except _BadField as error:
            result.broken.append(BrokenRow(str(path), raw.line, raw.row, error.name, str(error), str(raw.values)[:200]))
            continue
        first = rows_of.setdefault(item.instance_id, raw.row)
        if first != raw.row and form.kind == "generation":  # the published mini-dev asks two questions twice
            item = item.model_copy(update={"instance_id": _repeated(item.instance_id, raw.row)})
        elif first != raw.row:
            what = f"{item.instance_id!r} stands in row {first} already; give one of them another id or remove it"
            result.broken.append(BrokenRow(str(path), raw.line, raw.row, "instance_id", what, str(raw.values)[:200]))
            continue
        result.items.append(item)
    return result


def import_row(raw: RawRow, form: Format, file: str) -> Item:
    """One row as an instance or a task. Raises _BadField."""
    row = raw.values
    model = _MODELS[form.kind]
    for name in form.required:
        if name not in row:
            raise _BadField(name, "missing; add the field")
    known = {ours: _to_ours(name, ours, row[name]) for name, ours in form.fields.items() if name in row}
    if form.name.startswith("birdrl"):
        return _validated(model, {**row, **known}, form)
    own = _own_of(row, form)
    extra = {
        name: value
        for name, value in row.items()
        if name not in form.fields and name not in model.model_fields and not (own and name == OWN_FIELD)
    }
    known.setdefault("instance_id", f"{Path(file).stem}#{raw.row}")
    known.setdefault("question" if form.kind == "generation" else "query", "")
    known.setdefault("category", "query")
    kept = {name: value for name, value in row.items() if name not in form.fields and name in model.model_fields}
    for name, ours in form.fields.items():
        if name in row and not _equal(_to_public(ours, known[ours], form), row[name]):
            kept[name] = row[name]
    if own:  # a row of ours on its way back
        return _validated(model, {**extra, **known, **own}, form, OWN_FIELD)
    source = {"format": form.name, "file": file, "row": raw.row, "fields": list(row)}
    return _validated(model, {**extra, **known, "source": {**source, **({"published": kept} if kept else {})}}, form)


def export_row(item: Item, form: Format) -> dict[str, Any]:
    """One row of a public format. Raises InputError when the format holds the other kind of row."""
    if not isinstance(item, _MODELS[form.kind]):
        holds = "issues" if form.kind == "issue" else "generation tasks"
        raise InputError(f"{item.instance_id}: format {form.name} holds {holds}, this is not one")
    if form.name.startswith("birdrl"):
        return item.row()
    values = item.model_dump(mode="json")
    origin = FORMATS.get(str(item.source.get("format")))
    imported = item.source if origin is not None and origin.fields == form.fields else {}  # mini-dev is BIRD's form
    published: Mapping[str, Any] = imported.get("published", {})
    names = list(imported.get("fields", ()))
    for name, ours in form.fields.items():
        wanted = bool(values[ours]) and ours not in _MADE_UP if imported else ours not in _GOLD or bool(values[ours])
        if wanted and name not in names:
            names.append(name)
    names += [name for name in item.model_extra or {} if name not in names]
    row: dict[str, Any] = {}
    for name in names:
        ours_name = form.fields.get(name)
        if name in published and (ours_name is None or _unchanged(name, ours_name, published[name], item)):
            row[name] = published[name]
        elif ours_name is not None:
            row[name] = _to_public(ours_name, getattr(item, ours_name), form)
        else:
            row[name] = values[name]
    own = _own(values, form)
    as_imported = imported and own.keys() <= {"source", *_MADE_UP}
    if own and not as_imported and form.container != "lines":
        row.setdefault(OWN_FIELD, own)
    return row


def _own(values: Mapping[str, Any], form: Format) -> dict[str, Any]:
    """What an item says in fields that the format has not, as `values` of the item; defaults are left out."""
    fields = _MODELS[form.kind].model_fields
    absent = (name for name in fields if name not in form.fields.values())
    return {
        name: values[name] for name in absent if values[name] != fields[name].get_default(call_default_factory=True)
    }


def _own_of(row: Mapping[str, Any], form: Format) -> Mapping[str, Any]:
    """Our fields of a public row; none in a row whose field of that name is somebody else's."""
    own = row.get(OWN_FIELD)
    absent = _MODELS[form.kind].model_fields.keys() - set(form.fields.values())
    return own if isinstance(own, dict) and own.keys() <= absent else {}


def _validated(model: type[Item], values: dict[str, Any], form: Format, holder: str = "") -> Item:
    """`holder`: the field of the row that holds those that the format has not."""
    try:
        return model.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        ours = str(first["loc"][0]) if first["loc"] else ""
        name = next((public for public, own in form.fields.items() if own == ours), holder or ours)
        where = ".".join(str(part) for part in (first["loc"] if name == holder else first["loc"][1:]))
        raise _BadField(name, f"{where + ': ' if where else ''}{first['msg']}") from error


def _to_ours(name: str, ours: str, value: Any) -> Any:
    """A public value in our form. Raises _BadField."""
    if ours in _SQL_LISTS:
        if value is None and ours in ("preprocess_sql", "clean_up_sql"):
            return []
        if isinstance(value, str):
            return [value] if value.strip() else []
        if isinstance(value, list) and all(isinstance(statement, str) for statement in value):
            return value
        raise _BadField(name, f"expected a statement or a list of statements, got {_what(value)}")
    if ours == "instance_id":
        if isinstance(value, str | int) and not isinstance(value, bool):
            return str(value)
        raise _BadField(name, f"expected a text or a number, got {_what(value)}")
    if ours == "category":
        category = _CATEGORY_OF.get(value.lower()) if isinstance(value, str) else None
        if category is None:
            raise _BadField(name, f"expected one of {', '.join(_CATEGORY_OF)}, got {value!r}")
        return category
    if ours in ("test_cases", "bug", "source"):
        return [] if ours == "test_cases" and value is None else value
    if ours in ("evidence", "difficulty", "version", "dialect") and value is None:
        return ""
    if not isinstance(value, str):
        raise _BadField(name, f"expected a text, got {_what(value)}")
    return value


def _to_public(ours: str, value: Any, form: Format) -> Any:
    """Our value as the format writes it where nothing else is known."""
    if ours == "sol_sql" and form.container in ("json", "lines"):
        return "; ".join(value) if len(value) != 1 else value[0]
    if ours == "category" and form.capital:
        return str(value).capitalize()
    if ours == "test_cases":
        return [getattr(test, "source", None) or _plain(test) for test in value]
    return value


def _plain(test: Any) -> Any:
    return test.model_dump(mode="json") if hasattr(test, "model_dump") else test


def _unchanged(name: str, ours: str, published: Any, item: Item) -> bool:
    """Whether the published value still says what the instance says."""
    if ours == "test_cases":
        return not published and not item.test_cases
    if ours == "instance_id" and item.instance_id == _repeated(str(published), item.source["row"]):
        return True
    return bool(_to_ours(name, ours, published) == getattr(item, ours))


def _equal(a: Any, b: Any) -> bool:
    """Equal, and of the same JSON type: 1 is not True, and not 1.0."""
    return type(a) is type(b) and a == b


def _repeated(instance_id: str, row: int) -> str:
    """The id of a question whose id an earlier row has."""
    return f"{instance_id}#{row}"


def _what(value: Any) -> str:
    return "null" if value is None else type(value).__name__
