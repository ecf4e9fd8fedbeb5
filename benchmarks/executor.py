"""SQL executions per second, what isolation and policy cost, and how fast a statement is killed.

The statements are small reads, another text every time, so that preparing and the policy's callbacks count. Compared
are a bare connection, a session in this process, a session in its worker process, many such sessions at once, and the
baseline of most public environments: a new process and a new connection for every query.
"""

from __future__ import annotations

import multiprocessing
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import apsw
from tqdm import tqdm

from benchmarks._databases import make_database
from benchmarks._harness import (
    MICROSECONDS,
    Timings,
    bar_plot,
    machine,
    markdown,
    memory_of,
    parser,
    report,
    shown_bytes,
    shown_ratio,
    shown_us,
)
from birdrl.errors import BirdrlError, InfraError, InputError
from birdrl.sql.lease import KILL_GRACE_S
from birdrl.sql.overlay import OverlayStorage
from birdrl.sql.policy import Policy
from birdrl.sql.pool import PoolConfig, ReplicaPool
from birdrl.sql.session import PROGRESS_OPS, Session
from birdrl.sql.storage import Template

TARGET_PER_WORKER = 4_000  # small executions per second
MEGABYTES = 4
QUOTA_BYTES = 64 << 20
TIMEOUT_S = 60.0
KILL_LIMIT_S = 0.2
SESSIONS = (1, 16, 64)
# One opcode of many seconds: neither a progress handler nor an interrupt stops it.
UNSTOPPABLE = "SELECT instr(hex(zeroblob(499000)), hex(zeroblob(240000)) || '1')"

EPILOG = """\
examples:
  python -m benchmarks.executor            about a minute
  python -m benchmarks.executor --quick    some seconds

Concurrent sessions are driven by a thread each, in one process: with more sessions than processors the total is what
the machine gives, not sessions times one worker's rate."""

Execute = Callable[[str], Any]


def lookups(first: int, count: int) -> Iterator[str]:
    """Small reads by key."""
    for number in range(first, first + count):
        yield f"SELECT id, name, city FROM customers WHERE id = {1 + number % 500}"


@contextmanager
def bare(template: Path) -> Iterator[Execute]:
    """A plain read-only connection on the file: SQLite and nothing else."""
    connection = apsw.Connection(f"file:{template}?mode=ro", flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)
    yield lambda sql: connection.execute(sql).fetchall()
    connection.close()


@contextmanager
def on_overlay(template: Path, *, policy: bool) -> Iterator[Execute]:
    """A plain connection on a copy-on-write replica, with or without the policy (limits, authorizer, clock)."""
    mapped = Template(template)
    storage = OverlayStorage(mapped, QUOTA_BYTES)
    connection = storage.connect()
    if policy:
        deadline = time.monotonic() + 1e6
        Policy().apply(connection)
        connection.set_progress_handler(lambda: time.monotonic() > deadline, PROGRESS_OPS)
    yield lambda sql: connection.execute(sql).fetchall()
    connection.close()
    storage.close()
    mapped.close()


@contextmanager
def session(template: Path) -> Iterator[Execute]:
    """Our session in this process: replica, policy, splitting, limits, results."""
    mapped = Template(template)
    own = Session(mapped, QUOTA_BYTES)
    yield lambda sql: _require_ok(list(own.execute(sql, TIMEOUT_S, TIMEOUT_S, 10_000)))
    own.close()
    mapped.close()


@contextmanager
def worker(template: Path) -> Iterator[Execute]:
    """Our session in its worker process."""
    with ReplicaPool(PoolConfig(workers=1)) as pool, pool.acquire("one", template) as lease:
        yield lambda sql: _require_ok(lease.execute(sql))


