"""What the contamination audit costs: all pairs of the published sizes, and training files of up to a million rows.

Every measurement is a process of its own, so that its memory is its own. The baseline compares pair by pair in plain
Python, as a first version of an audit does; it is timed on a part of the pairs.
"""

from __future__ import annotations

import json
import math
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from tqdm import tqdm

from benchmarks._corpus import write_corpus
from benchmarks._harness import bar_plot, machine, markdown, parser, report, shown_bytes, shown_ratio
from birdrl.audit.contamination import audit
from birdrl.audit.masking import masked_sql
from birdrl.audit.rows import Row, read_rows
from birdrl.audit.similarity import sql_of, terms, text_of
from birdrl.errors import BirdrlError, InputError
from birdrl.params import AuditParams

EVALUATION = 500
TRAIN = 5_000
GROWTH = (5_000, 50_000, 200_000)
MILLION = 1_000_000
MEMORY_LIMIT = 200_000  # largest training set that is compared in memory here
CORES = 2
BASELINE_PAIRS = 20_000
EPILOG = """\
examples:
  python -m benchmarks.audit              500 x 5,000 to 500 x 200,000, about five minutes on two cores
  python -m benchmarks.audit --million    also a million training rows, about ten minutes more
  python -m benchmarks.audit --quick      small sizes, some seconds"""


# --- one measurement, in its own process


