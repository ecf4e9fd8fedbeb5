"""A sandbox process: one job after the other, each in a fork of this process, which stays as it was."""

from __future__ import annotations

import contextlib
import importlib
import socket

from birdrl.rewards.testcases.confine import ConfinementError, filter_calls, limit_process
from birdrl.rewards.testcases.fork import supervise
from birdrl.rewards.testcases.job import KINDS, Job
from birdrl.rewards.testcases.wire import Inbox, Message, packed

GRACE_S = 1.0  # for starting a fork and moving a message
# Loaded before the fork, so that tests which import them share the pages.
_COMMON = ("collections", "datetime", "decimal", "itertools", "json", "math", "random", "re", "statistics", "string")


def main(fd: int) -> None:
    """Serve until the other end closes. Replies ("report", messages, ending) to each job."""
    sock = socket.socket(fileno=fd)
    for name in _COMMON:
        importlib.import_module(name)
    try:
        limit_process()
        filter_calls(serving=True)
    except (ConfinementError, OSError) as error:
        sock.sendall(packed("refused", str(error)))
        return
    sock.sendall(packed("ready"))
    inbox = Inbox()
    while (message := inbox.receive(sock.recv)) is not None:
        job = Job(*message)
        with contextlib.suppress(BrokenPipeError):  # whoever asked is gone: the next receive ends the loop
            sock.sendall(packed("report", *_work(job, sock)))


def _work(job: Job, sock: socket.socket) -> tuple[list[Message], str]:
    # Preprocessing and the prediction each have a script's time, the tests what they may take together.
    tests_s = job.test_s * max(1, len(job.tests)) + GRACE_S
    run_s = 2 * job.script_s + GRACE_S
    limits = [run_s, tests_s] if job.kind == "strict" else [run_s + tests_s]
    return supervise(lambda send: KINDS[job.kind](job, send), limits, sock)
