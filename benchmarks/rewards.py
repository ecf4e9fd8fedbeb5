"""What judging costs: comparison modes and CSMR by size, test cases in the sandbox, a GRPO batch on two cores.

Baselines: comparing results as plain Python sets of rows, which is what EX does; a new interpreter and a copy of the
database for every test case, which is what the public evaluator does; and scoring a batch one answer after the other,
each on a fresh copy of the database.
"""

from __future__ import annotations

import json
import random
import shutil
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tqdm import tqdm

from benchmarks._databases import make_database
from benchmarks._harness import (
    MICROSECONDS,
    Timings,
    bar_plot,
    machine,
    markdown,
    parser,
    report,
    shown_ratio,
)
from birdrl.compare import MODES, Criteria, ResultTable
from birdrl.compare.critic_text import MAX_ROWS
from birdrl.errors import BirdrlError, InputError
from birdrl.files import sha256_file
from birdrl.gym.instance import ResultTest
from birdrl.params import CsmrParams
from birdrl.rewards.csmr import csmr
from birdrl.rewards.execution import ExecutionScorer
from birdrl.scoring.tasks import Task
from birdrl.sql.pool import PoolConfig, ReplicaPool
from birdrl.sql.results import StatementResult
from birdrl.testcases import DEFAULT_TEST, SandboxConfig, TestSandbox

SIZES = (10, 100, 1_000, 10_000, 100_000)
TESTS_PER_ANSWER = (1, 4)
GROUPS = SAMPLES = 16
CORES = 2
MEGABYTES = 1
EPILOG = """\
examples:
  python -m benchmarks.rewards            about two minutes
  python -m benchmarks.rewards --quick    some seconds"""

# The public evaluator's way: an interpreter of its own, a copy of the database, prediction and gold on one connection.
_PROCESS_PER_TEST = """
import json, shutil, sqlite3, sys
template, copy, pred, sol = json.loads(sys.argv[1])
shutil.copyfile(template, copy)
connection = sqlite3.connect(copy)
connection.execute(pred).fetchall()
left, right = connection.execute(pred).fetchall(), connection.execute(sol).fetchall()
assert left and right and {tuple(r) for r in left} == {tuple(r) for r in right}
"""


# --- comparing


def result_of(rows: list[tuple[Any, ...]]) -> StatementResult:
    return StatementResult("", "ok", tuple(f"c{i}" for i in range(len(rows[0]))), tuple(rows))


def rows_of(count: int, rng: random.Random) -> list[tuple[Any, ...]]:
    """A key, a name, an amount, a small number and a day."""
    return [
        (i, f"name {rng.randrange(count)}", rng.random() * 1000, rng.randrange(50), f"2024-05-{1 + i % 31:02d}")
        for i in range(count)
    ]


def comparing(sizes: tuple[int, ...], seconds: float) -> dict[str, dict[int, float]]:
    """Median seconds of one comparison of equal tables in another order of rows: {what: {rows: seconds}}."""
    found: dict[str, dict[int, float]] = {}
    for size in tqdm(sizes, desc="comparing", unit="size"):
        rng = random.Random(size)
        rows = rows_of(size, rng)
        first, rest = rows[:MAX_ROWS], rows[MAX_ROWS:]  # the public evaluator reads no further
        shuffled = rng.sample(first, len(first)) + rest
        gold, pred = ResultTable.from_rows(rows), ResultTable.from_rows(shuffled)
        wrong = result_of([(row[0], row[1], row[2], row[3] + 1, row[4]) for row in shuffled])
        works: dict[str, Callable[[], Any]] = {BASELINES[0]: lambda: set(pred.rows) == set(gold.rows)}  # noqa: B023
        for name, mode in MODES.items():
            works[name] = lambda mode=mode: _must(mode.equal(pred, gold, Criteria()))  # noqa: B023
        works["CSMR, right"] = lambda: _must(csmr(result_of(shuffled), result_of(rows), CsmrParams()).perfect)  # noqa: B023
        works["CSMR, one column wrong"] = lambda: _must(csmr(wrong, result_of(rows), CsmrParams()).matched == 4)  # noqa: B023
        for name, work in works.items():
            found.setdefault(name, {})[size] = _median(work, seconds)
    return found


