"""A sandbox process: one job after the other, each in a fork of this process, which stays as it was."""

from __future__ import annotations

import contextlib
import gc
import importlib
import socket

from birdrl.testcases.confine import ConfinementError, filter_calls, limit_process
from birdrl.testcases.fork import supervise
from birdrl.testcases.job import KINDS, START_S, Job
from birdrl.testcases.wire import Inbox, Message, packed

PREPARING = 5  # times the limit of the prediction's script: what runs before it is ours, not the policy's
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
    gc.freeze()  # forks copy fewer pages
    inbox = Inbox()
    while (message := inbox.receive(sock.recv)) is not None:
        job = Job(*message)
        with contextlib.suppress(BrokenPipeError):  # whoever asked is gone: the next receive ends the loop
            sock.sendall(packed("report", *_work(job, sock)))


def _work(job: Job, sock: socket.socket) -> tuple[list[Message], str]:
    run_s = job.script_s + GRACE_S
    if job.kind == "strict":  # what runs before, the prediction, the tests
        limits = [PREPARING * job.script_s + GRACE_S, run_s, (job.test_s + GRACE_S) * max(1, len(job.tests))]
    else:  # the start, everything
        limits = [START_S, 2 * job.script_s + job.test_s * len(job.tests) + GRACE_S]
    return supervise(lambda send: KINDS[job.kind](job, send), limits, sock)
