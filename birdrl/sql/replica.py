"""One place in the pool: a worker process and, with strategy `copy`, its files."""

from __future__ import annotations

import os
import tempfile
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path

from birdrl.errors import InfraError, InputError
from birdrl.sql.copies import Copy, write_copy
from birdrl.sql.pool_config import PoolConfig
from birdrl.sql.process import TRANSFER_TIMEOUT_S, WorkerProcess, WorkerTimeoutError
from birdrl.sql.storage import Identity, Template, identity_of


class ReplicaFileError(InfraError):
    """The disk refused a copy: another worker would fare no better."""


@dataclass(frozen=True)
class Opened:
    """A replica that is pristine now; `was_reset` if an earlier lease had used it up."""

    worker: WorkerProcess
    was_reset: bool
    written_bytes: int


class Replica:
    """One place in the pool; `is_available` and `need_reset` are Algorithm 1's. Used by one lease at a time.

    `template`: path of the latest one leased, empty before the first; leasing the same one again is nearly free.
    """

    def __init__(self, number: int, config: PoolConfig, process: Future[WorkerProcess]) -> None:
        self.number = number
        self.process = process
        self.is_available = True
        self.need_reset = False
        self.template = ""
        self._worker: WorkerProcess | None = None  # that has `template` open, the very file of this identity
        self._template_identity: Identity | None = None
        self._config = config
        self._folder = Path(config.folder or tempfile.gettempdir())
        self._copies: dict[str, Copy] = {}

    def cost(self, template: str) -> tuple[bool, bool, bool]:
        """Order of preference for a lease of the template at a path: a pristine session on it, a pristine copy of it,
        a replica whose session is of no use to anybody else."""
        copy = self._copies.get(template)
        return (
            self.template != template or self.need_reset,
            copy is None or copy.need_reset,
            bool(self.template),
        )

    def renew(self, template: Path) -> Opened | None:
        """`open` without waiting for the worker, where it has `template` open already; None where it has not.

        Neither blocks nor writes to disk. Raises InfraError when the worker is dead.
        """
        worker = self._worker
        if worker is None or self.template != str(template) or identity_of(self.template) != self._template_identity:
            return None
        reset = self.need_reset or self._config.reset == "always"
        if not worker.silent or (reset and self._config.strategy == "copy"):
            return None
        worker.renew(reset=reset)
        self.need_reset = False
        return Opened(worker, reset, 0)

    def open(self, template: Path) -> Opened:
        """The lazy reset: have the worker open `template`, pristine.

        Raises InputError for a file that is no template, ReplicaFileError when the disk refuses a copy, InfraError
        when the worker is dead or silent.
        """
        try:
            worker = self.process.result(TRANSFER_TIMEOUT_S)
        except TimeoutError:
            raise InfraError(f"no SQL worker could be started within {TRANSFER_TIMEOUT_S:g} s") from None
        copy = self._copy_of(template) if self._config.strategy == "copy" else None
        need_reset = self.need_reset if copy is None else not copy.is_pristine(template)
        new = not self.template if copy is None else not copy.materialised
        reset = need_reset or self._config.reset == "always"
        if copy:
            copy.need_reset = reset  # until the worker says that it is done
        files = [copy.file.fileno()] if copy else []
        identity = identity_of(template)
        worker.send("lease", os.path.abspath(template), self._config.overlay_mb << 20, reset, files=files)
        try:
            kind, *rest = worker.receive(TRANSFER_TIMEOUT_S)
        except WorkerTimeoutError:
            worker.kill()
            raise InfraError(
                f"SQL worker {worker.pid} did not open {template} within {TRANSFER_TIMEOUT_S:g} s"
            ) from None
        if kind != "leased":
            self.template, self._worker = "", None
            raise InputError(rest[0]) if kind == "refused" else self._file_error(rest[0])
        self.need_reset = False
        self.template, self._worker, self._template_identity = str(template), worker, identity
        if copy and reset:
            copy.written_from(template)
        return Opened(worker, reset and not new, rest[0])

    def returned(self, *, dirty: bool) -> None:
        """The lease is over; the next one resets what it left, not this call."""
        self.need_reset = dirty
        if self.template in self._copies:
            self._copies[self.template].need_reset = dirty

    def restart(self, process: Future[WorkerProcess]) -> Future[WorkerProcess]:
        """Go on with a new worker, which has nothing open; returns the old one."""
        self._worker = None
        old, self.process = self.process, process
        return old

    def materialise(self, path: Path) -> int:
        """Write the copy of a template unless it has been written; returns bytes written."""
        if self._config.strategy == "overlay":
            return 0
        copy = self._copy_of(path)
        if copy.materialised:
            return 0
        template = Template(path)
        try:
            written = write_copy(template, copy.file.fileno())
        except OSError as error:
            raise self._file_error(f"cannot write a copy of {path} ({error.strerror})") from error
        finally:
            template.close()
        copy.written_from(path)
        return written

    @property
    def disk_bytes(self) -> int:
        """Disk that its files occupy."""
        return sum(copy.disk_bytes for copy in self._copies.values())

    def close(self) -> None:
        for copy in self._copies.values():
            copy.close()

    def _copy_of(self, template: Path) -> Copy:
        if str(template) not in self._copies:
            self._copies[str(template)] = Copy(self._folder)
        return self._copies[str(template)]

    def _file_error(self, what: str) -> ReplicaFileError:
        return ReplicaFileError(
            f"{what}; free space in {self._folder}, choose another PoolConfig.folder, or use strategy 'overlay'"
        )
