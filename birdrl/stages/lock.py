"""One run at a time in a checkout.

The lock is an flock on `.birdrl/lock`. Whoever holds it passes a token on by the environment, so that the stages
it starts may enter; the supervisor of those stages keeps the same descriptor open, so that after a kill the lock is
free only when nothing of the killed run is left.
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from birdrl.errors import InputError

LOCK = Path(".birdrl/lock")
TOKEN = "BIRDRL_LOCK_TOKEN"
_WAIT_FOR_DYING_S = 30.0


@contextmanager
def checkout_lock(what: str, root: Path = Path()) -> Iterator[int | None]:
    """Hold the checkout for `what` (shown to whoever finds it taken).

    Yields the descriptor to hand to a supervisor, or None where a parent run holds the lock already.
    Raises InputError when another run is at work; one that has just been killed is waited for.
    """
    path = root / LOCK
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        if not _acquire(descriptor, path):
            yield None
            return
        token = secrets.token_hex(8)
        _write(descriptor, {"pid": os.getpid(), "what": what, "token": token})
        os.environ[TOKEN] = token
        try:
            yield descriptor
        finally:
            os.environ.pop(TOKEN, None)
            os.ftruncate(descriptor, 0)
    finally:
        os.close(descriptor)


def _acquire(descriptor: int, path: Path) -> bool:
    """True when the lock is ours now, False when a parent run holds it for us."""
    deadline = time.monotonic() + _WAIT_FOR_DYING_S
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            holder = _read(descriptor)
        if holder.get("token") and holder["token"] == os.environ.get(TOKEN):
            return False
        if _alive(holder.get("pid")) or time.monotonic() > deadline:
            who = f"{holder['what']} (process {holder['pid']})" if holder else "another run"
            raise InputError(
                f"{path}: this checkout is in use by {who}; wait for it to end or stop it, or work in a second clone"
            )
        time.sleep(0.2)


def _alive(pid: object) -> bool:
    """A zombie counts as dead: it was killed and its parent has not looked yet."""
    try:
        os.kill(int(str(pid)), 0)
    except (ProcessLookupError, ValueError):
        return False
    except PermissionError:
        return True
    stat = Path(f"/proc/{pid}/stat")
    return not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] != "Z"


def _read(descriptor: int) -> dict[str, str]:
    text = os.pread(descriptor, 4096, 0)
    try:
        holder: dict[str, str] = json.loads(text)
    except json.JSONDecodeError:  # the holder is just writing or leaving
        return {}
    return holder


def _write(descriptor: int, holder: dict[str, object]) -> None:
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, json.dumps(holder).encode(), 0)
