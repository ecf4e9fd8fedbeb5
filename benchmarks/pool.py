"""Table 3 of BIRD-RL on this machine: what it costs to give every trajectory a database of its own.

A trajectory leases a replica, runs three SELECTs and, in 9.25 % of the cases, one change, and releases it. Two tables
a size: strategies in one process, where only the replica counts, and the same strategies in killable worker
processes. Every ratio is against the first row of its table. Beside the bytes written stands what the I/O model of
Appendix D.2 predicts for the trajectories and resets that were run.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tqdm import tqdm

from benchmarks import _strategies as strategies
from benchmarks._databases import MUTATIONS, make_database, require_space, selects
from benchmarks._harness import (
    MICROSECONDS,
    Timings,
    bar_plot,
    machine,
    markdown,
    parser,
    report,
    shown_bytes,
    shown_ratio,
    shown_us,
)
from benchmarks._idle import idle_sessions, idle_text
from birdrl.errors import BirdrlError, InfraError, InputError
from birdrl.sql.io_model import lifecycle_io, reset_factor

MUTATION_SHARE = 0.0925  # of trajectories (BIRD-RL, section 5)
TARGETS = {1.0: 50, 50.0: 500, 400.0: 2000}  # overlay against a fresh copy, by megabytes
ROUNDS = 4  # strategies take turns, so that a slow minute of the machine hits them all
STORED_REPLICAS = 64
WARM_UP = 2
COUNTED = ("trajectories/s", "written per trajectory", "predicted")

EPILOG = """\
examples:
  python -m benchmarks.pool                      1, 50 and 400 MB, about 4 minutes
  python -m benchmarks.pool --quick              1 and 4 MB, some seconds
  python -m benchmarks.pool --sizes 200 --work /mnt/scratch

