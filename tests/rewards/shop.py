"""A template store with one database, and instances over it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from birdrl.files import sha256_file
from birdrl.gym.instance import Instance
from birdrl.gym.introspect import read_schema
from birdrl.gym.schema import Schema
from birdrl.gym.templates import open_template


class OneTemplate:
    def __init__(self, path: Path) -> None:
        self._path = path

    def path(self, db_id: str) -> Path:
        return self._path

    def sha256(self, db_id: str) -> str:
        return sha256_file(self._path)

    def schema(self, db_id: str) -> Schema:
        return read_schema(open_template(self._path), db_id)


def make_instance(**fields: Any) -> Instance:
    values: dict[str, Any] = {
        "instance_id": "shop-1",
        "db_id": "shop",
        "category": "query",
        "query": "How many items are in stock?",
        "issue_sql": ["SELECT count(*) FROM item"],
        "sol_sql": ["SELECT count(*) FROM item WHERE stock > 0"],
        "test_cases": [
            {"kind": "result"},
            {"kind": "result", "setup_sql": ["INSERT INTO item VALUES (9, 'glue', 1.0, 3)"]},
        ],
    }
    return Instance.model_validate(values | fields)
