"""A real HTTP server that speaks the chat endpoint's protocol and answers from a script."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal

Reply = str | int | float | tuple[int, str] | None


class ChatServer:
    """Each request takes the next reply; the last one is repeated.

    A text is the assistant's message, None a message without content, a number an HTTP status, a pair (status, body)
    a whole response, a float seconds to sleep before answering "late". With a `pause`, a response comes byte by byte,
    so many seconds apart: from its first byte on, or from that of its content.
    """

    def __init__(
        self, *script: Reply, usage: int | None = 10, pause: float = 0.0, from_byte: Literal["head", "content"] = "head"
    ) -> None:
        self.script, self.usage = list(script), usage
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self._lock = threading.Lock()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                status, text = outer.answer(self.path, body, {k.lower(): v for k, v in self.headers.items()})
                data = text.encode()
                kind = "application/json" if text.startswith("{") else "text/html"
                head = f"HTTP/1.0 {status} .\r\nContent-Type: {kind}\r\nContent-Length: {len(data)}\r\n\r\n".encode()
                whole = head + data
                quick = 0 if pause and from_byte == "head" else len(head) if pause else len(whole)
                self.wfile.write(whole[:quick])
                with suppress(ConnectionError):  # the client has had enough
                    for byte in whole[quick:]:
                        time.sleep(pause)
                        self.wfile.write(bytes([byte]))

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/v1"

    def answer(self, path: str, body: dict[str, Any], headers: dict[str, str]) -> tuple[int, str]:
        if path != "/v1/chat/completions":
            return 404, "{}"
        with self._lock:
            self.requests.append(body)
            self.headers.append(headers)
            reply = self.script.pop(0) if len(self.script) > 1 else self.script[0]
        if isinstance(reply, tuple):
            return reply
        if isinstance(reply, int):
            return reply, json.dumps({"error": {"message": "scripted failure"}})
        if isinstance(reply, float):
            time.sleep(reply)
            reply = "late"
        message = {"role": "assistant", "content": reply}
        completion: dict[str, Any] = {
            "id": "c", "object": "chat.completion", "created": 0, "model": body["model"],
            "choices": [{"index": 0, "finish_reason": "stop", "message": message}],
        }  # fmt: skip
        if self.usage is not None:
            completion["usage"] = {"prompt_tokens": 4, "completion_tokens": self.usage - 4, "total_tokens": self.usage}
        return 200, json.dumps(completion)

    def __enter__(self) -> ChatServer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


ServerFactory = Callable[..., ChatServer]
