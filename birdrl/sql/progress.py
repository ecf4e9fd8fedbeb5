"""What a worker is doing, in memory that it shares with its owner.

Read even while the worker is stuck in one opcode, and written without a system call: a single statement costs one
request and one reply.
"""

from __future__ import annotations

import mmap
import os
import struct
import time
from dataclasses import dataclass
from enum import IntEnum

_STATE = struct.Struct("<BdQ")  # phase, monotonic time of its begin, bytes of text
_TEXT_BYTES = 2 << 20  # the longest SQL text that a session accepts, in UTF-8; untouched pages cost nothing
PROGRESS_BYTES = _STATE.size + _TEXT_BYTES


class Phase(IntEnum):
    """BETWEEN: looking for the next statement; RUNNING: SQLite has one; PACKING: it is done, its result is not."""

    BETWEEN = 0
    RUNNING = 1
    PACKING = 2


@dataclass(frozen=True)
class WorkerState:
    """`since`: time.monotonic() of the phase's begin, comparable between processes. `sql`: the running statement."""

    phase: Phase
    since: float
    sql: str


def create_progress() -> int:
    """The descriptor of a new, empty progress memory."""
    fd = os.memfd_create("birdrl-progress")
    try:
        os.ftruncate(fd, PROGRESS_BYTES)
    except OSError:
        os.close(fd)
        raise
    return fd


class Progress:
    """One side's view of a progress memory; takes over the descriptor."""

    def __init__(self, fd: int) -> None:
        try:
            self._memory = mmap.mmap(fd, PROGRESS_BYTES)
        finally:
            os.close(fd)

    def running(self, sql: str) -> None:
        """The worker hands a statement to SQLite."""
        text = sql.encode("utf-8", "replace")[:_TEXT_BYTES]
        self._memory[_STATE.size : _STATE.size + len(text)] = text
        _STATE.pack_into(self._memory, 0, Phase.RUNNING, time.monotonic(), len(text))

    def enter(self, phase: Phase) -> None:
        """The worker goes on to a phase without a statement."""
        _STATE.pack_into(self._memory, 0, phase, time.monotonic(), 0)

    def read(self) -> WorkerState:
        """The state right now, taken twice the same so that it is not a mixture of two."""
        state = self._memory[: _STATE.size]
        while True:
            phase, since, size = _STATE.unpack(state)
            text = self._memory[_STATE.size : _STATE.size + size]
            again = self._memory[: _STATE.size]
            if again == state:
                return WorkerState(Phase(phase), since, text.decode("utf-8", "replace"))
            state = again
