"""Where a replica's bytes lie: the one interface of the strategies `overlay` and `copy`.

SQLite only ever sees the file objects below, under an opaque name: no statement can reach or name the template,
and journals and temporary databases live in memory. Every byte that a replica adds counts against its quota.
"""

from __future__ import annotations

import mmap
import os
from abc import ABC, abstractmethod
from itertools import count
from pathlib import Path

import apsw

from birdrl.errors import InputError

REPLICA_NAME = "replica"
_vfs_number = count()
# A replica that loses power is lost anyway: no page is journalled for its neighbour's sake.
_NO_POWER_CUTS = int(
    apsw.SQLITE_IOCAP_ATOMIC
    | apsw.SQLITE_IOCAP_SAFE_APPEND
    | apsw.SQLITE_IOCAP_SEQUENTIAL
    | apsw.SQLITE_IOCAP_POWERSAFE_OVERWRITE
)

_JOURNAL_MAGIC = bytes.fromhex("d9d505f920a163d7")  # of one that has to be rolled back; a finished one has zeros

Identity = tuple[int, int, int, int]


def identity_of(file: Path | str | int) -> Identity | None:
    """Device, inode, size and time of change of a path or descriptor; None when there is no such file.

    Another file under the same path, or another content, gives another identity.
    """
    try:
        status = os.stat(file)
    except OSError:
        return None
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def _starts_with(path: Path, magic: bytes) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(len(magic)) == magic
    except FileNotFoundError:
        return False


class Template:
    """The bytes of a template database, mapped read-only and shared by every process that maps it."""

    def __init__(self, path: Path) -> None:
        """Raises InputError when the file is missing, not an SQLite database, or has an unmerged WAL."""
        self.path = path
        try:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise InputError(f"{path}: cannot open the template ({error.strerror}); rebuild the templates") from error
        try:
            self.identity = identity_of(fd)
            self.size = os.fstat(fd).st_size
            if self.size < 512:
                raise InputError(f"{path}: {self.size} bytes are not an SQLite database; rebuild the templates")
            self.data = mmap.mmap(fd, 0, flags=mmap.MAP_SHARED, prot=mmap.PROT_READ)
        finally:
            os.close(fd)
        if self.data[:16] != b"SQLite format 3\x00":
            raise InputError(f"{path}: not an SQLite database (wrong header); rebuild the templates")
        wal = path.with_name(path.name + "-wal")
        if wal.exists() and wal.stat().st_size > 0:
            raise InputError(f"{path}: has an unmerged write-ahead log {wal.name}; checkpoint it before use")
        journal = path.with_name(path.name + "-journal")
        if _starts_with(journal, _JOURNAL_MAGIC):
            raise InputError(
                f"{path}: a program was cut off while writing and left {journal.name}; open the database once with a "
                "program that may write"
            )
        size_field = int.from_bytes(self.data[16:18], "big")
        self.page_size = 65536 if size_field == 1 else size_field
        self.wal_mode = self.data[19] == 2  # the version for reading decides how SQLite opens it

    def changed_on_disk(self) -> bool:
        """Whether the path now names another file than the one mapped."""
        return identity_of(self.path) != self.identity

    def first_page(self) -> bytes:
        """Page 1 as a replica must show it: without shared memory SQLite refuses a file marked as WAL."""
        page = bytearray(self.data[: self.page_size])
        if self.wal_mode:
            page[18:20] = b"\x01\x01"
        return bytes(page)

    def close(self) -> None:
        self.data.close()


class Quota:
    """Bytes that files of one replica may hold together: one for pages and temporary files, one for journals."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0

    def take(self, size: int) -> None:
        """Raises apsw.FullError beyond the limit, with SQLite's own words first."""
        if self.used + size > self.limit:
            raise apsw.FullError(f"database or disk is full: the replica's {self.limit / 2**20:.3g} MB are used up")
        self.used += size


