"""Check a user's SQLite file and copy it into a template, without writing to it or its folder."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote as url_quote

import apsw

from birdrl.errors import InputError
from birdrl.gym.introspect import quote, table_names

# SQLite's locking page: readers hold a shared lock on this range, a writing process an exclusive one.
_PENDING_BYTE = 0x40000000
_SHARED_FIRST, _SHARED_SIZE = _PENDING_BYTE + 2, 510
_LEFTOVERS = ("-wal", "-journal")


class UnusableDatabase(InputError):
    """A file that cannot become a template: the message says why and what to do."""


def find_databases(folder: Path) -> tuple[dict[str, Path], dict[str, str]]:
    """Database files by id in `<db>/<db>_template.sqlite` (preferred) or `<db>/<db>.sqlite`, and reasons for the rest.

    Raises InputError when the folder is missing.
    """
    if folder.is_file():
        raise InputError(f"{folder}: a file, not a folder; give the folder that holds <db>/<db>.sqlite files")
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder; give a folder of <db>/<db>.sqlite files")
    found: dict[str, Path] = {}
    rejected: dict[str, str] = {}
    for entry in sorted(p for p in folder.iterdir() if p.is_dir() and not p.name.startswith(".")):
        candidates = [entry / f"{entry.name}_template.sqlite", entry / f"{entry.name}.sqlite"]
        path = next((c for c in candidates if c.is_file()), None)
        if path is None:
            names = f"neither {candidates[1].name} nor {candidates[0].name}"
            rejected[entry.name] = f"{entry}: holds {names}; rename the file or move the folder"
        else:
            found[entry.name] = path
    return found, rejected


@contextmanager
def _shared_lock(path: Path) -> Iterator[None]:
    """Hold SQLite's own shared lock, so that nobody commits while the file is read."""
    with path.open("rb") as handle:
        try:
            fcntl.lockf(handle, fcntl.LOCK_SH | fcntl.LOCK_NB, _SHARED_SIZE, _SHARED_FIRST, os.SEEK_SET)
        except (BlockingIOError, PermissionError) as error:
            raise UnusableDatabase(
                f"{path}: locked by another process; close the program that is writing to it and run again"
            ) from error
        yield


def copy_database(source: Path, target: Path) -> None:
    """Check `source` and copy it page by page to `target` (rollback journal, no leftovers).

    Raises UnusableDatabase for a file that is unreadable, locked, in the middle of a transaction, corrupt, without any
    row, or not UTF-8.
    """
    for suffix in _LEFTOVERS:
        leftover = source.with_name(source.name + suffix)
        if leftover.exists() and leftover.stat().st_size > 0:
            raise UnusableDatabase(
                f"{source}: part of its content still lies in {leftover.name}; close the program that uses it, or run "
                f"sqlite3 '{source}' 'PRAGMA wal_checkpoint(TRUNCATE)' to bring the file up to date"
            )
    try:
        with _shared_lock(source):
            _copy_locked(source, target)
    except OSError as error:
        raise UnusableDatabase(
            f"{source}: cannot be read ({error.strerror}); check its permissions and disk"
        ) from error


def _copy_locked(source: Path, target: Path) -> None:
    # immutable: SQLite takes no locks of its own and creates no -shm or -wal beside the user's file.
    uri = f"file:{url_quote(str(source.absolute()))}?mode=ro&immutable=1"
    corrupt = f"restore it from a backup, or rebuild it with sqlite3 '{source}' .recover | sqlite3 rebuilt.sqlite"
    reader = apsw.Connection(uri, flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)
    try:
        problems = [str(row[0]) for row in reader.execute("PRAGMA integrity_check(3)")]
        if problems != ["ok"]:
            raise UnusableDatabase(f"{source}: corrupt ({'; '.join(problems)}); {corrupt}")
        check_content(reader, source)
        writer = apsw.Connection(str(target))
        try:
            with writer.backup("main", reader, "main") as backup:
                while not backup.done:
                    backup.step(4096)
            # The header of a WAL database says so; replicas read their template without a -wal beside it.
            writer.execute("PRAGMA journal_mode = DELETE").fetchall()
        finally:
            writer.close()
    except (apsw.CorruptError, apsw.NotADBError) as error:
        raise UnusableDatabase(f"{source}: not a sound SQLite database ({error}); {corrupt}") from error
    except apsw.SQLError as error:
        raise UnusableDatabase(
            f"{source}: uses something this SQLite does not have ({error}); drop that table or view from the copy"
        ) from error
    finally:
        reader.close()


def check_content(connection: apsw.Connection, source: Path) -> None:
    """Raise UnusableDatabase for a database without tables or rows, or with text that is not UTF-8."""
    names = table_names(connection)
    if not names:
        raise UnusableDatabase(f"{source}: empty (no tables); fill it or list its id in templates.skip")
    if not any(connection.execute(f"SELECT 1 FROM {quote(name)} LIMIT 1").fetchone() for name in names):
        raise UnusableDatabase(
            f"{source}: empty ({len(names)} tables without any row); fill it or list it in templates.skip"
        )
    for name in names:
        try:
            for _ in connection.execute(f"SELECT * FROM {quote(name)}"):
                pass
        except UnicodeDecodeError as error:
            raise UnusableDatabase(
                f"{source}: table {name!r} holds text that is not UTF-8 ({error.reason}); convert it, for example with "
                "iconv on a dump"
            ) from error
