"""The processes of a build. Each works on one database at a time; which one does it makes no difference."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import signal
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from types import TracebackType
from typing import Generic, ParamSpec, Protocol, TypeVar

from birdrl.errors import InfraError
from birdrl.gym.build_steps import BuildSpec, Workshop

_PR_SET_PDEATHSIG = 1

P = ParamSpec("P")
T = TypeVar("T")
Job = TypeVar("Job")

_workshop: Workshop | None = None  # of this process


def _start(spec: BuildSpec, parent: int) -> None:
    """Set a worker process up: it ends with its parent, and Ctrl-C is the parent's to handle."""
    global _workshop
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _workshop = Workshop(spec)


def _call(step: Callable[..., T], *arguments: object) -> T:
    if _workshop is None:
        raise RuntimeError("this process was not set up for a build")
    return step(_workshop, *arguments)


class Hand(Protocol):
    """One worker as its job sees it: runs steps of the workshop, one after the other."""

    def __call__(self, step: Callable[..., T], *arguments: object) -> T: ...


class Crew(Generic[Job]):
    """`workers` processes, or this process alone when one is enough. A context manager."""

    def __init__(self, spec: BuildSpec, workers: int) -> None:
        self._own = Workshop(spec) if workers == 1 else None
        context = multiprocessing.get_context("spawn")
        self._processes = [
            ProcessPoolExecutor(1, mp_context=context, initializer=_start, initargs=(spec, os.getpid()))
            for _ in range(workers if workers > 1 else 0)
        ]
        # Started from here: the kernel ends them when the thread that has started them ends.
        for process in self._processes:
            process.submit(os.getpid)

    def run(self, jobs: Iterable[Job], work: Callable[[Hand, Job], None]) -> None:
        """Do all jobs: `work(hand, job)` calls `hand(step, ...)` for what is to be done in the process.

        The first failure ends the run: no further job is started. Raises what a step raises, InfraError when a
        process dies.
        """
        waiting = deque(jobs)
        if self._own is not None:
            while waiting:
                work(self._here, waiting.popleft())
            return
        failed: list[BaseException] = []

        def serve(process: ProcessPoolExecutor) -> None:
            def hand(step: Callable[..., T], *arguments: object) -> T:
                return process.submit(_call, step, *arguments).result()

            while not failed:
                try:
                    job = waiting.popleft()
                except IndexError:
                    return
                try:
                    work(hand, job)
                except BaseException as error:  # noqa: BLE001 - raised again below, in the caller's thread
                    failed.append(error)

        with ThreadPoolExecutor(len(self._processes)) as threads:
            served = [threads.submit(serve, process) for process in self._processes]
            try:
                for one in served:
                    one.result()
            except BaseException as error:  # Ctrl-C: no further job
                failed.append(error)
                raise
        if failed:
            if isinstance(failed[0], BrokenProcessPool):
                raise InfraError(
                    "a process of the build died; what it had finished is kept, run the same command again to go on"
                ) from failed[0]
            raise failed[0]

    def _here(self, step: Callable[..., T], *arguments: object) -> T:
        if self._own is None:
            raise RuntimeError("this crew works in processes of its own")
        return step(self._own, *arguments)

    def close(self) -> None:
        if self._own is not None:
            self._own.close()
        for process in self._processes:
            process.shutdown(wait=True, cancel_futures=True)

    def __enter__(self) -> Crew[Job]:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()
