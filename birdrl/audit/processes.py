"""One object's methods called many times, here or in several processes, with the results in order."""

from __future__ import annotations

import multiprocessing
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from types import TracebackType
from typing import Any

from birdrl.errors import InfraError

LOOK_AHEAD = 8  # calls at work at a time, however many processes: what is found must not depend on their number

_target: Any = None


class Workers:
    """Calls methods of `target` in `count` processes, each with its own copy, or here for 1. A context manager."""

    def __init__(self, target: Any, count: int) -> None:
        self._target = target
        self._pool = None
        if count > 1:
            context = multiprocessing.get_context("spawn")
            self._pool = ProcessPoolExecutor(count, mp_context=context, initializer=_start, initargs=(target,))

    def in_order(self, method: str, calls: Iterable[tuple[Any, ...]]) -> Iterator[Any]:
        """The results in the order of the calls. A call's arguments are asked for only when the one LOOK_AHEAD before
        it has been consumed. Raises what the method raises, InfraError when a process dies."""
        waiting: deque[Future[Any]] = deque()
        try:
            for arguments in calls:
                waiting.append(self._submit(method, arguments))
                if len(waiting) == LOOK_AHEAD:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        except BrokenProcessPool as error:
            raise InfraError("a worker process died (out of memory?); run again with fewer workers") from error

    def _submit(self, method: str, arguments: tuple[Any, ...]) -> Future[Any]:
        if self._pool is not None:
            return self._pool.submit(_call, method, arguments)
        done: Future[Any] = Future()
        done.set_result(getattr(self._target, method)(*arguments))
        return done

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)


def _start(target: Any) -> None:
    global _target
    _target = target


def _call(method: str, arguments: tuple[Any, ...]) -> Any:
    function: Callable[..., Any] = getattr(_target, method)
    return function(*arguments)
