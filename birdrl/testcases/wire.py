"""Messages between processes: length-prefixed `marshal` values, plain data in both directions."""

from __future__ import annotations

import marshal
import struct
from collections.abc import Callable
from typing import Any

_HEADER = struct.Struct("<Q")
READ_BYTES = 1 << 20
Message = tuple[Any, ...]


def packed(*message: Any) -> bytes:
    """A message as it travels."""
    body = marshal.dumps(message)
    return _HEADER.pack(len(body)) + body


class Inbox:
    """Puts messages together from the pieces in which they arrive."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> None:
        self._buffer += data

    def take(self) -> Message | None:
        """The first complete message, removed; None while there is none."""
        if len(self._buffer) < _HEADER.size:
            return None
        end = _HEADER.size + _HEADER.unpack_from(self._buffer)[0]
        if len(self._buffer) < end:
            return None
        message: Message = marshal.loads(bytes(self._buffer[_HEADER.size : end]))
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
