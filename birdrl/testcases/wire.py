"""Messages between processes: length-prefixed plain data, in both directions.

Between our own processes they travel as `marshal`. What a process may have written in which code of a test case runs is
read as JSON of a limited length instead: bytes of its making can neither harm the reader nor fill its memory.
"""

from __future__ import annotations

import marshal
import struct
from collections.abc import Callable
from json import dumps, loads  # bound here: a test may put something else into `json`
from typing import Any

_HEADER = struct.Struct("<Q")
READ_BYTES = 1 << 20
MAX_CONFINED_BYTES = 16 << 20  # of one message: verdicts and their reasons
Message = tuple[Any, ...]


class BrokenMessageError(Exception):
    """What arrived from a confined process is no message."""


def packed(*message: Any, confined: bool = False) -> bytes:
    """A message as it travels. `confined`: as JSON, in which tuples become lists."""
    body = dumps(message).encode() if confined else marshal.dumps(message)
    return _HEADER.pack(len(body)) + body


class Inbox:
    """Puts messages together from the pieces in which they arrive; `confined` is that of the sender."""

    def __init__(self, *, confined: bool = False) -> None:
        self._confined = confined
        self._buffer = bytearray()

    def feed(self, data: bytes) -> None:
        self._buffer += data

    def take(self) -> Message | None:
        """The first complete message, removed; None while there is none. Raises BrokenMessageError."""
        if len(self._buffer) < _HEADER.size:
            return None
        length = _HEADER.unpack_from(self._buffer)[0]
        if self._confined and length > MAX_CONFINED_BYTES:
            raise BrokenMessageError(f"a message of {length} bytes")
        end = _HEADER.size + length
        if len(self._buffer) < end:
            return None
        body = bytes(self._buffer[_HEADER.size : end])
        message: Message = _from_confined(body) if self._confined else marshal.loads(body)
        del self._buffer[:end]
        return message

    def receive(self, read: Callable[[int], bytes]) -> Message | None:
        """The next message, by calls of `read`; None when the other end is gone."""
        while (message := self.take()) is None:
            data = read(READ_BYTES)
            if not data:
                return None
            self.feed(data)
        return message


def _from_confined(body: bytes) -> Message:
    try:
        value = loads(body)
    except (ValueError, RecursionError) as error:
        raise BrokenMessageError(str(error)) from error
    if not isinstance(value, list):
        raise BrokenMessageError("a message that is no list")
    return tuple(value)
