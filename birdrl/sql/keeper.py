"""The pool's own thread: it starts workers and looks after deadlines."""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future

from birdrl.sql.process import WorkerProcess


class Keeper:
    """Starts worker processes and calls `check` every `period_s` seconds.

    A worker asks the kernel to be killed with the *thread* that started it, so all are started by this one
    thread, which lives as long as the pool.
    """

    def __init__(self, memory_bytes: int, check: Callable[[], None], period_s: float) -> None:
        self._memory_bytes = memory_bytes
        self._check = check
        self._period_s = period_s
        self._jobs: queue.SimpleQueue[Future[WorkerProcess] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="birdrl-pool-keeper", daemon=True)
        self._thread.start()

    def start_worker(self) -> Future[WorkerProcess]:
        """A worker to come; the future holds InfraError if it cannot be started."""
        future: Future[WorkerProcess] = Future()
        self._jobs.put(future)
        return future

    def close(self) -> None:
        """End the thread, and with it every worker that still runs."""
        self._jobs.put(None)
        self._thread.join()

    def _run(self) -> None:
        while True:
            job: Future[WorkerProcess] | None
            with contextlib.suppress(queue.Empty):
                job = self._jobs.get(timeout=self._period_s)
                if job is None:
                    return
                try:
                    job.set_result(WorkerProcess(self._memory_bytes))
                except Exception as error:  # noqa: BLE001 - handed to whoever waits for the worker
                    job.set_exception(error)
            self._check()