class ReplicaFile(ABC):
    """A file as SQLite sees it; method names are SQLite's.

    `writes` counts changes of any kind. `failure`: what the machine, not the quota, refused (a full disk, a read
    error), empty if nothing.
    """

    def __init__(self, quota: Quota) -> None:
        self.quota = quota
        self.size = 0
        self.writes = 0
        self.failure = ""

    @abstractmethod
    def xRead(self, amount: int, offset: int) -> bytes:
        """Up to `amount` bytes; fewer past the end, where SQLite fills with zeros."""

    @abstractmethod
    def xWrite(self, data: bytes, offset: int) -> None: ...

    @abstractmethod
    def xTruncate(self, size: int) -> None: ...

    def xClose(self) -> None:
        return None

    def xSync(self, flags: int) -> bool:
        return True

    def xFileSize(self) -> int:
        return self.size

    def xLock(self, level: int) -> None:
        return None  # one connection at a time per replica

    def xUnlock(self, level: int) -> None:
        return None

    def xCheckReservedLock(self) -> bool:
        return False

    def xFileControl(self, op: int, pointer: int) -> bool:
        return False

    def xSectorSize(self) -> int:
        return 512

    def xDeviceCharacteristics(self) -> int:
        return _NO_POWER_CUTS


class MemoryFile(ReplicaFile):
    """Blocks in memory over an optional read-only base."""

    def __init__(self, quota: Quota, block: int = 4096, base: mmap.mmap | None = None, size: int = 0) -> None:
        super().__init__(quota)
        self.block = block
        self.base = base
        self.base_size = size  # bytes of the base that still count; truncation lowers it
        self.size = size
        self.blocks: dict[int, bytes] = {}

    def xRead(self, amount: int, offset: int) -> bytes:
        if amount == self.block:  # the common case: one page
            found = self.blocks.get(offset)
            if found is not None:
                return found
            if offset % amount == 0 and offset + amount <= self.base_size and self.base is not None:
                return self.base[offset : offset + amount]
        end = min(offset + amount, self.size)
        parts = []
        while offset < end:
            start = offset - offset % self.block
            width = min(self.block - (offset - start), end - offset)
            parts.append(self._block(start)[offset - start : offset - start + width])
            offset += width
        return b"".join(parts)

    def xWrite(self, data: bytes, offset: int) -> None:
        self.writes += 1
        done = 0
        while done < len(data):
            start = (offset + done) - (offset + done) % self.block
            inner = offset + done - start
            width = min(self.block - inner, len(data) - done)
            if width == self.block:
                block = bytes(data[done : done + width])
            else:
                changed = bytearray(self._block(start))
                changed[inner : inner + width] = data[done : done + width]
                block = bytes(changed)
            if start not in self.blocks:
                if self.base is not None and start + self.block <= self.base_size and block == self._block(start):
                    done += width  # a page rolled back to what it was: must not meet the quota
                    continue
                self.quota.take(self.block)
            self.blocks[start] = block
            done += width
        self.size = max(self.size, offset + len(data))

    def xTruncate(self, size: int) -> None:
        self.writes += 1
        for start in [start for start in self.blocks if start >= size]:
            del self.blocks[start]
            self.quota.used -= self.block
        self.base_size = min(self.base_size, size)
        self.size = size
        start = size - size % self.block
        if start in self.blocks:  # bytes cut off must read as zeros if the file grows again
            self.blocks[start] = self.blocks[start][: size - start].ljust(self.block, b"\0")

    def _block(self, start: int) -> bytes:
        found = self.blocks.get(start)
        if found is not None:
            return found
        if start < self.base_size and self.base is not None:
            return self.base[start : min(start + self.block, self.base_size)].ljust(self.block, b"\0")
        return bytes(self.block)

    def clear(self) -> None:
        self.quota.used -= self.block * len(self.blocks)
        self.blocks = {}


class TemporaryFile(MemoryFile):
    """A journal or temporary database: gone, quota returned, when SQLite closes it."""

    def xClose(self) -> None:
        self.clear()


