"""Template databases, stored read-only under the hash of their bytes.

The folder that the templates stage writes:

    <sha256>.sqlite   one file per distinct content, mode 0444
    manifest.json     {db_id: {sha256, bytes, tables, rows, source}}
    schemas.json      {db_id: schema}, so that nobody scans a database to learn its columns
    rejected.json     {db_id: reason with remedy} of the files that could not be used
"""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import quote as url_quote

import apsw

from birdrl.errors import InputError
from birdrl.files import read_json, sha256_file, write_json
from birdrl.gym.schema import Schema


class TemplateStore:
    """Read access to a folder of templates. Raises InputError when the folder is not one."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.manifest: dict[str, dict[str, Any]] = read_json(folder / "manifest.json")
        self.db_ids: list[str] = sorted(self.manifest)
        self._checked: set[str] = set()

    @cached_property
    def schemas(self) -> dict[str, Schema]:
        """Every schema, from the cached file."""
        rows = read_json(self.folder / "schemas.json")
        return {db_id: Schema.model_validate(row) for db_id, row in rows.items()}

    @cached_property
    def rejected(self) -> dict[str, str]:
        """Databases that could not be used, with reason and remedy."""
        reasons: dict[str, str] = read_json(self.folder / "rejected.json")
        return reasons

    def entry(self, db_id: str) -> dict[str, Any]:
        """The manifest's row. Raises InputError for an unknown id, with the reason if it was rejected."""
        if db_id not in self.manifest:
            why = self.rejected.get(db_id)
            raise InputError(
                f"database {db_id!r} was rejected: {why}"
                if why
                else f"{self.folder}: no database {db_id!r}; known are: {', '.join(self.db_ids[:20])}"
            )
        return self.manifest[db_id]

    def path(self, db_id: str) -> Path:
        """The template's file. Raises InputError when it is missing or its size differs from the manifest's."""
        entry = self.entry(db_id)
        path = self.folder / f"{entry['sha256']}.sqlite"
        if db_id not in self._checked:
            if not path.is_file() or path.stat().st_size != entry["bytes"]:
                raise InputError(f"{path}: missing or cut short; rebuild it with `birdrl run templates`")
            self._checked.add(db_id)
        return path

    def sha256(self, db_id: str) -> str:
        """Hash of the template's bytes."""
        return str(self.entry(db_id)["sha256"])

    def schema(self, db_id: str) -> Schema:
        """The cached schema."""
        self.entry(db_id)
        return self.schemas[db_id]

    def verify(self) -> None:
        """Hash every file again. Raises InputError that names one whose bytes are not those of its name."""
        for db_id in self.db_ids:
            path = self.path(db_id)
            if sha256_file(path) != self.sha256(db_id):
                raise InputError(f"{path} ({db_id}): its bytes changed; rebuild it with `birdrl run templates`")


class TemplateWriter:
    """Fills the folder of a TemplateStore."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.manifest: dict[str, dict[str, Any]] = {}
        self.schemas: dict[str, dict[str, Any]] = {}
        self.rejected: dict[str, str] = {}

    def add(self, db_id: str, file: Path, schema: Schema, source: str) -> None:
        """Move a finished database file into the store."""
        digest = sha256_file(file)
        self.manifest[db_id] = {
            "sha256": digest,
            "bytes": file.stat().st_size,
            "tables": len(schema.tables),
            "rows": sum(table.rows for table in schema.tables),
            "source": source,
        }
        self.schemas[db_id] = schema.model_dump(mode="json")
        file.chmod(0o444)
        file.replace(self.folder / f"{digest}.sqlite")

    def finish(self) -> None:
        """Write the indexes. Raises InputError when not one database was usable."""
        if not self.manifest:
            reasons = "\n  ".join(f"{k}: {v}" for k, v in sorted(self.rejected.items())[:10])
            raise InputError(f"no usable template database; {len(self.rejected)} rejected:\n  {reasons}")
        write_json(self.folder / "manifest.json", self.manifest)
        write_json(self.folder / "schemas.json", self.schemas)
        write_json(self.folder / "rejected.json", self.rejected)


def open_template(path: Path) -> apsw.Connection:
    """A read-only connection to a template for our own SQL. Nothing can lock or change the file."""
    uri = f"file:{url_quote(str(path.absolute()))}?mode=ro&immutable=1"
    return apsw.Connection(uri, flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)
