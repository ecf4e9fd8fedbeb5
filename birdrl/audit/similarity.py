"""The dual-view TF-IDF audit: every training instance against every evaluation instance, by text and by buggy SQL.

A pair is flagged when the same training instance is more similar than both thresholds (BIRD-RL, SIX-GYM-SQLite
section: 0.85 for text, 0.90 for SQL). The paper does not name its vectoriser; ours is word 1-2-grams with smooth idf,
rows of unit length, fitted on both sides together.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix  # type: ignore[import-untyped]
from sklearn.feature_extraction.text import TfidfVectorizer

from birdrl.audit.normalise import normalise_sql, normalise_text
from birdrl.gym.instance import Instance

# Single characters count as words: short identifiers and digits carry meaning in SQL.
TOKEN = r"(?u)\w+"
# Cells of one dense block; two views of 8 bytes each keep a block under 64 MiB.
BLOCK_CELLS = 4_000_000
# Cosines are rounded here so that a similarity equal to a threshold is not flagged through the last bits of a float.
DECIMALS = 12

Matrix = NDArray[np.float64]


@dataclass(frozen=True)
class Pair:
    """A training x evaluation pair by row numbers, with its two cosines in [0, 1]."""

    train: int
    eval: int
    text: float
    sql: float


@dataclass(frozen=True)
class DualView:
    """Result over all pairs. `text_above` and `sql_above` count pairs above one threshold, whatever the other says."""

    pairs: int
    text_above: int
    sql_above: int
    flagged: tuple[Pair, ...]
    closest: tuple[Pair, ...]


def above_both(text: Matrix, sql: Matrix, text_threshold: float, sql_threshold: float) -> NDArray[np.bool_]:
    """Where both similarities of the same pair lie strictly above their thresholds; shapes (rows, columns)."""
    return (text > text_threshold) & (sql > sql_threshold)


def tfidf_pair(train: Sequence[str], evaluation: Sequence[str]) -> tuple[csr_matrix, csr_matrix]:
    """Unit-length TF-IDF rows of both sides, fitted on the union: shapes (train, terms) and (evaluation, terms).

    Texts without a single word give zero rows, whose cosine with everything is 0.
    """
    documents = [*train, *evaluation]
    vectoriser = TfidfVectorizer(
        lowercase=False, token_pattern=TOKEN, ngram_range=(1, 2), smooth_idf=True, sublinear_tf=False, norm="l2"
    )
    if not any(any(character.isalnum() or character == "_" for character in text) for text in documents):
        return csr_matrix((len(train), 1)), csr_matrix((len(evaluation), 1))
    matrix = csr_matrix(vectoriser.fit_transform(documents))
    return matrix[: len(train)], matrix[len(train) :]


def compare(
    train: Sequence[Instance],
    evaluation: Sequence[Instance],
    *,
    text_threshold: float,
    sql_threshold: float,
    closest: int,
    block_cells: int = BLOCK_CELLS,
) -> DualView:
    """Compare all pairs in blocks of training rows; memory is bounded by `block_cells`, whatever the number of rows.

    `closest` pairs are those nearest to being flagged: the larger the smaller of the two similarities, each taken
    relative to its threshold. Ties go by file order.
    """
    if not train or not evaluation:
        return DualView(0, 0, 0, (), ())
    text_train, text_eval = tfidf_pair(
        [normalise_text(instance.query) for instance in train],
        [normalise_text(instance.query) for instance in evaluation],
    )
    sql_train, sql_eval = tfidf_pair(
        [normalise_sql(instance.issue_sql) for instance in train],
        [normalise_sql(instance.issue_sql) for instance in evaluation],
    )
    text_above = sql_above = 0
    flagged: list[Pair] = []
    nearest: list[tuple[float, int, int, float, float]] = []
    for start, stop in _row_blocks(len(train), max(1, block_cells // len(evaluation))):
        text = _cosine(text_train[start:stop], text_eval)
        sql = _cosine(sql_train[start:stop], sql_eval)
        text_above += int((text > text_threshold).sum())
        sql_above += int((sql > sql_threshold).sum())
        for row, column in np.argwhere(above_both(text, sql, text_threshold, sql_threshold)):
            flagged.append(Pair(start + int(row), int(column), float(text[row, column]), float(sql[row, column])))
        closeness = np.minimum(text / text_threshold, sql / sql_threshold)
        for row, column in _largest(closeness, closest):
            nearest.append(
                (-float(closeness[row, column]), start + row, column, float(text[row, column]), float(sql[row, column]))
            )
        nearest = heapq.nsmallest(closest, nearest)
    return DualView(
        pairs=len(train) * len(evaluation),
        text_above=text_above,
        sql_above=sql_above,
        flagged=tuple(flagged),
        closest=tuple(Pair(row, column, text, sql) for _, row, column, text, sql in nearest),
    )


def _row_blocks(rows: int, size: int) -> Iterator[tuple[int, int]]:
    for start in range(0, rows, size):
        yield start, min(start + size, rows)


def _cosine(left: csr_matrix, right: csr_matrix) -> Matrix:
    # Rows have unit length, so the product is the cosine; rounding may lift an exact copy a hair above 1.
    product: Matrix = np.asarray((left @ right.T).toarray(), dtype=np.float64)
    return np.clip(np.round(product, DECIMALS), 0.0, 1.0)


def _largest(values: Matrix, count: int) -> list[tuple[int, int]]:
    """Places of the `count` largest cells; among equal ones the first in row-major order."""
    flat = values.ravel()
    count = min(count, flat.size)
    limit = np.partition(flat, flat.size - count)[flat.size - count]
    above = np.flatnonzero(flat > limit)
    equal = np.flatnonzero(flat == limit)[: count - above.size]
    width = values.shape[1]
    return [(int(place) // width, int(place) % width) for place in np.concatenate([above, equal])]
