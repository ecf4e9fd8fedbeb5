"""The pool's own thread: it starts workers, buries them, and looks after deadlines."""

from __future__ import annotations

import contextlib
import os
import queue
import tempfile
import threading
from collections.abc import Callable
from concurrent.futures import Future

from birdrl.errors import InfraError
from birdrl.sql.process import WorkerProcess


class Keeper:
    """Starts worker processes and calls `check` every `period_s` seconds.

    A worker asks the kernel to be killed with the *thread* that started it, so all are started by this one
    thread, which lives as long as the pool.
    """

    def __init__(self, start: Callable[[int], WorkerProcess], check: Callable[[], None], period_s: float) -> None:
        """`start` gets the descriptor of the workers' folder. Raises InfraError when there cannot be one."""
        self._start = start
        self._check = check
        self._period_s = period_s
        self._closed = False
        self._closing = threading.Lock()  # no job is put after the last one was taken
        self._folder = _vanished_folder()
        self._jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="birdrl-pool-keeper", daemon=True)
        self._thread.start()

    def start_worker(self) -> Future[WorkerProcess]:
        """A worker to come; the future holds InfraError if it cannot be started."""
        future: Future[WorkerProcess] = Future()

        def job() -> None:
            try:
                if self._closed:
                    raise InfraError("the replica pool is closed")
                future.set_result(self._start(self._folder))
            except Exception as error:  # noqa: BLE001 - handed to whoever waits for the worker
                future.set_exception(error)

        with self._closing:
            if not self._closed:
                self._jobs.put(job)
                return future
        job()
        return future

    def retire(self, worker: Future[WorkerProcess]) -> None:
        """Kill a worker now or as soon as it has started, and reap it without keeping the caller waiting."""
        if worker.done() and worker.exception() is None:
            worker.result().kill()
        self._jobs.put(lambda: _close(worker))

    def close(self) -> None:
        """End the thread, and with it every worker that still runs. Workers asked for from now on fail."""
        with self._closing:
            self._closed = True
            self._jobs.put(None)
        self._thread.join()
        os.close(self._folder)

    def _run(self) -> None:
        while not self._closed:
            with contextlib.suppress(queue.Empty):
                job = self._jobs.get(timeout=self._period_s)
                if job is not None:
                    job()
            self._check()
        with contextlib.suppress(queue.Empty):  # nobody waits in vain for a worker
            while True:
                job = self._jobs.get_nowait()
                if job is not None:
                    job()


def _close(worker: Future[WorkerProcess]) -> None:
    if worker.exception() is None:  # jobs run in order: it has been started
        worker.result().close()


def _vanished_folder() -> int:
    """The descriptor of an empty folder without a name: nothing can be put there, nothing is left behind.

    Made once for all workers, so that replacing a killed one needs no disk.
    """
    path = tempfile.gettempdir()
    try:
        path = tempfile.mkdtemp(prefix="birdrl-")
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        os.rmdir(path)
    except OSError as error:
        raise InfraError(
            f"{path}: cannot make an empty folder for SQL workers ({error.strerror}); free space or set TMPDIR"
        ) from error
    return descriptor
