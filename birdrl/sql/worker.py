"""A worker process: one SQL session, served over a socket, killable at any moment.

A request is read completely before anything is written, and a reply is never written while a request is pending,
so no size of script or result can deadlock. See `WorkerProcess` for the other end and the order of replies.
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Callable
from pathlib import Path

import apsw

from birdrl.errors import InputError
from birdrl.sql.channel import Channel, pack_message
from birdrl.sql.confinement import confine, limit_cpu, limit_file_size, limit_memory, unlimit_memory
from birdrl.sql.copies import CopyStorage
from birdrl.sql.overlay import OverlayStorage
from birdrl.sql.progress import Phase, Progress
from birdrl.sql.results import PolicySqlError
from birdrl.sql.session import Session
from birdrl.sql.storage import ReplicaStorage, Template

PARSE_CPU_S = 60


class _Server:
    def __init__(self, channel: Channel, progress: Progress, memory_bytes: int) -> None:
        self.channel = channel
        self.progress = progress
        self.memory_bytes = memory_bytes
        self.session: Session | None = None

    def lease(self, path: str, quota_bytes: int, reset: bool) -> None:
        """A pristine replica of the template at `path`; a file that came along makes it a copy in that file."""
        fd = self.channel.files.pop() if self.channel.files else None
        try:
            written = self._pristine(Path(path), quota_bytes, reset, fd)
        except InputError as error:
            self.channel.send(pack_message("refused", str(error)))
        except apsw.Error as error:
            self._forget()
            self.channel.send(pack_message("refused", f"{path}: SQLite cannot open the template ({error}); rebuild it"))
        except OSError as error:
            self._forget()
            self.channel.send(pack_message("failed", f"cannot write a copy of {path} ({error.strerror})"))
        else:
            self.channel.send(pack_message("leased", written))

    def renew(self, reset: bool) -> None:
        """A pristine replica for the next lease of the same template; nobody waits for it. Never writes to disk."""
        session = self._current()
        session.renew(reset=reset)
        session.load_schema()

    def _pristine(self, path: Path, quota_bytes: int, reset: bool, fd: int | None) -> int:
        """Bytes written to disk for it."""
        session = self.session
        if session is not None and session.template.path == path and not session.template.changed_on_disk():
            if fd is not None:
                os.close(fd)  # the session has the same file
            before = session.storage.written_bytes
            session.renew(reset=reset)
            session.load_schema()
            return session.storage.written_bytes - before
        self._forget()
        unlimit_memory()
        try:
            template = Template(path)
        except InputError:
            if fd is not None:
                os.close(fd)
            raise
        storage: ReplicaStorage
        if fd is None:
            storage = OverlayStorage(template, quota_bytes)
        else:
            # SQLite writes pages in any order, so a high one may come before the quota is used up.
            limit_file_size(template.size + 2 * quota_bytes)
            storage = CopyStorage(template, quota_bytes, fd)
        try:
            if reset:
                storage.reset()
            self.session = Session(template, quota_bytes, storage)
        except BaseException:
            storage.close()
            template.close()
            raise
        limit_memory(self.memory_bytes + 2 * quota_bytes)  # pages and journals
        return storage.written_bytes

    def _forget(self) -> None:
        if self.session is not None:
            self.session.close()
            self.session.template.close()
            self.session = None

    def execute(self, script: str, timeout_s: float, script_timeout_s: float, max_rows: int) -> None:
        session = self._current()
        limit_cpu(script_timeout_s)
        self.progress.enter(Phase.BETWEEN)
        waiting = b""  # travels with what comes next: one system call less

        def begun(sql: str) -> None:
            nonlocal waiting
            if waiting:  # should this statement have to be killed, the earlier ones have been reported
                self.channel.send(waiting)
                waiting = b""
            self.progress.running(sql)

        for r in session.execute(script, timeout_s, script_timeout_s, max_rows, begun):
            self.progress.enter(Phase.PACKING)
            fields = (r.sql, r.status, r.columns, r.rows, r.truncated, r.message, r.rows_changed, r.elapsed_s)
            waiting += pack_message("result", fields)
            self.progress.enter(Phase.BETWEEN)
        self.channel.send(waiting + self._end())

    def reopen(self) -> None:
        self._current().reopen()
        self.channel.send(self._end())

    def features(self, script: str) -> None:
        from birdrl.sql.features import extract_features  # the parser is loaded only where it is needed

        self.channel.send(pack_message("ready"))
        limit_cpu(PARSE_CPU_S)
        try:
            found = extract_features(script)
        except PolicySqlError as error:
            self.channel.send(pack_message("unparsed", str(error)))
        else:
            sets = map(sorted, (found.names, found.tables, found.columns))
            self.channel.send(pack_message("features", *sets, found.statements))

    def _current(self) -> Session:
        if self.session is None:
            raise RuntimeError("no lease is open in this worker")
        return self.session

    def _end(self) -> bytes:
        session = self._current()
        if session.storage.failure:
            return pack_message("failed", session.storage.failure)
        return pack_message("end", session.dirty, session.storage.held_bytes)


def main(sock_fd: int, progress_fd: int, folder_fd: int, parent_pid: int, memory_bytes: int, copies: int) -> None:
    """Serve requests until the other end closes. `copies`: 1 if replicas are files that SQL may change.

    What goes wrong in here is told to the other end, because standard error may be a file that nobody can write to.
    """
    progress = Progress(progress_fd)
    channel = Channel(socket.socket(fileno=sock_fd))
    try:
        confine(parent_pid, folder_fd, memory_bytes, writes_copies=bool(copies))
        _serve(_Server(channel, progress, memory_bytes))
    except Exception as error:
        with contextlib.suppress(OSError):  # the other end is gone
            channel.send(pack_message("crashed", f"{type(error).__name__}: {error}"))
        raise


def _serve(server: _Server) -> None:
    handlers: dict[str, Callable[..., None]] = {
        "lease": server.lease,
        "renew": server.renew,
        "execute": server.execute,
        "reopen": server.reopen,
        "features": server.features,
    }
    while (message := server.channel.receive()) is not None:
        handlers[message[0]](*message[1:])
