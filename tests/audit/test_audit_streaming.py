"""The streaming comparison finds what the exhaustive one finds, in memory that does not grow with the file."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks._corpus import write_corpus
from birdrl.audit.contamination import Audit, audit
from birdrl.audit.overlap import EvalIndex
from birdrl.audit.rows import read_rows
from birdrl.audit.similarity import DualView, Thresholds, compare
from birdrl.audit.streaming import stream
from birdrl.audit.tfidf import Vocabulary, exact_lengths, smooth_idf
from birdrl.params import AuditParams

THRESHOLDS = Thresholds(0.85, 0.90, 20)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return write_corpus(tmp_path_factory.mktemp("corpus"), 600, 40, copies=100)


@pytest.fixture(scope="module")
def exhaustive(corpus: tuple[Path, Path]) -> DualView:
    return compare(read_rows(corpus[0]), read_rows(corpus[1]), THRESHOLDS)


def streamed(corpus: tuple[Path, Path], **options: int) -> DualView:
    evaluation = read_rows(corpus[1])
    return stream(
        corpus[0], evaluation, EvalIndex(evaluation, None), THRESHOLDS, **{"workers": 1, "buckets": 1 << 16, **options}
    )[1]


def same(left: DualView, right: DualView) -> None:
    """The same pairs in the same order, cosines equal but for the last bits."""
    for one, other in ((left.flagged, right.flagged), (left.closest, right.closest)):
        assert [(p.train, p.eval) for p in one] == [(p.train, p.eval) for p in other]
        assert [(p.text, p.sql) for p in one] == [pytest.approx((p.text, p.sql), abs=1e-9) for p in other]


@pytest.mark.parametrize("buckets", [1 << 22, 512, 3, 1])
def test_every_flagged_and_closest_pair_is_found_however_few_the_counters(
    corpus: tuple[Path, Path], exhaustive: DualView, buckets: int
) -> None:
    found = streamed(corpus, buckets=buckets, block_bytes=20_000)
    assert len(exhaustive.flagged) > 20
    assert found.pairs == exhaustive.pairs == 600 * 40
    assert [(p.train, p.eval) for p in found.flagged] == [(p.train, p.eval) for p in exhaustive.flagged]
    if found.closest_complete:
        same(found, exhaustive)
    else:
        assert buckets < 512


def test_the_closest_pairs_are_complete_with_enough_counters(corpus: tuple[Path, Path]) -> None:
    assert streamed(corpus).closest_complete


@pytest.mark.parametrize("block_bytes", [6_000, 100_000])
def test_blocks_change_nothing(corpus: tuple[Path, Path], exhaustive: DualView, block_bytes: int) -> None:
    same(streamed(corpus, block_bytes=block_bytes), exhaustive)


def test_processes_change_nothing(corpus: tuple[Path, Path]) -> None:
    assert streamed(corpus, workers=2, block_bytes=60_000) == streamed(corpus, block_bytes=60_000)


def test_shared_counters_only_lengthen_the_shadow() -> None:
    """Lengths from shared counters never exceed the true ones: that is why nothing is missed."""
    texts = [f"alpha beta {n} gamma {n * n} delta" for n in range(200)]
    evaluation = ["alpha beta one"]
    exact = Vocabulary([*texts, *evaluation], 1)
    frequency = exact.encode([*texts, *evaluation])
    counts = dict(zip(sorted(exact.columns, key=exact.columns.__getitem__), frequency.frequencies()[1], strict=True))
    true = exact_lengths(texts, {term: int(count) for term, count in counts.items()}, 201)
    for buckets in (1, 7, 1000):
        vocabulary = Vocabulary(evaluation, buckets)
        places, seen = vocabulary.encode([*texts, *evaluation]).frequencies()
        table = [0] * vocabulary.size
        for place, count in zip(places, seen, strict=True):
            table[place] = int(count)
        bound = vocabulary.encode(texts).lengths(smooth_idf(np.array(table), 201))
        assert (bound <= true + 1e-12).all()
        assert (bound > 0).all()


def audits(corpus: tuple[Path, Path], **changed: object) -> tuple[Audit, Audit]:
    values = {"workers": 1, **changed}
    return tuple(  # type: ignore[return-value]
        audit(*corpus, AuditParams.model_validate({**values, "exhaustive_rows": rows})) for rows in (10**6, 0)
    )


def test_the_whole_audit_gives_the_same_flags_and_overlaps_in_both_modes(corpus: tuple[Path, Path]) -> None:
    whole, piecewise = audits(corpus, exclude=["near_duplicate", "exact_copy", "same_sql", "same_masked_sql"])
    assert (whole.exhaustive, piecewise.exhaustive) == (True, False)
    assert whole.overlap == piecewise.overlap
    assert len(whole.flags) > 20
    assert [(f.number, f.reasons, f.eval_ids) for f in whole.flags] == [
        (f.number, f.reasons, f.eval_ids) for f in piecewise.flags
    ]
    counts = piecewise.counts()
    assert counts["pairs_above_text_threshold"] is None
    assert {k: v for k, v in whole.counts().items() if counts[k] is not None} == {
        k: v for k, v in counts.items() if v is not None
    }
    assert json.loads(json.dumps(piecewise.to_json()))["mode"] == "streaming"


@pytest.mark.parametrize("rows", ["", "\n \n"])
def test_an_empty_training_file_has_nothing_to_compare(corpus: tuple[Path, Path], tmp_path: Path, rows: str) -> None:
    path = tmp_path / "empty.jsonl"
    path.write_text(rows)
    for result in audits((path, corpus[1])):
        assert (result.counts()["pairs"], result.flags, result.views.closest) == (0, (), ())


def test_texts_without_words_are_similar_to_nothing(tmp_path: Path) -> None:
    row = {"instance_id": "a", "db_id": "d", "query": "???", "issue_sql": ["--"]}
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps(row) + "\n")
    (tmp_path / "eval.jsonl").write_text(json.dumps(row) + "\n")
    for result in audits((path, tmp_path / "eval.jsonl")):
        assert (result.views.flagged, result.views.closest[0].text) == ((), 0.0)


MEASURE = """
import json, resource, sys
from pathlib import Path
from birdrl.audit.contamination import audit
from birdrl.params import AuditParams
params = AuditParams.model_validate({"exhaustive_rows": 0, "workers": 1, "closest_pairs": 5})
result = audit(Path(sys.argv[1]), Path(sys.argv[2]), params)
print(json.dumps([resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, result.counts()["train_instances"]]))
"""


def test_memory_does_not_grow_with_the_training_file(tmp_path: Path) -> None:
    largest = int(os.environ.get("BIRDRL_AUDIT_ROWS", "9000"))
    peak: dict[int, int] = {}
    for rows in (largest // 6, largest):
        folder = tmp_path / str(rows)
        folder.mkdir()
        files = write_corpus(folder, rows, 40)
        done = subprocess.run(
            [sys.executable, "-c", MEASURE, *map(str, files)], capture_output=True, text=True, check=True
        )
        kib, counted = json.loads(done.stdout)
        assert counted == rows
        peak[rows] = kib
    grown = (peak[largest] - peak[largest // 6]) / 1024
    size = (tmp_path / str(largest) / "train.jsonl").stat().st_size / 2**20
    assert grown < max(8.0, 0.2 * size), f"{grown:.1f} MiB more for a file of {size:.1f} MiB"
