"""Replicas inside a sandbox process."""

from __future__ import annotations

import time
from pathlib import Path

import apsw

from birdrl.sql.overlay import OverlayStorage
from birdrl.sql.session import PROGRESS_OPS, Session
from birdrl.sql.storage import Template


class Replica:
    """A session's connection for code that runs statements one by one: `limit_s` seconds each."""

    def __init__(self, session: Session, limit_s: float) -> None:
        self.connection: apsw.Connection = session.connection
        self.policy = session.policy
        self.limit_s = limit_s
        self._deadline = float("inf")
        self.connection.set_progress_handler(lambda: time.monotonic() > self._deadline, PROGRESS_OPS)

    def start_statement(self) -> None:
        """The time of the next statement begins."""
        self._deadline = time.monotonic() + self.limit_s


def open_session(template: str, overlay_bytes: int) -> Session:
    """A session on a pristine replica, under the rules that hold for the policy's SQL everywhere."""
    opened = Template(Path(template))
    return Session(opened, overlay_bytes, OverlayStorage(opened, overlay_bytes))


def copy_of(session: Session) -> Session:
    """A session on another replica with the same committed content."""
    if not isinstance(session.storage, OverlayStorage):
        raise TypeError("only an overlay can be copied page by page")
    source = session.storage.main
    storage = OverlayStorage(session.template, source.quota.limit)
    target = storage.main
    target.blocks = dict(source.blocks)
    target.size, target.base_size = source.size, source.base_size
    target.quota.used = target.block * len(target.blocks)
    return Session(session.template, source.quota.limit, storage)
