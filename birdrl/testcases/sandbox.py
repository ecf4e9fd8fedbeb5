"""Python test cases in processes that can be killed and can do nothing else (the trainer's end)."""

from __future__ import annotations

import os
import queue
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from types import TracebackType
from typing import Any

from birdrl.errors import InfraError
from birdrl.testcases.job import Job, is_outcome
from birdrl.testcases.server import GRACE_S, PREPARING
from birdrl.testcases.wire import Inbox, Message, packed

_CODE = "import sys; sys.path[:] = sys.argv[2:]; from birdrl.testcases.server import main; main(int(sys.argv[1]))"
_START_TIMEOUT_S = 60.0


@dataclass(frozen=True)
class SandboxConfig:
    """Sizes and limits; times in seconds."""

    processes: int = 1
    statement_timeout_s: float = 2.0
    script_timeout_s: float = 10.0  # for all statements of a prediction
    test_timeout_s: float = 10.0  # for one test case
    memory_mb: int = 512  # address space beyond the start and the template
    overlay_mb: int = 64  # changed pages of one replica


@dataclass(frozen=True)
class SandboxReport:
    """`status` of the prediction: ok, error, denied, timeout, killed, empty, or "setup" when what runs before it
    failed. `tests`: (passed, reason) of each, in order, empty unless the prediction ran."""

    status: str
    message: str
    tests: tuple[tuple[bool, str], ...]


class TestSandbox:
    """Runs test cases of the public Python form. Thread-safe; processes start on first use. A context manager."""

    __test__ = False  # not a class of tests, whatever pytest may think of the name

    def __init__(self, config: SandboxConfig | None = None) -> None:
        self.config = config or SandboxConfig()
        self._free: queue.LifoQueue[_Server | None] = queue.LifoQueue()
        for _ in range(self.config.processes):
            self._free.put(None)
        self._lock = threading.Lock()
        self._servers: set[_Server] = set()
        self._closed = False

    def strict(
        self,
        template: Path,
        *,
        before: Sequence[str],
        pred: Sequence[str],
        sol: Sequence[str],
        gold: tuple[Sequence[tuple[Any, ...]], Sequence[tuple[Any, ...]]],
        tests: Sequence[str],
        conditions: dict[str, Any],
    ) -> SandboxReport:
        """Run the prediction once and each test on its own copy of the state after it.

        `gold`: rows of the last statement of `sol` on a pristine replica, as written and without ROUND in its output
        columns. Raises InfraError when the machinery fails.
        """
        rows = ([tuple(row) for row in gold[0]], [tuple(row) for row in gold[1]])
        messages, ending = self._do(self._job("strict", template, before, pred, sol, tests, conditions, rows))
        status = _ended(ending) if ending != "done" else ""
        if not messages:
            return SandboxReport("setup", f"what runs before the prediction was {status}", ())
        if messages[0][0] == "unprepared":
            return SandboxReport("setup", messages[0][1], ())
        if len(messages) == 1:
            return SandboxReport(status, "the prediction had to be killed", ())
        _, status, message = messages[1]
        if status == "ok" and len(messages) < 3:
            raise InfraError(f"the sandbox ended its tests early ({ending}); see its message on standard error")
        outcomes = messages[2][1] if status == "ok" else ()
        return SandboxReport(status, message, tuple((passed, reason) for passed, reason in outcomes))

    def compat(
        self,
        template: Path,
        *,
        before: Sequence[str],
        pred: Sequence[str],
        sol: Sequence[str],
        tests: Sequence[str],
        conditions: dict[str, Any],
    ) -> SandboxReport:
        """The public evaluator's sequence: preprocessing, prediction and tests on one connection and one database."""
        messages, ending = self._do(self._job("compat", template, before, pred, sol, tests, conditions, None))
        if not messages:
            raise InfraError(f"the sandbox could not start a job ({ending}); see its message on standard error")
        if len(messages) == 1:  # whatever it was, code of a test did it
            return SandboxReport("killed", "the evaluation had to be killed", ())
        match messages[1]:
            case ("ran", str(status), str(message), [*outcomes]) if all(map(is_outcome, outcomes)):
                return SandboxReport(status, message, tuple((passed, reason) for passed, reason in outcomes))
        return SandboxReport("killed", "a test wrote something else than verdicts", ())

    def close(self) -> None:
        """Kill every process."""
        with self._lock:
            self._closed = True
            for server in self._servers:
                server.close()
            self._servers.clear()

    def __enter__(self) -> TestSandbox:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def _job(
        self,
        kind: Any,
        template: Path,
        before: Sequence[str],
        pred: Sequence[str],
        sol: Sequence[str],
        tests: Sequence[str],
        conditions: dict[str, Any],
        gold: Any,
    ) -> Job:
        c = self.config
        return Job(
            kind, os.path.abspath(template), list(before), list(pred), list(sol), list(tests), conditions, gold,
            c.statement_timeout_s, c.script_timeout_s, c.test_timeout_s, c.overlay_mb << 20, c.memory_mb << 20,
        )  # fmt: skip

    def _do(self, job: Job) -> tuple[list[Message], str]:
        server = self._free.get()
        try:
            if server is None:
                server = self._start()
            answer = server.do(job)
        except BaseException:
            if server is not None:
                with self._lock:
                    self._servers.discard(server)
                server.close()
            self._free.put(None)
            raise
        self._free.put(server)
        return answer

    def _start(self) -> _Server:
        server = _Server()
        with self._lock:
            if self._closed:
                server.close()
                raise InfraError("the test sandbox is closed")
            self._servers.add(server)
        return server


