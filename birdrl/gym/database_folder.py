"""Somebody's folder of SQLite files, served to rollouts as it is."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from birdrl.errors import InputError
from birdrl.files import sha256_file
from birdrl.gym.introspect import read_schema
from birdrl.gym.schema import Schema
from birdrl.gym.template_import import find_databases
from birdrl.gym.templates import TemplateStore, open_template


class DatabaseFolder:
    """Templates straight from `<db>/<db>.sqlite` or `<db>/<db>_template.sqlite`, read and never written.

    Nothing is checked beforehand and nothing is copied: the files must not change while the run lasts. Raises
    InputError when the folder is missing or holds no database.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._paths, self._rejected = find_databases(folder)
        if not self._paths:
            raise InputError(f"{folder}: no database; expected <db>/<db>.sqlite files")
        self.sha256 = cache(self._sha256)
        self.schema = cache(self._schema)

    @property
    def db_ids(self) -> list[str]:
        return sorted(self._paths)

    def path(self, db_id: str) -> Path:
        """The database's file. Raises InputError for an unknown id."""
        if db_id not in self._paths:
            why = self._rejected.get(db_id) or f"known are: {', '.join(self.db_ids[:20])}"
            raise InputError(f"{self.folder}: no database {db_id!r}; {why}")
        return self._paths[db_id]

    def _sha256(self, db_id: str) -> str:
        return sha256_file(self.path(db_id))

    def _schema(self, db_id: str) -> Schema:
        return read_schema(open_template(self.path(db_id)), db_id)


def open_databases(folder: Path) -> TemplateStore | DatabaseFolder:
    """A template store if the folder is one, else a folder of databases."""
    return TemplateStore(folder) if (folder / "manifest.json").is_file() else DatabaseFolder(folder)
