"""Copy-on-write replicas: a read-only template below, changed pages in memory above (BIRD-RL, Algorithm 1).

A replica is nothing but its dirty pages. The template file is opened read-only by this module and mapped;
SQLite only ever sees the file objects below, under an opaque name, so no statement can reach or name the
template. Temporary databases and journals live in memory too and count against the same quota.
"""

from __future__ import annotations

import mmap
import os
from itertools import count
from pathlib import Path

import apsw

from birdrl.errors import InputError

REPLICA_NAME = "replica"
_vfs_number = count()


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
            status = os.fstat(fd)
            self.identity = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
            self.size = status.st_size
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
        size_field = int.from_bytes(self.data[16:18], "big")
        self.page_size = 65536 if size_field == 1 else size_field
        self.wal_mode = self.data[18:20] == b"\x02\x02"

    def changed_on_disk(self) -> bool:
        """Whether the path now names another file than the one mapped."""
        try:
            status = os.stat(self.path)
        except OSError:
            return True
        return (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns) != self.identity

    def close(self) -> None:
        self.data.close()


class Quota:
    """Bytes that one replica may hold in memory, all its files together."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0

    def take(self, size: int) -> None:
        """Raises apsw.FullError ("database or disk is full") beyond the limit."""
        if self.used + size > self.limit:
            raise apsw.FullError("the replica's memory quota is used up")
        self.used += size


class MemoryFile:
    """An SQLite file: blocks in memory over an optional read-only base. Method names are SQLite's."""

    def __init__(self, quota: Quota, block: int = 4096, base: mmap.mmap | None = None, size: int = 0) -> None:
        self.quota = quota
        self.block = block
        self.base = base
        self.base_size = size  # bytes of the base that still count; truncation lowers it
        self.size = size
        self.blocks: dict[int, bytes] = {}
        self.writes = 0

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
        return b"".join(parts)  # shorter than `amount` past the end: SQLite fills with zeros

    def xWrite(self, data: bytes, offset: int) -> None:
        self.writes += 1
        done = 0
        while done < len(data):
            start = (offset + done) - (offset + done) % self.block
            inner = offset + done - start
            width = min(self.block - inner, len(data) - done)
            if start not in self.blocks:
                self.quota.take(self.block)
            if width == self.block:
                self.blocks[start] = bytes(data[done : done + width])
            else:
                block = bytearray(self._block(start))
                block[inner : inner + width] = data[done : done + width]
                self.blocks[start] = bytes(block)
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

    def xClose(self) -> None:
        pass

    def xSync(self, flags: int) -> bool:
        return True

    def xFileSize(self) -> int:
        return self.size

    def xLock(self, level: int) -> None:
        pass  # one connection at a time per replica

    def xUnlock(self, level: int) -> None:
        pass

    def xCheckReservedLock(self) -> bool:
        return False

    def xFileControl(self, op: int, pointer: int) -> bool:
        return False

    def xSectorSize(self) -> int:
        return 4096

    def xDeviceCharacteristics(self) -> int:
        return int(apsw.SQLITE_IOCAP_ATOMIC | apsw.SQLITE_IOCAP_SAFE_APPEND | apsw.SQLITE_IOCAP_SEQUENTIAL)


class TemporaryFile(MemoryFile):
    """A journal or temporary database: gone, quota returned, when SQLite closes it."""

    def xClose(self) -> None:
        self.clear()


class Overlay(MemoryFile):
    """The main database file of one replica: `template` with this replica's own pages on top."""

    def __init__(self, template: Template, quota_bytes: int) -> None:
        super().__init__(Quota(quota_bytes), template.page_size, template.data, template.size)
        self.template = template
        if template.wal_mode:
            # Without shared memory SQLite refuses a file marked as WAL: mark it as rollback-journal instead.
            page = bytearray(template.data[: template.page_size])
            page[18:20] = b"\x01\x01"
            self.quota.take(len(page))
            self.blocks[0] = bytes(page)

    def __len__(self) -> int:
        """Bytes held in memory by this replica, temporary files included."""
        return self.quota.used


class OverlayVFS(apsw.VFS):
    """The file system of one replica: its main database, and files in memory for everything else."""

    def __init__(self, overlay: Overlay) -> None:
        self.vfs_name = f"birdrl-{next(_vfs_number)}"
        self.overlay = overlay
        super().__init__(self.vfs_name, "")

    def connect(self) -> apsw.Connection:
        """A new connection on the replica; only one may be open at a time."""
        connection = apsw.Connection(REPLICA_NAME, flags=apsw.SQLITE_OPEN_READWRITE, vfs=self.vfs_name)
        connection.execute("PRAGMA journal_mode=MEMORY; PRAGMA temp_store=MEMORY; PRAGMA synchronous=OFF").fetchall()
        return connection

    def xOpen(self, name: object, flags: list[int]) -> MemoryFile:  # type: ignore[override]
        flags[1] = flags[0]
        if flags[0] & apsw.SQLITE_OPEN_MAIN_DB:
            return self.overlay
        return TemporaryFile(self.overlay.quota)

    def xAccess(self, pathname: str, flags: int) -> bool:
        return False

    def xDelete(self, filename: str, syncdir: bool) -> None:
        pass

    def xFullPathname(self, name: str) -> str:
        return name
