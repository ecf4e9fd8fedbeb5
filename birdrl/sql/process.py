"""The parent's end of a worker process: start, talk, kill."""

from __future__ import annotations

import contextlib
import math
import os
import select
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from birdrl.errors import InfraError
from birdrl.sql.channel import Channel, pack_message
from birdrl.sql.progress import Progress, WorkerState, create_progress

_CODE = "import sys; sys.path[:] = sys.argv[7:]; from birdrl.sql.worker import main; main(*map(int, sys.argv[1:7]))"
_RESET, _REARM = pack_message("renew", True), pack_message("renew", False)
TRANSFER_TIMEOUT_S = 60.0  # for moving a message whose first bytes are there, or an idle worker's answer


class WorkerTimeoutError(Exception):
    """The worker did not answer within the caller's limit; it still runs."""


class WorkerProcess:
    """One worker process. Not thread-safe, except `kill`.

    Replies: none to `renew`; to `lease` ("leased", bytes written to disk), ("refused", why) or ("failed", why); to
    `execute` a ("result", fields) for each statement, then ("end", dirty, bytes held) or ("failed", why); at any time
    ("crashed", why).
    """

    def __init__(self, memory_bytes: int, folder: int, *, copies: bool = False) -> None:
        """Start it with vfork and exec: the size of this process does not matter. Returns before it is ready.

        `folder`: descriptor of the folder it lives in. `copies`: whether its replicas are files. Raises InfraError.
        """
        ours, theirs, progress = _connections()
        # Isolated start without site: imports exactly what this process would import, in a few milliseconds.
        # Absolute, because the worker leaves this folder.
        paths = [str(Path(__file__).resolve().parents[2]), *(os.path.abspath(path) for path in sys.path if path)]
        numbers = (theirs.fileno(), progress, folder, os.getpid(), memory_bytes, int(copies))
        environment = {key: os.environ[key] for key in ("LD_LIBRARY_PATH", "TMPDIR") if key in os.environ}
        try:
            self._popen = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", _CODE, *map(str, numbers), *paths],
                pass_fds=(theirs.fileno(), progress, folder),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                env=environment,
                start_new_session=True,
            )
        except OSError as error:
            ours.close()
            os.close(progress)
            raise InfraError(f"cannot start an SQL worker process: {error}") from error
        finally:
            theirs.close()
        # Of a blocking socket, by the kernel: Python's own time limit asks the kernel twice for every call.
        for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
            ours.setsockopt(socket.SOL_SOCKET, option, struct.pack("ll", int(TRANSFER_TIMEOUT_S), 0))
        self._channel = Channel(ours)
        self._ahead = b""
        self._progress = Progress(progress)
        self._poll = select.poll()
        self._poll.register(ours, select.POLLIN)

    @property
    def pid(self) -> int:
        return self._popen.pid

    @property
    def silent(self) -> bool:
        """Whether it is alive and owes no reply: an idle worker has nothing to say but that it ends."""
        return not self._channel.pending and not self._poll.poll(0)

    def renew(self, *, reset: bool) -> None:
        """Make its session pristine for another lease, without a reply. Raises InfraError when it is dead.

        A reset starts now, so that it is done when the first statement comes; anything else travels with that
        statement.
        """
        self._ahead = _RESET if reset else _REARM
        if reset:
            self._send(b"")

    def send(self, *message: Any, files: Sequence[int] = ()) -> None:
        """Raises InfraError when the worker is dead."""
        self._send(pack_message(*message), files)

    def _send(self, packed: bytes, files: Sequence[int] = ()) -> None:
        packed, self._ahead = self._ahead + packed, b""
        try:
            self._channel.send(packed, files)
        except OSError as error:
            raise self._death() from error

    def receive(self, limit_s: float) -> tuple[Any, ...]:
        """The next reply. Raises WorkerTimeoutError after `limit_s` seconds, InfraError when the worker is dead."""
        if not self._channel.pending and not self._poll.poll(max(0, math.ceil(limit_s * 1000))):
            raise WorkerTimeoutError
        try:
            message = self._channel.receive()
        except OSError as error:
            raise self._death() from error
        if message is None:
            raise self._death()
        if message[0] == "crashed":
            raise self._crash(message[1])
        return message

    def state(self) -> WorkerState:
        """What it is doing right now, stuck or not."""
        return self._progress.read()

    def kill(self) -> None:
        """SIGKILL, from any thread. Whoever reads from the worker then sees it dead."""
        self._popen.kill()

    def close(self) -> None:
        """Kill, reap and free the socket."""
        self._popen.kill()
        self._popen.wait()
        self._channel.sock.close()

    def _crash(self, why: str) -> InfraError:
        return InfraError(f"SQL worker {self.pid} failed: {why}")

    def _death(self) -> InfraError:
        with contextlib.suppress(OSError):  # it may have said why
            while self._poll.poll(0) and (message := self._channel.receive()) is not None:
                if message[0] == "crashed":
                    return self._crash(message[1])
        deadline = time.monotonic() + 1.0
        while (code := self._popen.poll()) is None and time.monotonic() < deadline:
            time.sleep(0.001)
        if code is None:
            return InfraError(f"SQL worker {self.pid} closed its connection without ending")
        how = f"signal {-code}" if code < 0 else f"exit status {code}"
        return InfraError(f"SQL worker {self.pid} died ({how}); see its message on standard error, if any")


def _connections() -> tuple[socket.socket, socket.socket, int]:
    """Both ends of a worker's channel, and its progress memory. Raises InfraError."""
    try:
        progress = create_progress()
    except OSError as error:
        raise InfraError(f"cannot make the shared memory of an SQL worker: {error}") from error
    try:
        ours, theirs = socket.socketpair()
    except OSError as error:
        os.close(progress)
        raise InfraError(f"cannot make the socket of an SQL worker: {error}") from error
    return ours, theirs, progress
