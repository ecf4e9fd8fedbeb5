"""Run work so that nothing of it outlives whoever asked for it.

A small parent process waits for the work and, when the work ends, when a signal comes, or when its own parent dies
(SIGKILL included), ends every process the work has started, also those that put themselves into the background
(Ray's daemons do). On Linux; elsewhere signals are obeyed, but the death of the parent goes unnoticed.

`python -m birdrl.stages.supervisor COMMAND...` supervises a command.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

GRACE_S = 5.0
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_STOPS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class _Stop(BaseException):
    def __init__(self, signum: int) -> None:
        self.signum = signum


def supervise(work: Callable[[], int], parent: int | None = None) -> int:
    """Run `work` in a forked child and return its exit status (128 + signal number when one ended it).

    `parent` is the process whose death ends the work, by default the one that started this process.
    Call it before threads are started.
    """
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    _die_with_parent(signal.SIGTERM, parent if parent is not None else os.getppid())
    for signum in _STOPS:
        signal.signal(signum, _raise_stop)
    supervisor = os.getpid()
    child: int | None = None
    try:
        sys.stdout.flush()
        sys.stderr.flush()
        child = os.fork()
        if child == 0:
            _become_work(work, supervisor)
        status = _wait(child)
    except _Stop as stop:
        status = 128 + stop.signum
    for signum in _STOPS:  # from here on nothing interrupts the cleaning
        signal.signal(signum, signal.SIG_IGN)
    _end_descendants()
    return status


def descendants(root: int) -> list[int]:
    """Process ids below `root`, zombies left out, nearest first."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            text = stat.read_text()
        except (FileNotFoundError, ProcessLookupError):  # ended while we looked
            continue
        state, parent = text.rpartition(")")[2].split()[:2]
        if state != "Z":
            children.setdefault(int(parent), []).append(int(stat.parent.name))
    found = [root]
    for pid in found:
        found.extend(children.get(pid, ()))
    return found[1:]


def _become_work(work: Callable[[], int], supervisor: int) -> None:
    status = 1
    try:
        for signum in _STOPS:
            signal.signal(signum, _leave)
        _die_with_parent(signal.SIGKILL, supervisor)
        status = work()
    except SystemExit as stop:
        status = stop.code if isinstance(stop.code, int) else (0 if stop.code is None else 1)
    except BaseException:  # noqa: BLE001 - the child must never return into the parent's code
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def _wait(child: int) -> int:
    """Wait for `child`, reaping orphans that come to us meanwhile."""
    while True:
        pid, status = os.wait()
        if pid == child:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code


def _end_descendants() -> None:
    """TERM to all, then KILL until none is left: killing a process may hand us its children."""
    deadline = time.monotonic() + GRACE_S
    asked: set[int] = set()
    while alive := descendants(os.getpid()):
        signum = signal.SIGTERM if time.monotonic() < deadline else signal.SIGKILL
        for pid in alive:
            if signum == signal.SIGKILL or pid not in asked:
                asked.add(pid)
                try:
                    os.kill(pid, signum)
                except ProcessLookupError:
                    continue
        _reap()
        time.sleep(0.05)
    _reap()


def _reap() -> None:
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return


def _raise_stop(signum: int, _frame: object) -> None:
    raise _Stop(signum)


def _leave(signum: int, _frame: object) -> None:
    """End the work by an exception, once, so that its clean-up runs; the supervisor kills it if that takes long."""
    for again in _STOPS:
        signal.signal(again, signal.SIG_IGN)
    raise SystemExit(128 + signum)


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux" and ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), f"prctl({option}) failed")


def _die_with_parent(signum: int, parent: int) -> None:
    """Have the kernel send `signum` when the parent dies; it may have died already."""
    _prctl(_PR_SET_PDEATHSIG, signum)
    if os.getppid() != parent:
        os.kill(os.getpid(), signum)


def main(command: list[str]) -> int:
    """Supervise `command`.

    The asking process names itself in BIRDRL_SUPERVISED_BY, so that its death before we get here is noticed, and a
    descriptor in BIRDRL_KEEP_OPEN that stays open here, and only here, until everything has ended.
    """
    if not command:
        print("usage: python -m birdrl.stages.supervisor COMMAND [ARGUMENT...]", file=sys.stderr)
        return 2
    asked_by = os.environ.pop("BIRDRL_SUPERVISED_BY", None)
    if keep_open := os.environ.pop("BIRDRL_KEEP_OPEN", None):
        os.set_inheritable(int(keep_open), False)

    def work() -> int:
        os.execvp(command[0], command)

    return supervise(work, int(asked_by) if asked_by else None)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
