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

from birdrl.rewards.testcases.wire import READ_BYTES, Inbox, Message, packed

Ending = Literal["done", "timeout", "died", "abandoned"]
Send = Callable[..., None]
_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None)


def supervise(
    work: Callable[[Send], None], limits_s: Sequence[float], watched: socket.socket | None = None
) -> tuple[list[Message], Ending]:
    """Fork, let the child do `work`, collect the messages it sends, and kill it when one is late.

    `limits_s`: seconds for each message, in order. The ending is "done" when all have come, "timeout", "died" (the
    child ended early), or "abandoned" when the other end of `watched` hung up. The child has a copy of everything this
    process has, and changes none of it.
    """
    reading, writing = os.pipe()
    parent = os.getpid()
    child = os.fork()
    if child == 0:
        _child(work, parent, reading, writing, watched)
    os.close(writing)
    try:
        return _collect(reading, limits_s, watched)
    finally:
        os.close(reading)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def _child(
    work: Callable[[Send], None], parent: int, reading: int, writing: int, watched: socket.socket | None
) -> None:
    status = 1
    try:
        os.close(reading)
        if watched is not None:
            watched.close()
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() == parent:  # else the parent died before the line above

            def send(*message: Any) -> None:
                _write(writing, packed(*message))

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
    inbox = Inbox()
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
    return messages, "done"
