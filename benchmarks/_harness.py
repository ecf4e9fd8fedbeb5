"""What the benchmarks share: timings, tables, results as JSON, a plot, and what the kernel says about a process."""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import apsw

from birdrl.errors import InputError
from birdrl.files import write_json, write_text

MICROSECONDS = 1e6
LOGARITHMIC_FROM = 20  # largest of a plot's figures, as a multiple of the smallest


@dataclass
class Timings:
    """Durations in seconds of one thing done many times."""

    seconds: list[float] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.seconds)

    def time(self, work: Callable[[], Any]) -> Any:
        """Do `work` once, keep how long it took, return its value."""
        start = time.perf_counter()
        value = work()
        self.seconds.append(time.perf_counter() - start)
        return value

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)

    def percentile(self, percent: float) -> float:
        """Nearest rank: a value that was measured. With few samples the 99th is the largest."""
        ordered = sorted(self.seconds)
        return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))]

    def summary(self) -> dict[str, float]:
        """For JSON, in microseconds."""
        return {
            "n": len(self),
            "p50_us": round(self.median * MICROSECONDS, 2),
            "p99_us": round(self.percentile(99) * MICROSECONDS, 2),
        }


def shown_us(timings: Timings) -> str:
    """`p50 / p99` in microseconds."""
    if not timings:
        return "-"
    return f"{timings.median * MICROSECONDS:,.0f} / {timings.percentile(99) * MICROSECONDS:,.0f}"


def shown_bytes(count: float) -> str:
    """A size with its unit, decimal."""
    for limit, unit in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if abs(count) >= limit:
            return f"{count / limit:,.1f} {unit}"
    return f"{count:,.0f} B"


def shown_ratio(ratio: float) -> str:
    return f"{ratio:,.0f}x" if ratio >= 10 else f"{ratio:.2g}x"


def markdown(headers: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table as it can stand in the README."""
    lines = [headers, ["---"] + ["---:"] * (len(headers) - 1), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def parser(description: str, epilog: str) -> argparse.ArgumentParser:
    """Arguments that every benchmark has."""
    arguments = argparse.ArgumentParser(
        description=description, epilog=epilog, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("--quick", action="store_true", help="small sizes, few repetitions: does it run at all?")
    arguments.add_argument(
        "--out", type=Path, default=Path("artifacts/benchmarks"), help="folder of the results (%(default)s)"
    )
    arguments.add_argument("--no-plot", action="store_true", help="leave the plot out (it needs matplotlib)")
    return arguments


def machine(folder: Path | None = None) -> dict[str, Any]:
    """What the figures were measured on; no names of hosts or people."""
    return {
        "python": platform.python_version(),
        "sqlite": apsw.sqlite_lib_version(),
        "kernel": platform.release(),
        "cpus": len(os.sched_getaffinity(0)),
        "cpu": _cpu_name(),
        "memory_bytes": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
        "file_system": _file_system(folder) if folder else None,
    }


def report(name: str, out: Path, result: Mapping[str, Any], text: str) -> None:
    """Print the tables; write them and the figures to `out`."""
    print(text)
    write_json(out / f"{name}.json", result)
    write_text(out / f"{name}.md", text + "\n")
    print(f"\nwritten: {out / name}.json, {out / name}.md")


def bar_plot(path: Path, title: str, unit: str, groups: Mapping[str, Mapping[str, float]]) -> None:
    """Grouped bars: `groups[label][series]`, on a logarithmic axis where they differ much.

    Raises InputError without matplotlib.
    """
    try:
        import matplotlib
    except ImportError as error:
        raise InputError("the plot needs matplotlib; install birdrl[pipeline] or give --no-plot") from error
    matplotlib.use("Agg")
    from matplotlib import pyplot

    series = list(dict.fromkeys(name for values in groups.values() for name in values))
    height = 0.8 / len(series)
    figure, axes = pyplot.subplots(figsize=(9, 1.2 + 0.3 * len(series) * len(groups)), layout="constrained")
    for number, name in enumerate(series):
        offset = (number - (len(series) - 1) / 2) * height
        shown = {i + offset: values[name] for i, values in enumerate(groups.values()) if name in values}
        bars = axes.barh(list(shown), list(shown.values()), height, label=name)
        axes.bar_label(
            bars, fmt=lambda value: f"{value:,.0f}" if value >= 10 else f"{value:.2g}", padding=3, fontsize="small"
        )
    axes.set_yticks(range(len(groups)), list(groups))
    axes.set_ylim(len(groups) - 0.5, -0.5)
    axes.margins(x=0.1)
    figures = [value for values in groups.values() for value in values.values()]
    if wide := max(figures) > LOGARITHMIC_FROM * min(figures):
        axes.set_xscale("log")
    axes.set_xlabel(f"{unit}, logarithmic scale" if wide else unit)
    axes.set_title(title)
    if len(series) > 1:
        axes.legend(fontsize="small")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)
    pyplot.close(figure)
    print(f"written: {path}")


def written_bytes(pids: Iterable[int]) -> int:
    """Bytes that these processes and their reaped children handed to write calls so far, sockets left out.

    That is `wchar` of /proc/PID/io; the kernel adds a child's figures to its parent's when it is waited for.
    """
    total = 0
    for pid in pids:
        lines = Path(f"/proc/{pid}/io").read_text().splitlines()
        total += next(int(line.split()[1]) for line in lines if line.startswith("wchar"))
    return total


def memory_of(pid: int) -> tuple[int, int]:
    """(private, resident) bytes of a process. Private is what would be free if it ended."""
    values = {}
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]:
        key, amount, *_ = line.replace(":", " ").split()
        values[key] = int(amount) * 1024
    return values["Private_Clean"] + values["Private_Dirty"], values["Rss"]


def children() -> list[int]:
    """Process ids of this process's living children."""
    return [
        int(pid)
        for task in Path("/proc/self/task").iterdir()
        for pid in (task / "children").read_text().split()
        if Path(f"/proc/{pid}/io").exists()
    ]


def _cpu_name() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _file_system(folder: Path) -> str:
    """Type of the mount that holds `folder`."""
    target = str(folder.resolve())
    best, kind = "", "unknown"
    for line in Path("/proc/mounts").read_text().splitlines():
        _, mount, found, *_ = line.split()
        inside = target == mount or target.startswith(mount.rstrip("/") + "/")
        if inside and len(mount) >= len(best):
            best, kind = mount, found
    return kind
