"""The parent's end of a worker process: start, talk, kill."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from birdrl.errors import InfraError
from birdrl.sql.worker import pack_message, receive_message

_CODE = "import sys; sys.path[:] = sys.argv[4:]; from birdrl.sql.worker import main; main(*map(int, sys.argv[1:4]))"
TRANSFER_TIMEOUT_S = 60.0  # for moving a message whose first bytes are there, or an idle worker's answer


class WorkerTimeoutError(Exception):
    """The worker did not answer within the caller's limit; it still runs."""


class WorkerProcess:
    """One worker process. Not thread-safe, except `kill`.

    Replies to `execute`: ("begun", sql), for a larger result ("stepped",), and ("result", fields) for each
    statement, then ("end", dirty, overlay_bytes).
    """

    def __init__(self, memory_bytes: int) -> None:
        """Start it with vfork and exec: the size of this process does not matter. Returns before it is ready."""
        ours, theirs = socket.socketpair()
        # Isolated start without site: imports exactly what this process would import, in a few milliseconds.
        # Absolute, because the worker leaves this folder.
        paths = [str(Path(__file__).resolve().parents[2]), *(os.path.abspath(path) for path in sys.path if path)]
        command = [sys.executable, "-I", "-S", "-c", _CODE, str(theirs.fileno()), str(os.getpid()), str(memory_bytes)]
        environment = {key: os.environ[key] for key in ("LD_LIBRARY_PATH", "TMPDIR") if key in os.environ}
        try:
            self._popen = subprocess.Popen(
                command + paths,
                pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                env=environment,
                start_new_session=True,
            )
        except OSError as error:
            ours.close()
            raise InfraError(f"cannot start an SQL worker process: {error}") from error
        finally:
            theirs.close()
        self._sock = ours

    @property
    def pid(self) -> int:
        return self._popen.pid

    def send(self, *message: Any) -> None:
        """Raises InfraError when the worker is dead."""
        self._sock.settimeout(TRANSFER_TIMEOUT_S)
        try:
            self._sock.sendall(pack_message(*message))
        except OSError as error:
            raise self._death() from error

    def receive(self, limit_s: float) -> tuple[Any, ...]:
        """The next reply. Raises WorkerTimeoutError after `limit_s` seconds, InfraError when the worker is dead."""
        self._sock.settimeout(max(limit_s, 0.001))
        try:
            first = self._sock.recv(1, socket.MSG_PEEK)
        except TimeoutError:
            raise WorkerTimeoutError from None
        except OSError as error:
            raise self._death() from error
        if not first:
            raise self._death()
        self._sock.settimeout(TRANSFER_TIMEOUT_S)
        try:
            message = receive_message(self._sock)
        except OSError as error:
            raise self._death() from error
        if message is None:
            raise self._death()
        return message

    def kill(self) -> None:
        """SIGKILL, from any thread. Whoever reads from the worker then sees it dead."""
        self._popen.kill()

    def close(self) -> None:
        """Kill, reap and free the socket."""
        self._popen.kill()
        self._popen.wait()
        self._sock.close()

    def _death(self) -> InfraError:
        deadline = time.monotonic() + 1.0
        while (code := self._popen.poll()) is None and time.monotonic() < deadline:
            time.sleep(0.001)
        if code is None:
            return InfraError(f"SQL worker {self.pid} closed its connection without ending")
        how = f"signal {-code}" if code < 0 else f"exit status {code}"
        return InfraError(f"SQL worker {self.pid} died ({how}); see its message on standard error, if any")