class _Server:
    """One sandbox process and the socket to it."""

    def __init__(self) -> None:
        self._socket, theirs = socket.socketpair()
        self._inbox = Inbox()
        # Isolated start without site, as for SQL workers; absolute paths, because the process leaves this folder.
        paths = [str(Path(__file__).resolve().parents[2]), *(os.path.abspath(path) for path in sys.path if path)]
        environment = {key: os.environ[key] for key in ("LD_LIBRARY_PATH", "TMPDIR") if key in os.environ}
        try:
            self._popen = subprocess.Popen(
                [sys.executable, "-I", "-S", "-B", "-c", _CODE, str(theirs.fileno()), *paths],
                pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                env=environment,
                start_new_session=True,
            )
        except OSError as error:
            self._socket.close()
            raise InfraError(f"cannot start a sandbox process: {error}") from error
        finally:
            theirs.close()
        kind, *rest = self._receive(_START_TIMEOUT_S)
        if kind != "ready":
            self.close()
            raise InfraError(f"a sandbox process cannot be confined here: {rest[0]}")

    def do(self, job: Job) -> tuple[list[Message], str]:
        """Messages of the job and how it ended. Raises InfraError when the process is dead or does not answer."""
        try:
            self._socket.settimeout(_START_TIMEOUT_S)
            self._socket.sendall(packed(*(getattr(job, field.name) for field in fields(job))))
        except (OSError, ValueError) as error:
            raise InfraError(f"sandbox process {self._popen.pid} takes no job: {error}") from error
        # The process keeps the limits itself; this is for the case that it cannot.
        tests_s = (job.test_s + GRACE_S) * max(1, len(job.tests))
        limit = (PREPARING + 1) * job.script_s + tests_s + 2 * GRACE_S + _START_TIMEOUT_S
        _, messages, ending = self._receive(limit)
        return messages, ending

    def close(self) -> None:
        self._popen.kill()
        self._popen.wait()
        self._socket.close()

    def _receive(self, limit_s: float) -> Message:
        self._socket.settimeout(limit_s)
        try:
            message = self._inbox.receive(self._socket.recv)
        except OSError as error:
            raise InfraError(f"sandbox process {self._popen.pid} does not answer: {error}") from error
        if message is None:
            raise InfraError(f"sandbox process {self._popen.pid} died; see its message on standard error")
        return message


def _ended(ending: str) -> str:
    """Status of what a job was at when it ended early. Raises InfraError unless that is the job's own doing."""
    if ending in ("timeout", "died", "broken"):
        return "killed"
    raise InfraError(f"the sandbox {ending} at its work; see its message on standard error")
