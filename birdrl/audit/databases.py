"""The databases behind the instances: what identifies their content and their schema."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from birdrl.errors import InputError
from birdrl.gym.database_folder import DatabaseFolder
from birdrl.gym.templates import TemplateStore


@dataclass(frozen=True)
class Database:
    """A database file that nobody writes to, the hash of its bytes, and the fingerprint of its schema."""

    path: Path
    sha256: str
    schema_sha256: str


def databases_by_id(source: TemplateStore | DatabaseFolder, db_ids: Iterable[str]) -> dict[str, Database]:
    """The named databases of a template store or a folder. Raises InputError for one that is not there."""
    return {
        db_id: Database(source.path(db_id), source.sha256(db_id), source.schema(db_id).fingerprint())
        for db_id in sorted(set(db_ids))
    }


def database_of(db_id: str, instance_id: str, databases: Mapping[str, Database]) -> Database:
    """The database of an instance. Raises InputError when it is not among them."""
    try:
        return databases[db_id]
    except KeyError:
        raise InputError(
            f"instance {instance_id!r}: database {db_id!r} is not in the template manifest; "
            "add the database to the templates or remove the instance"
        ) from None
