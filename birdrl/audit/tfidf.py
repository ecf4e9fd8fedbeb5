"""TF-IDF over a stream in bounded memory: exact for the terms of the evaluation set, an upper bound for the others.

A cosine with an evaluation row needs the document frequency of every term of the training row: of shared terms for
the product, of all others for the row's length. The others are too many to count one by one at a million rows, so they
share a fixed number of counters. A shared counter can only be too high, hence idf and length too low and the cosine
too high: nothing that is above a threshold is missed. What is found is then computed exactly.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from zlib import crc32

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix  # type: ignore[import-untyped]

from birdrl.audit.similarity import Matrix, terms, transposed

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Encoded:
    """Texts as term places and counts. Entries of all texts one after the other: `text` says whose they are."""

    texts: int
    text: Ints
    place: Ints
    count: Floats

    def weights(self, idf: Floats) -> Floats:
        """TF-IDF weight of each entry."""
        return np.asarray(self.count * idf[self.place], dtype=np.float64)

    def lengths(self, idf: Floats) -> Floats:
        """Euclidean length of each text's vector; a lower bound where places are shared."""
        return np.sqrt(np.bincount(self.text, self.weights(idf) ** 2, minlength=self.texts))

    def frequencies(self) -> tuple[Ints, Ints]:
        """(places, number of distinct terms of the texts that fell there)."""
        places, counts = np.unique(self.place, return_counts=True)
        return places, counts


class Vocabulary:
    """Places of terms: one for each term of the evaluation texts, `buckets` more that all other terms share."""

    def __init__(self, evaluation: Sequence[str], buckets: int) -> None:
        known = {term for text in evaluation for term in terms(text)}
        self.columns = {term: column for column, term in enumerate(sorted(known))}
        self.buckets = buckets

    @property
    def size(self) -> int:
        return len(self.columns) + self.buckets

    def encode(self, texts: Sequence[str]) -> Encoded:
        """Each distinct term of each text is one entry, also where two fall on the same place."""
        width = len(self.columns)
        text: list[int] = []
        place: list[int] = []
        count: list[int] = []
        for number, words in enumerate(texts):
            counts = Counter(terms(words))
            text += [number] * len(counts)
            count += counts.values()
            for term in counts:
                column = self.columns.get(term)
                place.append(
                    width + crc32(term.encode("utf-8", "surrogatepass")) % self.buckets if column is None else column
                )
        return Encoded(
            len(texts), np.array(text, np.int64), np.array(place, np.int64), np.array(count, dtype=np.float64)
        )

    def unknown(self, texts: Iterable[str]) -> set[str]:
        """Terms that no evaluation text has."""
        return {term for text in texts for term in terms(text) if term not in self.columns}

    def unit_rows(self, encoded: Encoded, idf: Floats, lengths: Floats) -> csr_matrix:
        """Rows divided by `lengths`, evaluation terms only: shape (texts, evaluation terms). Empty texts give zeros."""
        width = len(self.columns)
        known = encoded.place < width
        values = encoded.weights(idf)[known] / lengths[encoded.text[known]]
        return csr_matrix((values, (encoded.text[known], encoded.place[known])), shape=(encoded.texts, max(width, 1)))

    def evaluation_matrix(self, evaluation: Sequence[str], idf: Floats) -> csr_matrix | Matrix:
        """Unit rows of the evaluation texts as the right factor of a product."""
        encoded = self.encode(evaluation)
        return transposed(self.unit_rows(encoded, idf, encoded.lengths(idf)))


def smooth_idf(frequencies: Ints, documents: int) -> Floats:
    """ln((1 + n) / (1 + df)) + 1; a shared counter may exceed the number of documents and then counts as all."""
    return np.asarray(np.log((1 + documents) / (1 + np.minimum(frequencies, documents))) + 1, dtype=np.float64)


def exact_lengths(texts: Sequence[str], frequency: Mapping[str, int], documents: int) -> Floats:
    """Euclidean lengths by the true document frequency of every term."""
    lengths = []
    for text in texts:
        counts = Counter(terms(text))
        found = np.array([frequency[term] for term in counts], np.int64)
        lengths.append(float(np.linalg.norm(np.array(list(counts.values()), float) * smooth_idf(found, documents))))
    return np.array(lengths)


def count_wanted(texts: Iterable[str], wanted: frozenset[str]) -> Counter[str]:
    """In how many texts each wanted term occurs."""
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(wanted.intersection(terms(text)))
    return counts
