"""The databases behind the instances: what identifies their content and their schema."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from birdrl.errors import InputError
from birdrl.files import sha256_file
from birdrl.gym.introspect import read_schema
from birdrl.gym.template_import import copy_database, find_databases
from birdrl.gym.templates import TemplateStore, open_template


@dataclass(frozen=True)
class Database:
    """A database file that nobody writes to, the hash of its bytes, and the fingerprint of its schema."""

    path: Path
    sha256: str
    schema_sha256: str


def of_store(store: TemplateStore) -> dict[str, Database]:
    """Every database of a template store by id."""
    return {
        db_id: Database(store.path(db_id), store.sha256(db_id), store.schema(db_id).fingerprint())
        for db_id in store.db_ids
    }


@contextmanager
def open_databases(folder: Path, db_ids: Iterable[str]) -> Iterator[dict[str, Database]]:
    """The named databases of a template store or of a folder of `<db>/<db>.sqlite` files, by id.

    A user's own files are checked and copied to a temporary place first. Raises InputError for a database that is not
    there or cannot be used.
    """
    if (folder / "manifest.json").is_file():
        yield of_store(TemplateStore(folder))
        return
    found, rejected = find_databases(folder)
    with TemporaryDirectory(prefix="birdrl-audit-") as scratch:
        databases: dict[str, Database] = {}
        for db_id in sorted(set(db_ids)):
            if db_id not in found:
                why = rejected.get(db_id, "no such folder")
                raise InputError(f"{folder}: database {db_id!r} of the instances is missing ({why}); add it")
            copy = Path(scratch) / f"{len(databases)}.sqlite"
            copy_database(found[db_id], copy)
            connection = open_template(copy)
            try:
                schema = read_schema(connection, db_id)
            finally:
                connection.close()
            databases[db_id] = Database(copy, sha256_file(copy), schema.fingerprint())
        yield databases


def database_of(db_id: str, instance_id: str, databases: Mapping[str, Database]) -> Database:
    """The database of an instance. Raises InputError when it is not among them."""
    try:
        return databases[db_id]
    except KeyError:
        raise InputError(
            f"instance {instance_id!r}: database {db_id!r} is not in the template manifest; "
            "add the database to the templates or remove the instance"
        ) from None