def measure(train: Path, evaluation: Path, streamed: bool, workers: int) -> dict[str, Any]:
    """Seconds, peak memory in bytes (largest process and all together) and what was found."""
    params = AuditParams.model_validate({"exhaustive_rows": 0 if streamed else 10**9, "workers": workers})
    start = time.perf_counter()
    result = audit(train, evaluation, params)
    seconds = time.perf_counter() - start
    own, child = (resource.getrusage(who).ru_maxrss * 1024 for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return {
        "mode": "streaming" if streamed else "exhaustive",
        "train": result.overlap.rows,
        "pairs": result.views.pairs,
        "seconds": round(seconds, 3),
        "pairs_per_second": round(result.views.pairs / seconds),
        "largest_process_bytes": max(own, child),
        "all_processes_bytes_at_most": own + (workers * child if streamed and workers > 1 else 0),
        "flagged": sorted([pair.train, pair.eval] for pair in result.views.flagged),
        "closest": [[pair.train, pair.eval] for pair in result.views.closest],
        "closest_complete": result.views.closest_complete,
    }


def measured(train: Path, evaluation: Path, *, streamed: bool, workers: int = CORES) -> dict[str, Any]:
    """`measure` in a new process. Raises BirdrlError with its message when it fails."""
    command = [sys.executable, "-m", "benchmarks.audit", "--measure", str(train), str(evaluation)]
    command += [str(int(streamed)), str(workers)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BirdrlError(f"{' '.join(command)}: {done.stderr.strip()[-2000:]}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


# --- the baseline and the parts


def pair_by_pair(train: list[Row], evaluation: list[Row], pairs: int) -> float:
    """Pairs per second of plain dictionaries, one pair after the other; vectors made beforehand are not counted."""
    documents = [*train, *evaluation]
    vectors = []
    for view in (text_of, sql_of):
        counts = [Counter(terms(view(row))) for row in documents]
        frequency = Counter(term for count in counts for term in count)
        weights = [
            {t: n * (math.log((1 + len(documents)) / (1 + frequency[t])) + 1) for t, n in count.items()}
            for count in counts
        ]
        norms = [math.sqrt(sum(w * w for w in vector.values())) or 1.0 for vector in weights]
        vectors.append([{t: w / n for t, w in v.items()} for v, n in zip(weights, norms, strict=True)])
    start = time.perf_counter()
    done = 0
    for right in range(len(train), len(documents)):
        for left in range(len(train)):
            for view in vectors:
                a, b = view[left], view[right]
                sum(weight * b[term] for term, weight in a.items() if term in b)
            done += 1
            if done >= pairs:
                return done / (time.perf_counter() - start)
    return done / (time.perf_counter() - start)


def masked_per_second(rows: list[Row]) -> float:
    """Statements masked per second, one core."""
    start = time.perf_counter()
    for row in rows:
        masked_sql(row.sql)
    return len(rows) / (time.perf_counter() - start)


def recall(found: dict[str, Any], exhaustive: dict[str, Any]) -> dict[str, float]:
    """Shares of the exhaustive comparison's pairs that the other one has, and the reverse."""
    shares = {}
    for kind in ("flagged", "closest"):
        ours, all_pairs = ({tuple(pair) for pair in side[kind]} for side in (found, exhaustive))
        shares[f"{kind}_recall"] = len(ours & all_pairs) / max(len(all_pairs), 1)
        shares[f"{kind}_precision"] = len(ours & all_pairs) / max(len(ours), 1)
    return shares


# --- the whole


def run(work: Path, quick: bool, million: bool) -> tuple[dict[str, Any], str, dict[str, dict[str, float]]]:
    """(figures, tables, bars of the plot)"""
    sizes = (1_000, 4_000) if quick else (*GROWTH, *([MILLION] if million else []))
    evaluation_rows = 60 if quick else EVALUATION
    rows: list[dict[str, Any]] = []
    for size in tqdm(sizes, desc="training rows", unit="size"):
        folder = work / str(size)
        folder.mkdir()
        train, evaluation = write_corpus(folder, size, evaluation_rows, copies=size // 100)
        whole = measured(train, evaluation, streamed=False) if size <= MEMORY_LIMIT else None
        piecewise = measured(train, evaluation, streamed=True)
        if whole:
            piecewise |= recall(piecewise, whole)
            rows.append(whole | {"file_bytes": train.stat().st_size})
        rows.append(piecewise | {"file_bytes": train.stat().st_size})
    small = work / str(sizes[0])
    train_rows, eval_rows = read_rows(small / "train.jsonl"), read_rows(small / "eval.jsonl")
    baseline = pair_by_pair(train_rows, eval_rows, 1_000 if quick else BASELINE_PAIRS)
    masking = masked_per_second(train_rows[:1_000])
    for row in rows:
        row["flagged"], row["closest"] = len(row["flagged"]), len(row["closest"])
    text = "\n\n".join(["## Audit", table(rows, evaluation_rows), notes(rows, baseline, masking)])
    result = {
        "machine": machine(work),
        "evaluation_rows": evaluation_rows,
        "runs": rows,
        "baseline_pairs_per_second": round(baseline),
        "masked_statements_per_second": round(masking),
    }
    bars = {f"{row['train']:,}, {row['mode']}": {"pairs per second": row["pairs_per_second"]} for row in rows}
    return result, text, {**bars, "pair by pair": {"pairs per second": baseline}}


def table(rows: list[dict[str, Any]], evaluation_rows: int) -> str:
    shown = [
        [
            f"{evaluation_rows:,} x {row['train']:,}",
            row["mode"],
            f"{row['seconds']:.1f}",
            f"{row['pairs_per_second']:,}",
            shown_bytes(row["largest_process_bytes"]),
            f"{row['flagged']:,}",
            f"{row['flagged_recall']:.4f}" if "flagged_recall" in row else "-",
            f"{row['closest_recall']:.2f}" if "closest_recall" in row else "-",
        ]
        for row in rows
    ]
    headers = ["pairs", "mode", "s", "pairs / s", "largest process", "flagged", "recall of flagged", "of closest"]
    return markdown(headers, shown)


def notes(rows: list[dict[str, Any]], baseline: float, masking: float) -> str:
    first = rows[0]
    lines = [
        f"From files to report, {CORES} cores; exact overlaps included, results of solutions not.",
        f"Pair by pair in plain Python: {baseline:,.0f} pairs a second, "
        f"{shown_ratio(first['pairs_per_second'] / baseline)} slower, vectors not counted.",
        f"Masking by syntax tree: {masking:,.0f} statements a second and core; only SQL with an evaluation row's names "
        "is masked.",
    ]
    return "\n".join(f"- {line}" for line in lines)


def main(argv: list[str] | None = None) -> int:
    arguments = parser(__doc__ or "", EPILOG)
    arguments.add_argument("--million", action="store_true", help="also a million training rows")
    arguments.add_argument("--measure", nargs=4, help="used by the benchmark itself")
    options = arguments.parse_args(argv)
    if options.measure:
        train, evaluation, streamed, workers = options.measure
        print(json.dumps(measure(Path(train), Path(evaluation), streamed == "1", int(workers))))
        return 0
    try:
        with tempfile.TemporaryDirectory(prefix="birdrl-bench-") as folder:
            result, text, bars = run(Path(folder), options.quick, options.million)
        report("audit", options.out, result | {"quick": options.quick}, text)
        if not options.no_plot:
            bar_plot(options.out / "audit.png", "Contamination audit", "pairs per second", bars)
    except (InputError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except BirdrlError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
