"""What a row of the engine's data asks for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from birdrl.errors import InputError
from birdrl.gym.instance import Instance

_FORMS = "give extra_info.instance, or extra_info.db_id (docs/plug_and_play.md)"


def row_index(row: Mapping[str, Any]) -> int:
    """The row's number in the data set."""
    extra = row.get("extra_info") or {}
    return int(extra.get("index", row.get("index", 0)))


def instance_of(row: Mapping[str, Any], *, scored: bool) -> Instance:
    """The issue that a row carries, or a text-to-SQL task made of `extra_info.db_id`.

    `extra_info.instance` holds an instance, as JSON text or as a mapping. Without it `extra_info.db_id` names the
    database, `extra_info.preprocess_sql` (optional) prepares it, and `reward_model.ground_truth` is the verified SQL,
    needed only if `scored`. Raises InputError that names the row.
    """
    extra = row.get("extra_info") or {}
    where = f"row {row_index(row)}"
    if (given := extra.get("instance")) is not None:
        try:
            if isinstance(given, str | bytes):
                return Instance.model_validate_json(given)
            return Instance.model_validate(given)
        except ValidationError as error:
            first = error.errors()[0]
            field = ".".join(map(str, first["loc"])) or "instance"
            raise InputError(f"{where}, extra_info.instance, {field}: {first['msg']}; correct the row") from error
    if not isinstance(extra.get("db_id"), str):
        raise InputError(f"{where}: names no database; {_FORMS}")
    truth = (row.get("reward_model") or {}).get("ground_truth")
    truth = truth if isinstance(truth, str) and truth.strip() else None
    if scored and truth is None:
        raise InputError(
            f"{where}: reward_model.ground_truth holds no SQL to score against; add it, or set reward_by: engine"
        )
    prepare = extra.get("preprocess_sql")
    # Not validated as an issue: a task from scratch has no SQL that is at fault.
    return Instance.model_construct(
        instance_id=str(extra.get("instance_id", f"row-{row_index(row)}")),
        db_id=extra["db_id"],
        category="query",
        query="",
        issue_sql=[],
        preprocess_sql=[prepare] if isinstance(prepare, str) else list(prepare if prepare is not None else ()),
        sol_sql=[truth] if scored and truth else [],
    )