Reading it: files are in the page cache and copies are not synced to disk, which favours copying: on a cold or
full disk a copy costs more and an overlay the same. With few trajectories the 99th percentile is the maximum."""

# A replica that shows what an earlier trajectory did is not pristine.
PRISTINE = """SELECT (SELECT MAX(id) FROM orders), (SELECT SUM(total) FROM orders WHERE customer_id = 5),
(SELECT COUNT(*) FROM items WHERE order_id = 7), (SELECT COUNT(*) FROM scratch),
(SELECT COUNT(*) FROM sqlite_schema), (SELECT COUNT(*) FROM pragma_table_info('scratch'))"""


@dataclass
class Measured:
    """What was seen of one strategy at one size.

    `answer`: lease and first statement together, since a pool resets a replica while its lease is on the way back.
    `..._reset`: the leases that had to undo an earlier trajectory; `lifecycle_reset` by the latest change, because
    undoing a change of the schema is several times as dear as undoing one of rows.
    """

    strategy: strategies.Strategy
    database_bytes: int
    pristine: strategies.Rows
    disk_bytes: float = 0.0  # of one replica in use
    trajectories: int = 0
    changes: int = 0
    resets: int = 0
    seconds: float = 0.0
    written: int = 0
    lease: Timings = field(default_factory=Timings)
    lease_reset: Timings = field(default_factory=Timings)
    answer: Timings = field(default_factory=Timings)
    answer_reset: Timings = field(default_factory=Timings)
    lifecycle: Timings = field(default_factory=Timings)
    lifecycle_reset: dict[int, Timings] = field(default_factory=dict)
    _dirty: bool = False

    def run(self, count: int) -> None:
        """`count` trajectories in a row, the changes spread evenly over all that were run so far."""
        strategy = self.strategy
        for _ in range(count):
            number = self.trajectories
            changes = int((number + 1) * MUTATION_SHARE) > int(number * MUTATION_SHARE)
            script = [*selects(number), MUTATIONS[self.changes % len(MUTATIONS)]] if changes else selects(number)
            written, resets = strategy.written(), strategy.resets
            start = time.perf_counter()
            strategy.lease()
            leased = time.perf_counter()
            strategy.execute(script[0])
            answered = time.perf_counter()
            if self._dirty and strategy.execute(PRISTINE) != self.pristine:
                raise InfraError(f"{strategy.name}: trajectory {number} sees changes of the one before it")
            rest = time.perf_counter()
            for sql in script[1:]:
                strategy.execute(sql)
            done = time.perf_counter()
            strategy.release()
            released = time.perf_counter()
            self.written += strategy.written() - written
            restored = strategy.dirty_only and strategy.resets > resets
            (self.lease_reset if restored else self.lease).seconds.append(leased - start)
            (self.answer_reset if restored else self.answer).seconds.append(answered - start)
            latest = (self.changes - 1) % len(MUTATIONS)
            kept = self.lifecycle_reset.setdefault(latest, Timings()) if restored else self.lifecycle
            kept.seconds.append(leased - start + released - done)
            self.seconds += answered - start + released - rest
            self.trajectories += 1
            self.changes += changes
            self.resets += restored
            self._dirty = changes

    @property
    def reset_s(self) -> float:
        """Lease and release where the lease resets: the mean of the medians after each kind of change."""
        return statistics.fmean(timings.median for timings in self.lifecycle_reset.values())

    @property
    def lifecycle_s(self) -> float:
        """Lease and release of the average trajectory: medians, weighted by the share of changes."""
        if not self.lifecycle_reset:
            return self.lifecycle.median
        return (1 - MUTATION_SHARE) * self.lifecycle.median + MUTATION_SHARE * self.reset_s

    @property
    def per_second(self) -> float:
        return self.trajectories / self.seconds

    def predicted(self) -> tuple[float, float]:
        """Bytes per trajectory and bytes beforehand by the I/O model (k = 1: a reset writes what a copy writes)."""
        model = lifecycle_io(
            self.strategy.io,
            n=self.trajectories,
            r=1,
            b=0,
            q=self.resets,
            size=self.database_bytes,
            replicas=self.strategy.replicas,
        )
        return model.online / self.trajectories, model.offline


def measure(candidates: list[strategies.Strategy], size: int, counts: list[int], bar: tqdm) -> list[Measured]:
    """Run all strategies in turns. Raises InfraError when one shows a trajectory another one's changes."""
    rows = []
    for strategy in candidates:
        for number in range(WARM_UP):
            strategy.lease()
            for sql in selects(number):
                strategy.execute(sql)
            pristine = strategy.execute(PRISTINE)
            disk = strategy.disk_bytes()
            strategy.release()
        rows.append(Measured(strategy, size, pristine, disk))
    for turn in range(ROUNDS):
        for row, count in zip(rows, counts, strict=True):
            share = count * (turn + 1) // ROUNDS - count * turn // ROUNDS
            row.run(share)
            bar.update(share)
    return rows


def counts_for(megabytes: float, candidates: Iterable[strategies.Strategy], quick: bool) -> list[int]:
    """Trajectories of each strategy: fewer where every one writes a whole database."""
    copying = int(min(540, max(32, 5400 / megabytes)))
    by_io = {"fresh_copy": copying, "always_reset": copying, "fixed_pool": min(1080, 3 * copying), "overlay": 1080}
    return [24 if quick else by_io[strategy.io] for strategy in candidates]


def table(rows: list[Measured]) -> str:
    """Strategies in one process; ratios are against the first row."""
    headers = [
        "strategy", "n", "lease p50 / p99", "lease that resets", "first answer", "first answer after a reset",
        "lease + release", "ratio", *COUNTED,
    ]  # fmt: skip
    lines = [
        [
            row.strategy.name,
            str(row.trajectories),
            shown_us(row.lease),
            shown_us(row.lease_reset),
            shown_us(row.answer),
            shown_us(row.answer_reset),
            f"{row.lifecycle_s * MICROSECONDS:,.0f}",
            shown_ratio(rows[0].lifecycle_s / row.lifecycle_s),
            *counted(row),
        ]
        for row in rows
    ]
    return markdown(headers, lines)