@contextmanager
def process_per_query(template: Path) -> Iterator[Execute]:
    """The usual baseline: fork, connect, run, send back, join."""
    context = multiprocessing.get_context("fork")

    def execute(sql: str) -> Any:
        ours, theirs = context.Pipe(duplex=False)
        child = context.Process(target=_answer, args=(theirs, str(template), sql))
        child.start()
        theirs.close()
        rows = ours.recv()
        child.join()
        ours.close()
        return rows

    yield execute


def _answer(pipe: Any, path: str, sql: str) -> None:
    connection = apsw.Connection(f"file:{path}?mode=ro", flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)
    pipe.send(connection.execute(sql).fetchall())
    pipe.close()


OVERLAY = "on an overlay, no policy, in process"
POLICY = "on an overlay with the policy, in process"
WORKER = "a session in its worker"
BASELINE = "a process per query"
LAYERS = (
    "the overlay",
    "the policy",
    "the session (splitting, limits, results)",
    "the worker",
)  # each on the one before
# Name, how to get one, executions a round relative to the others.
ONE_BY_ONE: tuple[tuple[str, Callable[[Path], Any], float], ...] = (
    ("a bare connection, in process", bare, 1.0),
    (OVERLAY, lambda template: on_overlay(template, policy=False), 1.0),
    (POLICY, lambda template: on_overlay(template, policy=True), 1.0),
    ("a session, in process", session, 1.0),
    (WORKER, worker, 1.0),
    (BASELINE, process_per_query, 0.02),
)


def one_by_one(template: Path, rounds: int, per_round: int) -> dict[str, Timings]:
    """Durations of single executions, the variants taking turns."""
    timings = {name: Timings() for name, _, _ in ONE_BY_ONE}
    with ExitStack() as stack:
        variants = [(name, stack.enter_context(make(template)), share) for name, make, share in ONE_BY_ONE]
        for _, execute, _ in variants:
            for sql in lookups(0, 20):
                execute(sql)
        for number in tqdm(range(rounds), desc="one by one", unit="round"):
            for name, execute, share in variants:
                for sql in lookups(number * per_round, max(2, round(per_round * share))):
                    timings[name].time(lambda execute=execute, sql=sql: execute(sql))
    return timings


def concurrent_rates(template: Path, sessions: int, rounds: int, per_session: int) -> list[float]:
    """Executions per second of `sessions` sessions together, once a round."""
    rates = []
    with ReplicaPool(PoolConfig(workers=sessions)) as pool, ThreadPoolExecutor(sessions) as threads:
        leases = [pool.acquire(f"session-{number}", template) for number in range(sessions)]

        def work(number: int) -> None:
            for sql in lookups(number, per_session):
                _require_ok(leases[number].execute(sql))

        list(threads.map(work, range(sessions)))
        for _ in tqdm(range(rounds), desc=f"{sessions} sessions", unit="round"):
            start = time.perf_counter()
            list(threads.map(work, range(sessions)))
            rates.append(sessions * per_session / (time.perf_counter() - start))
        for lease in leases:
            lease.release()
    return rates


def kills(template: Path, count: int) -> tuple[Timings, Timings]:
    """(delay, next lease): from a statement's limit to its answer, and from there to a pristine replica."""
    delay, again = Timings(), Timings()
    with ReplicaPool(PoolConfig(workers=1)) as pool:
        for number in tqdm(range(count), desc="kills", unit="kill"):
            lease = pool.acquire(f"kill-{number}", template)
            start = time.perf_counter()
            results = lease.execute(UNSTOPPABLE, timeout_s=KILL_LIMIT_S)
            delay.seconds.append(time.perf_counter() - start - KILL_LIMIT_S)
            if results[-1].status != "killed":
                raise InfraError(f"a statement that cannot be stopped ended as {results[-1].status}")
            lease.release()
            with again.time(lambda number=number: pool.acquire(f"after-{number}", template)) as lease:
                _require_ok(lease.execute("SELECT 1"))
    return delay, again


