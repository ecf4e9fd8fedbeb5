"""The dual-view TF-IDF audit: every training instance against every evaluation instance, by text and by buggy SQL.

A pair is flagged when the same training instance is more similar than both thresholds (BIRD-RL, SIX-GYM-SQLite
section: 0.85 for text, 0.90 for SQL). The paper does not name its vectoriser; ours is word 1-2-grams with smooth idf,
rows of unit length, fitted on both sides together. This module holds the exhaustive comparison of sets in memory;
`birdrl.audit.streaming` gives the same result for training sets of any size.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix  # type: ignore[import-untyped]
from sklearn.feature_extraction.text import TfidfVectorizer

from birdrl.audit.normalise import normalise_sql, normalise_text
from birdrl.audit.rows import Row

# Single characters count as words: short identifiers and digits carry meaning in SQL.
TOKEN = r"(?u)\w+"
# Cells of one dense block; two views of 8 bytes each keep a block under 64 MiB.
BLOCK_CELLS = 4_000_000
# Cells of the evaluation set as a dense matrix; a larger one stays sparse.
DENSE_CELLS = 32_000_000
# Cosines are rounded here so that a similarity equal to a threshold is not flagged through the last bits of a float.
DECIMALS = 12

Matrix = NDArray[np.float64]
_word = re.compile(TOKEN)


@dataclass(frozen=True)
class Thresholds:
    """Cosines above which a pair is flagged when both hold, and how many of the closest pairs are wanted."""

    text: float
    sql: float
    closest: int


@dataclass(frozen=True)
class Pair:
    """A training x evaluation pair with its two cosines in [0, 1]: `train` is `Row.number`, `eval` an index from 0."""

    train: int
    eval: int
    text: float
    sql: float

    def closeness(self, thresholds: Thresholds) -> float:
        """The smaller similarity, each relative to its threshold: above 1 exactly for flagged pairs."""
        return min(self.text / thresholds.text, self.sql / thresholds.sql)

    def flagged(self, thresholds: Thresholds) -> bool:
        """Whether both similarities lie strictly above their thresholds."""
        return self.text > thresholds.text and self.sql > thresholds.sql


@dataclass(frozen=True)
class DualView:
    """Result over all pairs.

    `text_above` and `sql_above` count pairs above one threshold, whatever the other says; None where they were not
    counted. `closest_complete`: no pair outside of `closest` is closer than one in it.
    """

    pairs: int
    text_above: int | None
    sql_above: int | None
    flagged: tuple[Pair, ...]
    closest: tuple[Pair, ...]
    closest_complete: bool = True


def text_of(row: Row) -> str:
    """What the text view compares."""
    return normalise_text(row.text)


def sql_of(row: Row) -> str:
    """What the SQL view compares; literals stay as they are, as in the paper."""
    return normalise_sql(row.sql)


def terms(text: str) -> list[str]:
    """Words and pairs of neighbouring words of a normalised text, repeats included."""
    found: list[str] = _word.findall(text)
    return [*found, *map(" ".join, pairwise(found))]


def above_both(text: Matrix, sql: Matrix, text_threshold: float, sql_threshold: float) -> NDArray[np.bool_]:
    """Where both similarities of the same pair lie strictly above their thresholds; shapes (rows, columns)."""
    return (text > text_threshold) & (sql > sql_threshold)


def tfidf_pair(train: Sequence[str], evaluation: Sequence[str]) -> tuple[csr_matrix, csr_matrix]:
    """Unit-length TF-IDF rows of both sides, fitted on the union: shapes (train, terms) and (evaluation, terms).

    Only the terms of the evaluation side are kept as columns, the lengths are those over all terms. Texts without a
    single word give zero rows, whose cosine with everything is 0.
    """
    documents = [*train, *evaluation]
    vectoriser = TfidfVectorizer(analyzer=terms, smooth_idf=True, sublinear_tf=False, norm="l2")
    if not any(_word.search(text) for text in documents):
        return csr_matrix((len(train), 1)), csr_matrix((len(evaluation), 1))
    matrix = csr_matrix(vectoriser.fit_transform(documents))
    left, right = matrix[: len(train)], matrix[len(train) :]
    columns = np.unique(right.indices)
    return left[:, columns], right[:, columns]


def transposed(evaluation: csr_matrix) -> csr_matrix | Matrix:
    """The evaluation side as the right factor of a product: dense where it is small enough, which is faster."""
    rows, columns = evaluation.shape
    return np.ascontiguousarray(evaluation.toarray().T) if rows * columns <= DENSE_CELLS else evaluation.T.tocsr()


def cosines(left: csr_matrix, right: csr_matrix | Matrix) -> Matrix:
    """All cosines of unit-length rows with `transposed` ones, rounded and clipped to [0, 1]; shape (rows, columns)."""
    product = left @ right
    dense: Matrix = np.asarray(product if isinstance(product, np.ndarray) else product.toarray(), dtype=np.float64)
    # Rounding may lift an exact copy a hair above 1.
    return np.clip(np.round(dense, DECIMALS), 0.0, 1.0)


def compare(
    train: Sequence[Row],
    evaluation: Sequence[Row],
    thresholds: Thresholds,
    *,
    block_cells: int = BLOCK_CELLS,
    progress: Callable[[float], None] = lambda share: None,
) -> DualView:
    """Compare all pairs in blocks of training rows; beyond the sets themselves, memory is bounded by `block_cells`.

    `closest` pairs are those nearest to being flagged, by `Pair.closeness`. Ties go by file order. `progress` is
    called with the share of the work just done.
    """
    if not train or not evaluation:
        return DualView(0, 0, 0, (), ())
    text_train, text_eval = tfidf_pair([text_of(row) for row in train], [text_of(row) for row in evaluation])
    sql_train, sql_eval = tfidf_pair([sql_of(row) for row in train], [sql_of(row) for row in evaluation])
    text_right, sql_right = transposed(text_eval), transposed(sql_eval)
    text_above = sql_above = 0
    flagged: list[Pair] = []
    nearest: list[tuple[float, int, int, Pair]] = []
    for start, stop in _row_blocks(len(train), max(1, block_cells // len(evaluation))):
        text = cosines(text_train[start:stop], text_right)
        sql = cosines(sql_train[start:stop], sql_right)
        text_above += int((text > thresholds.text).sum())
        sql_above += int((sql > thresholds.sql).sum())

        def pair(row: int, column: int, text: Matrix = text, sql: Matrix = sql, start: int = start) -> Pair:
            return Pair(train[start + row].number, column, float(text[row, column]), float(sql[row, column]))

        places = np.argwhere(above_both(text, sql, thresholds.text, thresholds.sql))
        flagged += [pair(int(row), int(column)) for row, column in places]
        closeness = np.minimum(text / thresholds.text, sql / thresholds.sql)
        for row, column in largest(closeness, thresholds.closest):
            nearest.append((-float(closeness[row, column]), start + row, column, pair(row, column)))
        nearest = heapq.nsmallest(thresholds.closest, nearest, key=lambda entry: entry[:3])
        progress((stop - start) / len(train))
    return DualView(
        pairs=len(train) * len(evaluation),
        text_above=text_above,
        sql_above=sql_above,
        flagged=tuple(flagged),
        closest=tuple(entry[3] for entry in nearest),
    )


def largest(values: Matrix, count: int) -> list[tuple[int, int]]:
    """Places of the `count` largest cells; among equal ones the first in row-major order."""
    flat = values.ravel()
    count = min(count, flat.size)
    limit = np.partition(flat, flat.size - count)[flat.size - count]
    above = np.flatnonzero(flat > limit)
    equal = np.flatnonzero(flat == limit)[: count - above.size]
    width = values.shape[1]
    return [(int(place) // width, int(place) % width) for place in np.concatenate([above, equal])]


def _row_blocks(rows: int, size: int) -> Iterator[tuple[int, int]]:
    for start in range(0, rows, size):
        yield start, min(start + size, rows)
