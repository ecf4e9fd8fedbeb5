"""What a query costs, in steps of SQLite's machine: unlike seconds, the same on every machine and at any load."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path

import apsw

from birdrl.gym.select_check import READING
from birdrl.gym.templates import open_template

MAX_STEPS = 20_000_000  # about half a second; issues and solutions beyond would be cut off in rollouts
_STEPS_PER_CALL = 20_000
_KEPT = 8  # open templates


class StepCounter:
    """Runs queries on templates until they have taken too many steps. Thread-safe: one at a time."""

    def __init__(self, max_steps: int = MAX_STEPS) -> None:
        self.max_steps = max_steps
        self._left = 0
        self._lock = threading.Lock()
        self._connections: OrderedDict[Path, apsw.Connection] = OrderedDict()

    def too_costly(self, template: Path, queries: Sequence[str]) -> bool:
        """Whether one of the queries takes more than `max_steps`. One that fails, or would write, costs nothing."""
        with self._lock:
            connection = self._connection(template)
            return any(self._costly(connection, sql) for sql in queries)

    def _costly(self, connection: apsw.Connection, sql: str) -> bool:
        self._left = self.max_steps
        try:
            for _ in connection.execute(sql, can_cache=False):
                pass
        except apsw.InterruptError:
            return True
        except (apsw.Error, UnicodeDecodeError):  # an issue that is meant to fail; the gates look at it
            return False
        return False

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def _connection(self, template: Path) -> apsw.Connection:
        connection = self._connections.pop(template, None)
        if connection is None:
            connection = open_template(template)
            connection.set_progress_handler(self._step, _STEPS_PER_CALL)
            connection.authorizer = _only_read  # a language model's SQL runs here, too
        self._connections[template] = connection
        if len(self._connections) > _KEPT:
            self._connections.popitem(last=False)[1].close()
        return connection

    def _step(self) -> bool:
        self._left -= _STEPS_PER_CALL
        return self._left < 0


def _only_read(action: int, _one: str | None, _two: str | None, _db: str | None, _by: str | None) -> int:
    return apsw.SQLITE_OK if action in READING else apsw.SQLITE_DENY