def _must(holds: bool) -> None:
    if not holds:
        raise RuntimeError("the comparison said the wrong thing")


def _median(work: Callable[[], Any], seconds: float) -> float:
    timings, end = Timings(), time.perf_counter() + seconds
    while len(timings) < 3 or time.perf_counter() < end:
        timings.time(work)
    return timings.median


# --- test cases


def cases_per_second(work: Path, template: Path, seconds: float) -> dict[str, float]:
    """Test cases per second, one core: {way: rate}."""
    sol = "SELECT name, price FROM products WHERE price > 5"
    pred = "SELECT p.name, p.price FROM products AS p WHERE 5 < p.price"
    gold = [tuple(row) for row in sqlite3.connect(template).execute(sol)]
    values = {"before": [], "pred": [pred], "sol": [sol], "conditions": {}}
    rates = {}
    with TestSandbox(SandboxConfig()) as sandbox:

        def strict(tests: int) -> None:
            outcome = sandbox.strict(template, gold=(gold, gold), tests=[DEFAULT_TEST] * tests, **values)
            _must(all(passed for passed, _ in outcome.tests) and len(outcome.tests) == tests)

        def compat(tests: int) -> None:
            outcome = sandbox.compat(template, tests=[DEFAULT_TEST] * tests, **values)
            _must(all(passed for passed, _ in outcome.tests) and len(outcome.tests) == tests)

        strict(1)  # starts the process
        for count in TESTS_PER_ANSWER:
            rates[f"sandbox, strict, {count} per answer"] = count / _median(lambda: strict(count), seconds)  # noqa: B023
            rates[f"sandbox, compat, {count} per answer"] = count / _median(lambda: compat(count), seconds)  # noqa: B023
    arguments = json.dumps([str(template), str(work / "copy.sqlite"), pred, sol])
    command = [sys.executable, "-c", _PROCESS_PER_TEST, arguments]
    rates[BASELINES[1]] = 1 / _median(lambda: subprocess.run(command, check=True), seconds)
    return rates


# --- a batch


class OneDatabase:
    def __init__(self, path: Path) -> None:
        self._path, self._hash = path, sha256_file(path)

    def path(self, db_id: str) -> Path:
        return self._path

    def sha256(self, db_id: str) -> str:
        return self._hash


def batch_of() -> list[tuple[Task, list[str]]]:
    """16 instances x 16 answers: right ones, wrong ones, ones that do not run."""
    batch = []
    for number in range(GROUPS):
        sol = f"SELECT status, COUNT(*), SUM(total) FROM orders WHERE customer_id % {GROUPS} = {number} GROUP BY status"
        setup = ["UPDATE orders SET status = 'paid' WHERE id % 7 = 0"]
        task = Task(f"q{number}", "db", (sol,), test_cases=(ResultTest(), ResultTest(setup_sql=setup)))
        answers = [sol, sol.replace("SUM(total)", "TOTAL(total)"), sol.replace("= ", "> "), sol.replace("FROM", "FORM")]
        batch += [(task, [f"{answers[sample % 4]} -- {sample}"]) for sample in range(SAMPLES)]
    return batch


def scored_by_birdrl(template: Path, batch: list[tuple[Task, list[str]]]) -> tuple[float, int]:
    """Seconds for the batch and how many answers earn 1, references computed anew."""
    with ReplicaPool(PoolConfig(workers=CORES)) as pool, ThreadPoolExecutor(CORES) as threads:
        for number in range(CORES):
            pool.acquire(f"warm{number}", template).release()
        scorer = ExecutionScorer(OneDatabase(template), pool)
        start = time.perf_counter()
        rewards = list(threads.map(lambda item: scorer.score(*item).reward, batch))
        return time.perf_counter() - start, rewards.count(1.0)


def scored_on_copies(work: Path, template: Path, batch: list[tuple[Task, list[str]]]) -> tuple[float, int]:
    """The same with a fresh copy of the database for each side of each test, one answer after the other."""
    right = 0
    start = time.perf_counter()
    for task, answer in batch:
        passed = 0
        for test in task.test_cases:
            try:
                sides = [
                    _on_a_copy(work, template, getattr(test, "setup_sql", []), sql) for sql in (*task.sol_sql, *answer)
                ]
            except sqlite3.Error:
                break
            passed += set(sides[0]) == set(sides[1])
        right += passed == len(task.test_cases)
    return time.perf_counter() - start, right