def pool_table(rows: list[Measured], plain: Measured) -> str:
    """Strategies in worker processes; ratios are against the first row, and against `plain` in one process."""
    headers = [
        "strategy", "n", "lease p50 / p99", "first answer", "first answer after a reset", "lease + release", "ratio",
        "ratio to plain copy", *COUNTED,
    ]  # fmt: skip
    lines = [
        [
            row.strategy.name,
            str(row.trajectories),
            shown_us(row.lease),
            shown_us(row.answer),
            shown_us(row.answer_reset),
            f"{row.lifecycle_s * MICROSECONDS:,.0f}",
            shown_ratio(rows[0].lifecycle_s / row.lifecycle_s),
            shown_ratio(plain.lifecycle_s / row.lifecycle_s),
            *counted(row),
        ]
        for row in rows
    ]
    return markdown(headers, lines)


def counted(row: Measured) -> list[str]:
    """The cells under COUNTED."""
    written = row.written / row.trajectories
    return [f"{row.per_second:,.0f}", shown_bytes(written), shown_bytes(row.predicted()[0])]


def storage_table(sizes: dict[float, list[Measured]]) -> str:
    """Disk for many replicas, and what was written before the first trajectory, measured and predicted."""
    lines = []
    for megabytes, rows in sizes.items():
        for row in rows:
            prepared = f"{shown_bytes(row.strategy.materialised)} ({shown_bytes(row.predicted()[1])})"
            disk = shown_bytes(row.disk_bytes * STORED_REPLICAS)
            lines.append([row.strategy.name, f"{megabytes:g} MB", disk, prepared])
    headers = ["strategy", "database", f"disk of {STORED_REPLICAS} replicas in use", "written beforehand (predicted)"]
    return markdown(headers, lines)


def reset_factors(fresh: Measured, pool: Measured) -> dict[str, float]:
    """The paper's k, how much cheaper a reset is than a new copy: by bytes written and by time."""
    by_bytes = reset_factor(
        fresh_copy=fresh.written / fresh.trajectories,
        fixed_pool=pool.written / pool.trajectories,
        reset_share=pool.resets / pool.trajectories,
    )
    return {"bytes": by_bytes, "time": fresh.lifecycle.median / pool.reset_s}


def as_json(row: Measured, baseline: Measured) -> dict[str, Any]:
    """The figures of one strategy at one size."""
    online, offline = row.predicted()
    return {
        "strategy": row.strategy.name,
        "trajectories": row.trajectories,
        "changes": row.changes,
        "resets": row.resets,
        "lease": row.lease.summary(),
        "lease_that_resets": row.lease_reset.summary() if row.lease_reset else None,
        "first_answer": row.answer.summary(),
        "first_answer_after_reset": row.answer_reset.summary() if row.answer_reset else None,
        "lease_and_release_us": round(row.lifecycle_s * MICROSECONDS, 2),
        "baseline": baseline.strategy.name,
        "ratio": round(baseline.lifecycle_s / row.lifecycle_s, 2),
        "trajectories_per_second": round(row.per_second, 1),
        "written_bytes_per_trajectory": round(row.written / row.trajectories, 1),
        "predicted_bytes_per_trajectory": round(online, 1),
        "written_beforehand": row.strategy.materialised,
        "predicted_beforehand": offline,
        "disk_bytes_per_replica": row.disk_bytes,
    }


def both_tables(template: Path, work: Path, megabytes: float, quick: bool) -> tuple[list[Measured], list[Measured]]:
    """Every strategy in one process, then every strategy in worker processes."""
    measured = []
    for make in (strategies.in_process, strategies.pooled):
        candidates = make(template, work)
        try:
            counts = counts_for(megabytes, candidates, quick)
            with tqdm(total=sum(counts), desc=f"{megabytes:g} MB, {make.__name__}", unit="trajectory") as bar:
                measured.append(measure(candidates, template.stat().st_size, counts, bar))
        finally:
            for strategy in candidates:
                strategy.close()
    return measured[0], measured[1]


