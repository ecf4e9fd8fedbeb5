"""Running a piece of work in a forked child that is killed when its time is over."""

from __future__ import annotations

import ctypes
import os
import select
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from typing import Any, Literal

from birdrl.testcases.wire import READ_BYTES, BrokenMessageError, Inbox, Message, packed

Ending = Literal["done", "timeout", "died", "broken", "failed", "abandoned"]
Send = Callable[..., None]
_PR_SET_PDEATHSIG = 1
_OUR_FAULT = 70  # exit status of a child whose work raised
_EXIT_S = 1.0  # for a child that has closed its end to be gone
_libc = ctypes.CDLL(None)
_upward: list[int] = []  # this process's end of the pipe to whoever supervises it


def supervise(
    work: Callable[[Send], None], limits_s: Sequence[float], watched: socket.socket | None = None
) -> tuple[list[Message], Ending]:
    """Fork, let the child do `work`, collect the messages it sends, and kill it when one is late.

    `limits_s`: seconds for each message, in order. The ending is "done" when all have come, "timeout", "died" (the
    child ended early), "broken" (it sent something else than a message), "failed" (its work raised; the traceback is
    on standard error), or "abandoned" when the other end of `watched` hung up. The child has a copy of everything this
    process has but its way to its own supervisor, and changes none of it. Messages arrive as JSON gives them.
    """
    reading, writing = os.pipe()
    parent = os.getpid()
    child = os.fork()
    if child == 0:
        _child(work, parent, reading, writing, watched)
    os.close(writing)
    ending: Ending = "timeout"
    try:
        messages, ending = _collect(reading, limits_s, watched)
    finally:
        os.close(reading)
        # One that closed its end by itself is about to exit, and its status says why.
        status = _reap(child, _EXIT_S if ending == "died" else 0.0)
    return messages, "failed" if ending == "died" and status == _OUR_FAULT else ending


def _reap(child: int, patience_s: float) -> int:
    """Wait for a child, then kill it; its exit status, negative for a signal."""
    deadline = time.monotonic() + patience_s
    while time.monotonic() < deadline:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.0005)
    os.kill(child, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _child(
    work: Callable[[Send], None], parent: int, reading: int, writing: int, watched: socket.socket | None
) -> None:
    status = _OUR_FAULT
    try:
        os.close(reading)
        if watched is not None:
            watched.close()
        while _upward:  # a child of a child reports to its parent alone
            os.close(_upward.pop())
        _upward.append(writing)
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() == parent:  # else the parent died before the line above

            def send(*message: Any) -> None:
                _write(writing, packed(*message, confined=True))

            work(send)
            status = 0
    except BaseException:  # noqa: BLE001 - nothing of the parent's may run in the child
        traceback.print_exc(file=sys.stderr)
    finally:
        os._exit(status)


def _write(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def _collect(reading: int, limits_s: Sequence[float], watched: socket.socket | None) -> tuple[list[Message], Ending]:
    poll = select.poll()
    poll.register(reading, select.POLLIN)
    if watched is not None:
        poll.register(watched, select.POLLRDHUP)
    messages: list[Message] = []
    inbox = Inbox(confined=True)
    try:
        for limit in limits_s:
            deadline = time.monotonic() + limit
            while (message := inbox.take()) is None:
                left = deadline - time.monotonic()
                events = dict(poll.poll(left * 1000)) if left > 0 else {}
                if not events:
                    return messages, "timeout"
                if reading not in events:
                    return messages, "abandoned"
                data = os.read(reading, READ_BYTES)
                if not data:
                    return messages, "died"
                inbox.feed(data)
            messages.append(message)
    except BrokenMessageError:
        return messages, "broken"
    return messages, "done"