def _on_a_copy(work: Path, template: Path, setup: list[str], sql: str) -> list[tuple[Any, ...]]:
    copy = work / "side.sqlite"
    shutil.copyfile(template, copy)
    connection = sqlite3.connect(copy)
    try:
        for statement in setup:
            connection.execute(statement)
        return connection.execute(sql).fetchall()
    finally:
        connection.close()


# --- report

BASELINES = ("sets of rows (baseline)", "a process per test case (baseline)", "a copy per side, in turn (baseline)")


def run(work: Path, quick: bool) -> tuple[dict[str, Any], str, dict[str, dict[str, float]]]:
    """(figures, tables, bars of the plot)"""
    seconds = 0.05 if quick else 1.0
    sizes = SIZES[:3] if quick else SIZES
    compared = comparing(sizes, seconds)
    template = make_database(work / "template.sqlite", MEGABYTES)
    rates = cases_per_second(work, template, seconds)
    batch = batch_of()
    rounds = 1 if quick else 5
    ours = [scored_by_birdrl(template, batch) for _ in tqdm(range(rounds), desc="batch")]
    theirs = [scored_on_copies(work, template, batch) for _ in tqdm(range(1 if quick else 2), desc="baseline")]
    if {right for _, right in (*ours, *theirs)} != {GROUPS * SAMPLES // 2}:
        raise RuntimeError(f"answers that earn 1: {ours} and {theirs}; half of them should")
    ours_s, theirs_s = statistics.median(s for s, _ in ours), statistics.median(s for s, _ in theirs)
    text = "\n\n".join(
        [
            f"## Comparing equal tables of five columns, microseconds (ratio to {BASELINES[0]})",
            comparison_table(compared, sizes),
            f"## Test cases per second, one sandbox process, database of {MEGABYTES} MB",
            markdown(
                ["way", "per second", "ratio"],
                [[way, f"{rate:,.0f}", shown_ratio(rate / rates[BASELINES[1]])] for way, rate in rates.items()],
            ),
            f"## A GRPO batch of {GROUPS} x {SAMPLES} answers, two tests each, {CORES} cores",
            markdown(
                ["way", "seconds", "answers per second", "ratio"],
                [
                    ["birdrl", f"{ours_s:.2f}", f"{len(batch) / ours_s:,.0f}", shown_ratio(theirs_s / ours_s)],
                    [BASELINES[2], f"{theirs_s:.2f}", f"{len(batch) / theirs_s:,.0f}", "1x"],
                ],
            ),
        ]
    )
    result = {
        "machine": machine(work),
        "baselines": BASELINES,
        "comparing_us": {
            name: {str(size): round(s * MICROSECONDS, 2) for size, s in of.items()} for name, of in compared.items()
        },
        "test_cases_per_second": {way: round(rate, 1) for way, rate in rates.items()},
        "batch_seconds": {"birdrl": round(ours_s, 4), BASELINES[2]: round(theirs_s, 4)},
    }
    bars = {f"{size:,} rows": {name: of[size] * MICROSECONDS for name, of in compared.items()} for size in sizes}
    return result, text, bars


def comparison_table(compared: dict[str, dict[int, float]], sizes: tuple[int, ...]) -> str:
    baseline = compared[BASELINES[0]]
    return markdown(
        ["rows", *(f"{size:,}" for size in sizes)],
        [
            [name, *(f"{of[size] * MICROSECONDS:,.0f} ({shown_ratio(of[size] / baseline[size])})" for size in sizes)]
            for name, of in compared.items()
        ],
    )


def main(argv: list[str] | None = None) -> int:
    options = parser(__doc__ or "", EPILOG).parse_args(argv)
    try:
        with tempfile.TemporaryDirectory(prefix="birdrl-bench-") as folder:
            result, text, bars = run(Path(folder), options.quick)
        report("rewards", options.out, result | {"quick": options.quick}, text)
        if not options.no_plot:
            bar_plot(
                options.out / "rewards.png",
                "Comparing two tables of five columns (shorter is better)",
                "microseconds",
                bars,
            )
    except (InputError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except BirdrlError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
