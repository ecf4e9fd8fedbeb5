"""The audit of a training file of any size against an evaluation set in memory: three passes, block by block.

1. Count terms (birdrl.audit.tfidf) and look for exact overlaps. 2. Find the pairs whose upper bounds lie above both
thresholds, and those closest to it. 3. Count the terms of what was found exactly and compute its cosines again. The
flagged pairs are those of the exhaustive comparison; `closest_complete` says whether the closest ones are, too.

Memory holds the evaluation set, the counters and the findings, never the training set.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix  # type: ignore[import-untyped]

from birdrl.audit.overlap import EvalIndex, Found, Overlap
from birdrl.audit.processes import Workers
from birdrl.audit.rows import BLOCK_BYTES, Block, Row, blocks_of, read_block
from birdrl.audit.similarity import DualView, Matrix, Pair, Thresholds, cosines, largest, sql_of, text_of
from birdrl.audit.tfidf import Floats, Ints, Vocabulary, count_wanted, exact_lengths, smooth_idf

BUCKETS = 1 << 22
SPARE = 10  # pairs kept for one that is wanted among the closest: bounds rank pairs a little differently
SLACK = 1e-9  # bounds are compared a little below, for the last bits of a float
VIEWS: tuple[Callable[[Row], str], ...] = (text_of, sql_of)

Hashes = Callable[[Sequence[Row]], Sequence[str | None]]
Progress = Callable[[float], None]


@dataclass(frozen=True)
class Near:
    """A training row with evaluation rows that it may be close to: (index, text bound, SQL bound)."""

    number: int
    views: tuple[str, str]
    pairs: tuple[tuple[int, float, float], ...]


@dataclass(frozen=True)
class Counted:
    """What the first pass learns of a block: exact overlaps, and term frequencies per view."""

    found: Found
    frequencies: tuple[tuple[Ints, Ints], ...]


class Shard:
    """The work on one block, in the process that does it."""

    def __init__(self, evaluation: Sequence[Row], index: EvalIndex, thresholds: Thresholds, buckets: int) -> None:
        self.thresholds = thresholds
        self.texts = tuple([view(row) for row in evaluation] for view in VIEWS)
        self.vocabularies = tuple(Vocabulary(texts, buckets) for texts in self.texts)
        self.index = index
        self._tables: list[tuple[Floats, csr_matrix | Matrix]] = []

    def count(self, block: Block, results: Sequence[str | None] | None) -> Counted:
        """First pass."""
        rows = read_block(block)
        encoded = (v.encode([view(row) for row in rows]) for v, view in zip(self.vocabularies, VIEWS, strict=True))
        return Counted(self.index.scan(rows, results), tuple(texts.frequencies() for texts in encoded))

    def search(self, block: Block, folder: Path, floor: float, wanted: int) -> list[Near]:
        """Second pass: rows with a pair that may be flagged, or whose closeness bound reaches `floor`; at most
        `wanted` pairs of the latter sort. `folder` holds the idf of each view."""
        need = min(floor, 1.0) - SLACK
        rows = read_block(block)
        bounds: list[Matrix] = []
        for number, limit in enumerate((need * self.thresholds.text, need * self.thresholds.sql)):
            vocabulary, (idf, right) = self.vocabularies[number], self.tables(folder)[number]
            encoded = vocabulary.encode([VIEWS[number](row) for row in rows])
            unit = vocabulary.unit_rows(encoded, idf, encoded.lengths(idf))
            # A cosine is at most the length of the part that can match.
            kept = np.flatnonzero(np.sqrt(np.asarray(unit.multiply(unit).sum(axis=1)).ravel()) >= limit)
            found = cosines(unit[kept], right)
            enough = found.max(axis=1, initial=0.0) >= limit
            kept, found = kept[enough], found[enough]
            rows = [rows[place] for place in kept]
            bounds = [*(bound[kept] for bound in bounds), found]
        return self._near(rows, bounds[0], bounds[1], need, wanted) if rows else []

    def recount(self, block: Block, wanted: Sequence[frozenset[str]]) -> list[Counter[str]]:
        """Third pass: true document frequencies of some terms, per view."""
        rows = read_block(block)
        return [count_wanted(map(view, rows), terms) for view, terms in zip(VIEWS, wanted, strict=True)]

    def tables(self, folder: Path) -> list[tuple[Floats, csr_matrix | Matrix]]:
        """(idf, evaluation matrix) of each view; the idf are shared by all processes."""
        if not self._tables:
            for number, (vocabulary, texts) in enumerate(zip(self.vocabularies, self.texts, strict=True)):
                idf = np.load(folder / f"idf{number}.npy", mmap_mode="r")
                self._tables.append((idf, vocabulary.evaluation_matrix(texts, idf)))
        return self._tables

    def _near(self, rows: Sequence[Row], text: Matrix, sql: Matrix, need: float, wanted: int) -> list[Near]:
        closeness = np.minimum(text / self.thresholds.text, sql / self.thresholds.sql)
        keep = closeness >= 1.0 - SLACK
        for row, column in largest(closeness, wanted):
            keep[row, column] |= closeness[row, column] >= need
        return [
            Near(
                rows[row].number,
                (text_of(rows[row]), sql_of(rows[row])),
                tuple((int(c), float(text[row, c]), float(sql[row, c])) for c in np.flatnonzero(keep[row])),
            )
            for row in map(int, np.flatnonzero(keep.any(axis=1)))
        ]


class Findings:
    """Near pairs so far: all that may be flagged, and the `wanted` closest by their bound, flagged or not."""

    def __init__(self, thresholds: Thresholds, wanted: int) -> None:
        self.floor = 0.0  # the closeness bound below which pairs have been dropped
        self._thresholds, self._wanted = thresholds, wanted
        self._flagged: list[tuple[int, int, tuple[str, str]]] = []  # (row, evaluation index, texts)
        self._closest: list[tuple[float, int, int, tuple[str, str]]] = []  # the same behind -closeness

    def add(self, rows: Iterable[Near]) -> None:
        """The rows found in the next block."""
        for near in rows:
            for index, text, sql in near.pairs:
                closeness = Pair(near.number, index, text, sql).closeness(self._thresholds)
                self._closest.append((-closeness, near.number, index, near.views))
                if closeness >= 1.0 - SLACK:
                    self._flagged.append((near.number, index, near.views))
        self._closest = heapq.nsmallest(self._wanted, self._closest)
        if len(self._closest) == self._wanted:
            self.floor = -self._closest[-1][0]

    def pairs(self) -> tuple[list[tuple[int, int]], dict[int, tuple[str, str]]]:
        """((row, evaluation index) in file order, the texts of each row)"""
        found = {(row, index): views for row, index, views in self._flagged}
        found.update({(row, index): views for _, row, index, views in self._closest})
        return sorted(found), {row: found[row, index] for row, index in sorted(found)}


def stream(
    train: Path,
    evaluation: Sequence[Row],
    index: EvalIndex,
    thresholds: Thresholds,
    *,
    workers: int = 2,
    results: Hashes | None = None,
    progress: Progress = lambda share: None,
    buckets: int = BUCKETS,
    block_bytes: int = BLOCK_BYTES,
) -> tuple[Overlap, DualView]:
    """Overlap and comparison of a JSON-lines file with an evaluation set. The answer does not depend on `workers`.

    `results` hashes the results of rows' solutions, where `index` has them. `progress` is called with the share of
    the work just done. Raises InputError that names file, line and field.
    """
    blocks = blocks_of(train, block_bytes)
    if not blocks or not evaluation:
        return index.collect([]), DualView(0, 0, 0, (), ())
    shard = Shard(evaluation, index, thresholds, buckets)
    with TemporaryDirectory(prefix="birdrl-audit-") as folder, Workers(shard, workers) as processes:
        passes = _Passes(shard, blocks, processes, Path(folder), progress)
        overlap = passes.count(results)
        findings = passes.search()
        pairs = passes.verify(findings)
    closest = heapq.nsmallest(thresholds.closest, pairs, key=lambda p: (-p.closeness(thresholds), p.train, p.eval))
    views = DualView(
        pairs=overlap.rows * len(evaluation),
        text_above=None,
        sql_above=None,
        flagged=tuple(pair for pair in pairs if pair.flagged(thresholds)),
        closest=tuple(closest),
        closest_complete=findings.floor == 0 or closest[-1].closeness(thresholds) >= findings.floor - SLACK,
    )
    return overlap, views


class _Passes:
    """The three passes over the blocks of a file."""

    def __init__(
        self, shard: Shard, blocks: Sequence[Block], processes: Workers, folder: Path, progress: Progress
    ) -> None:
        self._shard, self._blocks, self._processes, self._folder = shard, blocks, processes, folder
        self._progress = progress
        self._frequencies = [np.zeros(vocabulary.size, np.int64) for vocabulary in shard.vocabularies]
        self._documents = 0

    def count(self, results: Hashes | None) -> Overlap:
        """Exact overlaps; leaves the idf of both views in the folder."""
        overlap = self._shard.index.collect(self._counted(results))
        self._documents = overlap.rows + len(self._shard.texts[0])
        for number, (vocabulary, texts) in enumerate(zip(self._shard.vocabularies, self._shard.texts, strict=True)):
            places, counts = vocabulary.encode(texts).frequencies()
            self._frequencies[number][places] += counts
            np.save(self._folder / f"idf{number}.npy", smooth_idf(self._frequencies[number], self._documents))
        return overlap

    def _counted(self, results: Hashes | None) -> Iterator[Found]:
        calls = ((block, results(read_block(block)) if results else None) for block in self._blocks)
        for counted in self._run("count", calls):
            for total, (places, counts) in zip(self._frequencies, counted.frequencies, strict=True):
                total[places] += counts
            yield counted.found

    def search(self) -> Findings:
        """Every pair that matters, by its bounds."""
        wanted = SPARE * self._shard.thresholds.closest
        findings = Findings(self._shard.thresholds, wanted)
        for near in self._run("search", ((b, self._folder, findings.floor, wanted) for b in self._blocks)):
            findings.add(near)
        return findings

    def verify(self, findings: Findings) -> list[Pair]:
        """The pairs found with their true cosines, in file order."""
        places, texts = findings.pairs()
        wanted = [
            frozenset(vocabulary.unknown(views[number] for views in texts.values()))
            for number, vocabulary in enumerate(self._shard.vocabularies)
        ]
        exact: list[Counter[str]] = [Counter() for _ in VIEWS]
        if any(wanted):
            for part in self._run("recount", ((block, wanted) for block in self._blocks)):
                for total, counts in zip(exact, part, strict=True):
                    total.update(counts)
        cosines_of = [
            self._true_cosines(number, [views[number] for views in texts.values()], exact[number])
            for number in range(len(VIEWS))
        ]
        order = {row: place for place, row in enumerate(texts)}
        return [Pair(row, index, *(float(view[order[row], index]) for view in cosines_of)) for row, index in places]

    def _true_cosines(self, view: int, texts: Sequence[str], unknown: Counter[str]) -> Matrix:
        """Cosines of training texts with all evaluation texts, shape (texts, evaluation rows). `unknown`: document
        frequencies of the terms that no evaluation text has."""
        vocabulary, (idf, right) = self._shard.vocabularies[view], self._shard.tables(self._folder)[view]
        known = {term: int(self._frequencies[view][column]) for term, column in vocabulary.columns.items()}
        lengths = exact_lengths(texts, known | unknown, self._documents)
        return cosines(vocabulary.unit_rows(vocabulary.encode(texts), idf, lengths), right)

    def _run(self, method: str, calls: Iterable[tuple[Any, ...]]) -> Iterator[Any]:
        for result in self._processes.in_order(method, calls):
            self._progress(1 / (3 * len(self._blocks)))
            yield result
