"""Strategy `copy`: every replica has a file of its own, written from the template (the paper's pool).

The files have no names: no statement can reach them, and whatever kills their holders, nothing stays behind. A
reset writes the whole template again. For the comparison of Table 3, and where memory is dearer than disk.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import IO

import apsw

from birdrl.errors import InfraError, InputError
from birdrl.sql.storage import Identity, Quota, ReplicaFile, ReplicaStorage, Template, identity_of

SEND_BYTES = 64 << 20  # in one system call


def write_copy(template: Template, fd: int) -> int:
    """Make the file `fd` equal to `template`; returns bytes written.

    Raises OSError when the disk refuses, InputError when the template is another file by now.
    """
    source = os.open(template.path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if identity_of(source) != template.identity:
            raise InputError(f"{template.path}: changed while its replicas were in use; templates must not change")
        os.ftruncate(fd, template.size)
        os.lseek(fd, 0, os.SEEK_SET)
        done = 0
        while done < template.size:
            done += os.sendfile(fd, source, done, min(SEND_BYTES, template.size - done))
    finally:
        os.close(source)
    if template.wal_mode:
        os.pwrite(fd, template.first_page()[:100], 0)
    return template.size


class CopiedFile(ReplicaFile):
    """The main database file of one replica: a private copy. Blocks changed for the first time use up quota."""

    def __init__(self, template: Template, quota_bytes: int, fd: int) -> None:
        super().__init__(Quota(quota_bytes))
        self.template = template
        self.block = template.page_size
        self.fd = fd
        self.size = os.fstat(fd).st_size
        self.changed: set[int] = set()

    def xRead(self, amount: int, offset: int) -> bytes:
        try:
            return os.pread(self.fd, amount, offset)
        except OSError as error:
            self.failure = f"cannot read a replica's file ({error.strerror})"
            raise apsw.IOError(self.failure) from error

    def xWrite(self, data: bytes, offset: int) -> None:
        self.writes += 1
        for start in range(offset - offset % self.block, offset + len(data), self.block):
            if start not in self.changed and not self._is_rollback(data, offset, start):
                self.quota.take(self.block)
                self.changed.add(start)
        self.size = max(self.size, offset + len(data))
        view = memoryview(data)
        try:
            while view:
                written = os.pwrite(self.fd, view, offset)
                view, offset = view[written:], offset + written
        except OSError as error:
            raise self._full(error) from error

    def xTruncate(self, size: int) -> None:
        self.writes += 1
        for start in [start for start in self.changed if start >= size]:
            self.changed.remove(start)
            self.quota.used -= self.block
        try:
            os.ftruncate(self.fd, size)
        except OSError as error:
            raise self._full(error) from error
        self.size = size

    def reset(self) -> int:
        """Write the template again; returns bytes written. Raises OSError when the disk refuses."""
        self.quota.used -= self.block * len(self.changed)
        self.changed.clear()
        self.failure = ""
        written = write_copy(self.template, self.fd)
        self.size = self.template.size
        return written

    def _is_rollback(self, data: bytes, offset: int, start: int) -> bool:
        """Whether a block that was not changed so far stays as it is: rolling back must not meet the quota."""
        begin, end = max(start, offset), min(start + self.block, offset + len(data))
        return end <= self.size and os.pread(self.fd, end - begin, begin) == data[begin - offset : end - offset]

    def _full(self, error: OSError) -> apsw.Error:
        self.failure = f"cannot write a replica's file ({error.strerror})"
        return apsw.FullError(self.failure)


class CopyStorage(ReplicaStorage):
    """A replica in the file `fd`, which this object owns from now on.

    Its content counts as the template's: call `reset` first where it may not be.
    """

    main: CopiedFile

    def __init__(self, template: Template, quota_bytes: int, fd: int) -> None:
        super().__init__(template, CopiedFile(template, quota_bytes, fd))

    def _reset_main(self) -> int:
        return self.main.reset()

    def close(self) -> None:
        super().close()
        os.close(self.main.fd)


class Copy:
    """The pool's hold on one copy: it keeps the file while workers come and go.

    `need_reset`: the file may differ from the template (a new one is empty). `template_identity`: the template it
    was last written from.
    """

    def __init__(self, folder: Path) -> None:
        """Raises InfraError when no file can be made in `folder`."""
        try:
            self.file: IO[bytes] = tempfile.TemporaryFile(dir=folder, buffering=0)  # noqa: SIM115 - closed by close
        except OSError as error:
            raise InfraError(
                f"{folder}: cannot make a replica's file ({error.strerror}); free space there, choose another "
                "PoolConfig.folder, raise the limit of open files, or use strategy 'overlay'"
            ) from error
        self.need_reset = True
        self.template_identity: Identity | None = None

    @property
    def materialised(self) -> bool:
        return self.template_identity is not None

    def written_from(self, template: Path) -> None:
        """The file now equals `template`."""
        self.template_identity = identity_of(template)
        self.need_reset = False

    def is_pristine(self, template: Path) -> bool:
        """Whether a lease can start without writing. False as well when `template` was replaced since."""
        return not self.need_reset and self.template_identity == identity_of(template)

    @property
    def disk_bytes(self) -> int:
        """Bytes of disk that the copy occupies."""
        return os.fstat(self.file.fileno()).st_blocks * 512

    def close(self) -> None:
        self.file.close()
