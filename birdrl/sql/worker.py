"""A worker process: one SQL session, served over a socket, killable at any moment.

Requests and replies are length-prefixed `marshal` values: plain data in both directions, so neither side can
make the other run code. A request is read completely before anything is written, and a reply is never
written while a request is pending, so no size of script or result can deadlock. See `WorkerProcess` for the
other end and the order of replies.
"""

from __future__ import annotations

import ctypes
import marshal
import os
import resource
import signal
import socket
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw

from birdrl.errors import InputError
from birdrl.sql.overlay import Template
from birdrl.sql.results import PolicySqlError
from birdrl.sql.session import Session

_HEADER = struct.Struct("<Q")
_PR_SET_PDEATHSIG = 1
SMALL_ROWS = 20  # results up to this size are packed within any grace


def pack_message(*message: Any) -> bytes:
    """A message as it goes over the socket."""
    body = marshal.dumps(message)
    return _HEADER.pack(len(body)) + body


def receive_message(sock: socket.socket) -> tuple[Any, ...] | None:
    """Read one message; None when the other end is gone."""
    header = _receive_exactly(sock, _HEADER.size)
    if header is None:
        return None
    body = _receive_exactly(sock, _HEADER.unpack(header)[0])
    if body is None:
        return None
    message: tuple[Any, ...] = marshal.loads(body)
    return message


def _receive_exactly(sock: socket.socket, size: int) -> bytes | None:
    buffer = bytearray(size)
    view = memoryview(buffer)
    while view:
        count = sock.recv_into(view)
        if count == 0:
            return None
        view = view[count:]
    return bytes(buffer)


def _confine(parent_pid: int, memory_bytes: int) -> None:
    """Die with the parent, own no files, and lie in a folder that does not exist any more."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent_pid:  # the parent died before the line above
        os._exit(1)
    folder = os.path.join(os.environ.get("TMPDIR", "/tmp"), f"birdrl-{parent_pid}-{os.getpid()}")
    os.mkdir(folder, 0o700)
    os.chdir(folder)
    os.rmdir(folder)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_NOFILE, (32, 32))
    apsw.hard_heap_limit(memory_bytes // 2)


def _limit_memory(extra: int) -> None:
    """Address space: what is mapped now plus `extra` bytes."""
    mapped = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (mapped + extra, resource.RLIM_INFINITY))


def _limit_cpu(seconds: float) -> None:
    """A backstop for the parent's kill: CPU seconds from now on."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    resource.setrlimit(
        resource.RLIMIT_CPU, (int(usage.ru_utime + usage.ru_stime + seconds) + 10, resource.RLIM_INFINITY)
    )


class _Server:
    def __init__(self, sock: socket.socket, memory_bytes: int) -> None:
        self.sock = sock
        self.memory_bytes = memory_bytes
        self.session: Session | None = None

    def lease(self, path: str, overlay_bytes: int) -> None:
        template = Path(path)
        session = self.session
        if session is not None and session.template.path == template and not session.template.changed_on_disk():
            session.renew()
        else:
            if session is not None:
                session.close()
                session.template.close()
                self.session = None
            resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
            try:
                session = self.session = Session(Template(template), overlay_bytes)
            except InputError as error:
                self.sock.sendall(pack_message("refused", str(error)))
                return
            except apsw.Error as error:
                self.sock.sendall(
                    pack_message("refused", f"{path}: SQLite cannot open the template ({error}); rebuild it")
                )
                return
            _limit_memory(self.memory_bytes + overlay_bytes)
        self.sock.sendall(self._end())

    def execute(self, script: str, timeout_s: float, script_timeout_s: float, max_rows: int) -> None:
        session = self._current()
        _limit_cpu(script_timeout_s)
        waiting = b""  # the previous result travels with what comes next: one system call less

        def begun(sql: str) -> None:
            nonlocal waiting
            self.sock.sendall(waiting + pack_message("begun", sql))
            waiting = b""

        for r in session.execute(script, timeout_s, script_timeout_s, max_rows, begun):
            if len(r.rows) > SMALL_ROWS:  # packing takes time that is not the statement's
                self.sock.sendall(pack_message("stepped"))
            fields = (r.sql, r.status, r.columns, r.rows, r.truncated, r.message, r.rows_changed, r.elapsed_s)
            waiting += pack_message("result", fields)
        self.sock.sendall(waiting + self._end())

    def reopen(self) -> None:
        self._current().reopen()
        self.sock.sendall(self._end())

    def features(self, script: str) -> None:
        from birdrl.sql.features import extract_features  # the parser is loaded only where it is needed

        self.sock.sendall(pack_message("ready"))
        _limit_cpu(60)
        try:
            found = extract_features(script)
        except PolicySqlError as error:
            self.sock.sendall(pack_message("unparsed", str(error)))
        else:
            self.sock.sendall(pack_message("features", sorted(found.names), sorted(found.tables), found.statements))

    def _current(self) -> Session:
        if self.session is None:
            raise RuntimeError("no lease is open in this worker")
        return self.session

    def _end(self) -> bytes:
        session = self._current()
        return pack_message("end", session.dirty, len(session.overlay))


def main(fd: int, parent_pid: int, memory_bytes: int) -> None:
    """Serve requests until the other end closes."""
    _confine(parent_pid, memory_bytes)
    sock = socket.socket(fileno=fd)
    server = _Server(sock, memory_bytes)
    handlers: dict[str, Callable[..., None]] = {
        "lease": server.lease,
        "execute": server.execute,
        "reopen": server.reopen,
        "features": server.features,
    }
    while (message := receive_message(sock)) is not None:
        handlers[message[0]](*message[1:])
