"""Run a command that dies with this process, show its output as it comes, and keep it in a file."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import deque
from pathlib import Path

from birdrl.errors import BirdrlError
from birdrl.stages import supervisor


class CommandFailed(BirdrlError):
    """A command ended with a status other than 0; the message ends with the last lines of its output."""


def run_shown(command: list[str], log: Path, environment: dict[str, str], keep_open: int | None) -> None:
    """Run `command` under a supervisor, copying its output to stderr and to `log`.

    `keep_open` is the checkout lock's descriptor: the supervisor holds it until every process has ended.
    Raises CommandFailed. On any other way out (Ctrl-C, a cancelled flow) everything started is ended first.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    bin_folder = str(Path(sys.executable).parent)
    env = {
        **os.environ,
        **environment,
        "PATH": os.pathsep.join([bin_folder, os.environ.get("PATH", os.defpath)]),
        "BIRDRL_SUPERVISED_BY": str(os.getpid()),
    }
    if keep_open is not None:
        env["BIRDRL_KEEP_OPEN"] = str(keep_open)
    process = subprocess.Popen(
        [sys.executable, supervisor.__file__, *command],  # by path: starts without loading the library
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        pass_fds=() if keep_open is None else (keep_open,),
    )
    tail: deque[bytes] = deque([b""], maxlen=30)
    try:
        with log.open("wb") as file:
            _copy(process, file.fileno(), tail)
        status = process.wait()
    except BaseException:
        process.terminate()
        try:
            process.wait(supervisor.GRACE_S + 10)
        except subprocess.TimeoutExpired:
            process.kill()
        raise
    if status != 0:
        shown = b"\n".join(line.rpartition(b"\r")[2] for line in tail).decode(errors="replace").strip()
        raise CommandFailed(f"{' '.join(command)} ended with status {status}; all of its output: {log}\n{shown}")


def _copy(process: subprocess.Popen[bytes], log: int, tail: deque[bytes]) -> None:
    """Byte by byte as it comes, so that progress bars move; `tail` keeps the last lines."""
    assert process.stdout is not None
    while chunk := os.read(process.stdout.fileno(), 65536):
        os.write(log, chunk)
        sys.stderr.buffer.write(chunk)
        sys.stderr.buffer.flush()
        first, *rest = chunk.split(b"\n")
        tail[-1] += first
        tail.extend(rest)
