"""Near-duplicates within a gym: the two views of the contamination audit, asked of every new issue as it comes.

A pair counts when text similarity and SQL similarity of the same two issues both exceed their threshold (BIRD-RL,
Appendix A). Similarity here is the cosine of word 1- and 2-gram counts (ours): unlike TF-IDF it does not depend on
issues still to come.
"""

from __future__ import annotations

import math
import zlib
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from birdrl.gym.sql_text import sql_tokens, tokens

Vector = NDArray[np.float32]

_DIMENSIONS = 1024  # of the hashed vectors that find candidates
_SLACK = 0.03  # how far hashing may move a cosine


class NearDuplicates:
    """The issues so far, and whether a new one is nearly one of them. Thresholds are cosines, exceeded strictly."""

    def __init__(self, text_threshold: float, sql_threshold: float) -> None:
        self.thresholds = (text_threshold, sql_threshold)
        self._grams: list[tuple[Counter[str], Counter[str]]] = []
        self._rows = (_Rows(), _Rows())

    def __len__(self) -> int:
        return len(self._grams)

    def find(self, text: str, issue_sql: Sequence[str], sol_sql: Sequence[str]) -> int | None:
        """Position of the first issue that the new one nearly repeats, or None."""
        if not self._grams:
            return None
        new = _views(text, issue_sql, sol_sql)
        close = np.ones(len(self._grams), dtype=bool)
        for rows, grams, threshold in zip(self._rows, new, self.thresholds, strict=True):
            close &= rows.similar(_hashed(grams)) > threshold - _SLACK
        for position in np.flatnonzero(close):
            known = self._grams[position]
            if all(_cosine(a, b) > limit for a, b, limit in zip(new, known, self.thresholds, strict=True)):
                return int(position)
        return None

    def add(self, text: str, issue_sql: Sequence[str], sol_sql: Sequence[str]) -> None:
        """Remember an issue."""
        views = _views(text, issue_sql, sol_sql)
        self._grams.append(views)
        for rows, grams in zip(self._rows, views, strict=True):
            rows.append(_hashed(grams))


class _Rows:
    """Unit vectors, one a row, in an array that grows by doubling."""

    def __init__(self) -> None:
        self._array: NDArray[np.float32] = np.zeros((64, _DIMENSIONS), dtype=np.float32)
        self._count = 0

    def append(self, vector: Vector) -> None:
        if self._count == len(self._array):
            self._array = np.vstack([self._array, np.zeros_like(self._array)])
        self._array[self._count] = vector
        self._count += 1

    def similar(self, vector: Vector) -> Vector:
        return self._array[: self._count] @ vector


def _views(text: str, issue_sql: Sequence[str], sol_sql: Sequence[str]) -> tuple[Counter[str], Counter[str]]:
    return _counted(tokens(text)), _counted([*sql_tokens(issue_sql), "=>", *sql_tokens(sol_sql)])


def _counted(words: Sequence[str]) -> Counter[str]:
    pairs = (f"{a} {b}" for a, b in pairwise(words))
    return Counter([*words, *pairs])


def _hashed(grams: Counter[str]) -> Vector:
    vector = np.zeros(_DIMENSIONS, dtype=np.float32)
    for gram, count in grams.items():
        vector[zlib.crc32(gram.encode()) % _DIMENSIONS] += count
    norm = float(np.linalg.norm(vector))
    return vector / norm if norm else vector


def _cosine(a: Counter[str], b: Counter[str]) -> float:
    small, large = (a, b) if len(a) <= len(b) else (b, a)
    dot = sum(count * large[gram] for gram, count in small.items())
    norm = math.sqrt(sum(n * n for n in a.values()) * sum(n * n for n in b.values()))
    return dot / norm if norm else 0.0