def _require_ok(results: list[Any]) -> list[Any]:
    if not results[-1].ok:
        raise InfraError(f"a benchmark statement failed: {results[-1].message}")
    return results


def executions_table(timings: dict[str, Timings], rates: dict[int, float]) -> str:
    """Rates; ratios are against the process per query."""
    baseline = timings[BASELINE].median
    rows = [
        [name, shown_us(timing), f"{1 / timing.median:,.0f}", shown_ratio(baseline / timing.median)]
        for name, timing in timings.items()
    ]
    rows += [
        [f"{count} session{'s' if count > 1 else ''} at once", "-", f"{rate:,.0f}", shown_ratio(rate * baseline)]
        for count, rate in rates.items()
    ]
    return markdown(["small lookups", "one execution p50 / p99, us", "executions/s", f"against {BASELINE}"], rows)


def notes(timings: dict[str, Timings], delay: Timings, again: Timings) -> str:
    """What the layers cost, and how killing goes."""
    us = [timing.median * MICROSECONDS for timing in timings.values()]
    costs = [f"{name} {more - less:.1f} us" for name, less, more in zip(LAYERS, us, us[1:], strict=False)]
    lines = [
        f"One worker: {1 / timings[WORKER].median:,.0f} executions a second (target {TARGET_PER_WORKER:,}).",
        f"What each layer adds to a statement: {', '.join(costs)}.",
        f"Killing what cannot be stopped: the answer comes {delay.median * 1e3:.0f} ms after the limit (largest "
        f"{max(delay.seconds) * 1e3:.0f} ms), {KILL_GRACE_S * 1e3:.0f} ms of them grace; the next replica takes "
        f"{again.median * 1e3:.1f} ms.",
        f"This process, which the baseline forks, has {shown_bytes(memory_of(os.getpid())[1])} resident.",
    ]
    return "\n".join(f"- {line}" for line in lines)


def run(work: Path, quick: bool) -> tuple[dict[str, Any], str, dict[str, dict[str, float]]]:
    """(figures, tables, bars of the plot)"""
    template = make_database(work / "template.sqlite", MEGABYTES)
    timings = one_by_one(template, rounds=4 if quick else 20, per_round=50 if quick else 500)
    rates = {}
    for count in SESSIONS[:2] if quick else SESSIONS:
        found = concurrent_rates(template, count, rounds=2 if quick else 9, per_session=20 if quick else 300)
        rates[count] = statistics.median(found)
    delay, again = kills(template, 2 if quick else 20)
    text = "\n\n".join(["## Executions", executions_table(timings, rates), notes(timings, delay, again)])
    result = {
        "machine": machine(work),
        "baseline": BASELINE,
        "one_by_one": {name: timing.summary() for name, timing in timings.items()},
        "concurrent_per_second": {str(count): round(rate, 1) for count, rate in rates.items()},
        "per_second_of_one_worker": round(1 / timings[WORKER].median, 1),
        "target_per_second_of_one_worker": TARGET_PER_WORKER,
        "policy_us": round((timings[POLICY].median - timings[OVERLAY].median) * MICROSECONDS, 2),
        "kill_delay": delay.summary(),
        "lease_after_kill": again.summary(),
    }
    per_second = {name: 1 / timing.median for name, timing in timings.items()}
    per_second |= {f"{count} sessions": rate for count, rate in rates.items()}
    return result, text, {name: {"executions per second": rate} for name, rate in per_second.items()}


def main(argv: list[str] | None = None) -> int:
    options = parser(__doc__ or "", EPILOG).parse_args(argv)
    try:
        with tempfile.TemporaryDirectory(prefix="birdrl-bench-") as folder:
            result, text, bars = run(Path(folder), options.quick)
        report("executor", options.out, result | {"quick": options.quick}, text)
        if not options.no_plot:
            bar_plot(options.out / "executor.png", "Small lookups", "executions per second", bars)
    except (InputError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except BirdrlError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