def run(sizes: list[float], work: Path, sessions: int, quick: bool) -> tuple[dict[str, Any], str, dict[str, Any]]:
    """(figures, tables, bars of the plot). Raises InputError when `work` is too small."""
    require_space(work, 8 * max(sizes) * 1e6)  # the template, five copies of pools and rollouts, and some air
    result: dict[str, Any] = {"machine": machine(work), "mutation_share": MUTATION_SHARE, "sizes": []}
    text: list[str] = []
    bars: dict[str, dict[str, float]] = {}
    pools_by_size: dict[float, list[Measured]] = {}
    for megabytes in sizes:
        template = make_database(work / f"template-{megabytes:g}.sqlite", megabytes)
        plain, pools = both_tables(template, work, megabytes, quick)
        pools_by_size[megabytes] = pools
        reached, wanted = plain[0].lifecycle_s / plain[-1].lifecycle_s, TARGETS.get(megabytes)
        k = reset_factors(plain[0], next(row for row in plain if row.strategy.io == "fixed_pool"))
        text += [
            f"## {megabytes:g} MB",
            "In one process: what a strategy costs by itself. Times in microseconds, ratios to the first row. A "
            "lease ends with the schema loaded; the first answer is lease and first statement together.",
            table(plain),
            f"Overlay against {plain[0].strategy.name}: {shown_ratio(reached)}"
            + (f" (target {wanted}x)." if wanted else ".")
            + f" The copying pool's k is {k['bytes']:.2f} by bytes, {k['time']:.2f} by time (paper: 1.18).",
            "Replicas in killable worker processes, as rollouts use them; plain copy is the first row above. A pool "
            "resets a replica while the policy writes its first turn: what is left of it shows in the first answer.",
            pool_table(pools, plain[0]),
        ]
        result["sizes"].append(
            {
                "megabytes": megabytes,
                "bytes": template.stat().st_size,
                "overlay_against_fresh_copy": round(reached, 1),
                "target": wanted,
                "k": {name: round(value, 3) for name, value in k.items()},
                "in_process": [as_json(row, plain[0]) for row in plain],
                "pool": [as_json(row, pools[0]) for row in pools],
            }
        )
        bars[f"{megabytes:g} MB"] = {row.strategy.name: row.lifecycle_s * MICROSECONDS for row in [*plain, *pools]}
        if megabytes == sizes[len(sizes) // 2]:
            result["idle_sessions"] = idle_sessions(template, sessions) | {"megabytes": megabytes}
        template.unlink()
    text += ["## Storage", storage_table(pools_by_size), idle_text(result["idle_sessions"])]
    return result, "\n\n".join(text), bars


def main(argv: list[str] | None = None) -> int:
    arguments = parser(__doc__ or "", EPILOG)
    arguments.add_argument("--sizes", default="", help="megabytes, separated by commas (1,50,400; quick: 1,4)")
    arguments.add_argument("--sessions", type=int, default=0, help="idle sessions whose memory is looked at (64)")
    arguments.add_argument("--work", type=Path, help="folder for databases and copies (the temporary folder)")
    options = arguments.parse_args(argv)
    try:
        sizes = [float(size) for size in (options.sizes or ("1,4" if options.quick else "1,50,400")).split(",")]
        sessions = options.sessions or (4 if options.quick else 64)
        with tempfile.TemporaryDirectory(prefix="birdrl-bench-", dir=options.work) as folder:
            result, text, bars = run(sizes, Path(folder), sessions, options.quick)
        report("pool", options.out, result | {"quick": options.quick}, text)
        if not options.no_plot:
            bar_plot(options.out / "pool.png", "Lease and release of the average trajectory", "microseconds", bars)
    except (InputError, ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except BirdrlError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