class JournalFile(ReplicaFile):
    """A rollback journal: bytes in memory until SQLite deletes it."""

    def __init__(self, quota: Quota) -> None:
        super().__init__(quota)
        self.data = bytearray()

    def xRead(self, amount: int, offset: int) -> bytes:
        return bytes(self.data[offset : offset + amount])

    def xWrite(self, data: bytes, offset: int) -> None:
        end = offset + len(data)
        if end > self.size:
            self.quota.take(end - self.size)
            self.data += bytes(max(0, offset - self.size))
            self.size = end
        self.data[offset:end] = data

    def xTruncate(self, size: int) -> None:
        self.quota.used -= self.size - size
        self.size = size
        del self.data[size:]


class ReplicaVFS(apsw.VFS):
    """The file system of one replica: its main database, its journals by name, and temporary files.

    Journals are kept until SQLite deletes them: when a statement meets the quota while its pages are being written,
    SQLite leaves the journal behind and rolls back from it at the next statement.
    """

    def __init__(self, main: ReplicaFile) -> None:
        self.vfs_name = f"birdrl-{next(_vfs_number)}"
        self.main = main
        self.journals: dict[str, JournalFile] = {}
        self.journal_quota = Quota(main.quota.limit)
        super().__init__(self.vfs_name, "")

    def xOpen(self, name: object, flags: list[int]) -> ReplicaFile:  # type: ignore[override]
        flags[1] = flags[0]
        if flags[0] & apsw.SQLITE_OPEN_MAIN_DB:
            if str(name.filename() if isinstance(name, apsw.URIFilename) else name) != REPLICA_NAME:
                raise apsw.CantOpenError("only the replica itself can be opened")
            return self.main
        if isinstance(name, str):
            return self.journals.setdefault(name, JournalFile(self.journal_quota))
        return TemporaryFile(self.main.quota)

    def xAccess(self, pathname: str, flags: int) -> bool:
        return pathname in self.journals

    def xDelete(self, filename: str, syncdir: bool) -> None:
        journal = self.journals.pop(filename, None)
        if journal is not None:
            journal.xTruncate(0)

    def xFullPathname(self, name: str) -> str:
        return name

    def clear(self) -> None:
        """Forget every journal."""
        for name in list(self.journals):
            self.xDelete(name, False)


class ReplicaStorage(ABC):
    """One replica's database file and the connections on it. At most one connection is open at a time.

    `written_bytes`: bytes that this object's resets wrote to disk.
    """

    def __init__(self, template: Template, main: ReplicaFile) -> None:
        self.template = template
        self.main = main
        self.written_bytes = 0
        self._vfs = ReplicaVFS(main)

    @property
    def writes(self) -> int:
        """Changes of the database file so far; one that stays the same is a file that stayed the same."""
        return self.main.writes

    @property
    def held_bytes(self) -> int:
        """Bytes of changed pages, journals and temporary files: what the replica has beyond its template."""
        return self.main.quota.used + self._vfs.journal_quota.used

    @property
    def has_journal(self) -> bool:
        """Whether SQLite has left a change half done, which the next statement would roll back."""
        return bool(self._vfs.journals)

    @property
    def failure(self) -> str:
        """What the machine refused since the last reset; not empty: results since then are worthless."""
        return self.main.failure

    def connect(self) -> apsw.Connection:
        """A new connection on the replica as it is."""
        # A statement hardly ever comes twice, and keeping those of a trajectory makes closing three times as dear.
        connection = apsw.Connection(
            REPLICA_NAME, flags=apsw.SQLITE_OPEN_READWRITE, vfs=self._vfs.vfs_name, statementcachesize=0
        )
        connection.execute("PRAGMA temp_store=MEMORY").fetchall()
        return connection

    def reset(self) -> None:
        """Back to the template's bytes. Raises OSError when the disk refuses.

        A connection that stays open may be in no transaction, and has to drop its page cache afterwards.
        """
        self._vfs.clear()
        self.written_bytes += self._reset_main()

    @abstractmethod
    def _reset_main(self) -> int:
        """Make the main database file equal to the template; returns bytes written to disk."""

    def close(self) -> None:
        """Give back what the replica holds; no connection may be open."""
        self._vfs.unregister()
        self._vfs.clear()
