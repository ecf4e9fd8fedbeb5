"""Messages between a pool and its workers: length-prefixed `marshal` values over a socket.

Plain data in both directions, so neither side can make the other run code.
"""

from __future__ import annotations

import marshal
import socket
import struct
from array import array
from collections.abc import Sequence
from typing import Any

_HEADER = struct.Struct("<Q")
_READ_BYTES = 1 << 16
_FILES_BYTES = socket.CMSG_LEN(array("i").itemsize)  # one file may travel with a message


def pack_message(*message: Any) -> bytes:
    """A message as it goes over the socket."""
    body = marshal.dumps(message)
    return _HEADER.pack(len(body)) + body


class Channel:
    """One end of a stream socket. Not thread-safe. `files`: descriptors that came with the latest messages."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.files: list[int] = []
        self._received = bytearray()

    @property
    def pending(self) -> bool:
        """Whether (part of) a message is here already, so that the socket need not become readable."""
        return bool(self._received)

    def send(self, message: bytes, files: Sequence[int] = ()) -> None:
        """Send packed messages, with copies of `files`. Raises OSError."""
        if files:
            sent = socket.send_fds(self.sock, [message], files)
            message = message[sent:]
        self.sock.sendall(message)

    def receive(self) -> tuple[Any, ...] | None:
        """The next message; None when the other end is gone. Raises OSError."""
        buffer = self._received
        while len(buffer) < _HEADER.size:
            data, attached, _, _ = self.sock.recvmsg(_READ_BYTES, _FILES_BYTES)
            if not data:
                return None
            for _, _, files in attached:
                self.files += array("i", files)
            buffer += data
        size = _HEADER.size + _HEADER.unpack_from(buffer)[0]
        have = len(buffer)
        if have < size:
            buffer += bytes(size - have)
            with memoryview(buffer) as view:
                while have < size:
                    count = self.sock.recv_into(view[have:])
                    if count == 0:
                        return None
                    have += count
        with memoryview(buffer) as view:
            message: tuple[Any, ...] = marshal.loads(view[_HEADER.size : size])
        del buffer[:size]
        return message
