"""What training and evaluation share exactly: databases, schemas, sources, texts, SQL and results.

These counts come before any similarity: a database on both sides is the first thing a reader must know. The
evaluation set is indexed in memory and the training rows pass by, so memory does not grow with their number.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from birdrl.audit.databases import Database, database_of
from birdrl.audit.masking import MaskedSql, masked_sql, words
from birdrl.audit.normalise import normalise_sql, normalise_text
from birdrl.audit.rows import Row

# In the order in which a reader should look at them.
CHANNELS = (
    "databases", "templates", "schemas", "sources", "issue_text", "issue_sql", "masked_issue_sql", "solution_sql",
    "masked_solution_sql", "results", "joint",
)  # fmt: skip
COUNTED_MISSING = frozenset({"sources", "solution_sql", "results"})
NEED_DATABASES = frozenset({"templates", "schemas", "results"})
LISTED_IDS = 100  # training rows listed for one shared value; its count is complete
SHOWN_CHARS = 300  # of a shared text or SQL


@dataclass(frozen=True)
class Shared:
    """One value that occurs on both sides, the number of training rows that carry it, and the instances: all of the
    evaluation, the first of the training set, in file order."""

    value: str
    count: int
    train: tuple[str, ...]
    eval: tuple[str, ...]


@dataclass(frozen=True)
class Copy:
    """A training row that shares a value with evaluation rows (by index), and in which channels."""

    number: int
    instance_id: str
    partners: Mapping[str, tuple[int, ...]]


@dataclass
class Overlap:
    """Exact overlaps of two sets, filled by `EvalIndex.scan`.

    `shared` has an entry for every channel that was looked at. `copies` are the rows that share what the caller asked
    to be told of. `missing` counts, for some channels, the (training, evaluation) rows that have nothing to compare.
    """

    shared: dict[str, list[Shared]] = field(default_factory=dict)
    copies: list[Copy] = field(default_factory=list)
    rows: int = 0
    missing: dict[str, tuple[int, int]] = field(default_factory=dict)


@dataclass
class Found:
    """What one stretch of training rows shares with the evaluation set."""

    rows: int = 0
    missing: Counter[str] = field(default_factory=Counter)
    counts: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    ids: dict[tuple[str, str], list[str]] = field(default_factory=lambda: defaultdict(list))
    copies: list[Copy] = field(default_factory=list)


class EvalIndex:
    """The evaluation set by everything that training rows may share with it. Can be sent to another process.

    `databases` gives the databases of both sides by id; without it the channels that need them are left out.
    `results` gives, for evaluation rows by index, the hash of the solution's result.
    """

    def __init__(
        self,
        evaluation: Sequence[Row],
        databases: Mapping[str, Database] | None,
        results: Sequence[str | None] | None = None,
        report: Iterable[str] = (),
    ) -> None:
        self._databases = databases
        self._eval_ids = [row.instance_id for row in evaluation]
        self._missing: Counter[str] = Counter()
        self._report = frozenset(report)
        checked = {*CHANNELS} - (set() if databases is not None else NEED_DATABASES)
        self.channels = tuple(c for c in CHANNELS if c in checked and not (c == "results" and results is None))
        self._keys: dict[str, dict[str, list[int]]] = {channel: defaultdict(list) for channel in self.channels}
        masks = {"masked_issue_sql": _MaskIndex(), "masked_solution_sql": _MaskIndex()}
        for index, row in enumerate(evaluation):
            keys = self._cheap_keys(row, None if results is None else results[index])
            for channel, statements in (("masked_issue_sql", row.sql), ("masked_solution_sql", row.solution)):
                masked = masked_sql(statements, row.dialect)
                masks[channel].add(masked)
                keys[channel] = masked.text or None
            self._missing.update(channel for channel in keys.keys() & COUNTED_MISSING if keys[channel] is None)
            for channel, key in keys.items():
                if key is not None:
                    self._keys[channel][key].append(index)
        self._masks = masks

    def scan(self, rows: Sequence[Row], results: Sequence[str | None] | None = None) -> Found:
        """What these training rows share; `results` as for the evaluation rows."""
        found = Found(rows=len(rows))
        for place, row in enumerate(rows):
            keys = self._cheap_keys(row, None if results is None else results[place])
            found.missing.update(channel for channel in keys.keys() & COUNTED_MISSING if keys[channel] is None)
            for channel, statements in (("masked_issue_sql", row.sql), ("masked_solution_sql", row.solution)):
                if self._masks[channel].may_hold(statements):
                    keys[channel] = masked_sql(statements, row.dialect).text or None
            partners: dict[str, tuple[int, ...]] = {}
            for channel, key in keys.items():
                if key is None or key not in self._keys[channel]:
                    continue
                found.counts[channel][key] += 1
                listed = found.ids[channel, key]
                if len(listed) < LISTED_IDS:
                    listed.append(row.instance_id)
                if channel in self._report:
                    partners[channel] = tuple(self._keys[channel][key])
            if partners:
                found.copies.append(Copy(row.number, row.instance_id, partners))
        return found

    def collect(self, parts: Iterable[Found]) -> Overlap:
        """The overlap of the whole training set from its stretches, in order."""
        total = Found()
        for part in parts:
            total.rows += part.rows
            total.missing.update(part.missing)
            total.copies += part.copies
            for channel, counts in part.counts.items():
                total.counts[channel].update(counts)
            for place, ids in part.ids.items():
                listed = total.ids[place]
                listed += ids[: LISTED_IDS - len(listed)]
        shared = {
            channel: [
                Shared(
                    value=_shown(key),
                    count=total.counts[channel][key],
                    train=tuple(total.ids[channel, key]),
                    eval=tuple(self._eval_ids[index] for index in self._keys[channel][key]),
                )
                for key in sorted(total.counts[channel])
            ]
            for channel in self.channels
        }
        missing = {c: (total.missing[c], self._missing[c]) for c in self.channels if c in COUNTED_MISSING}
        return Overlap(shared, total.copies, total.rows, missing)

    def _cheap_keys(self, row: Row, result: str | None) -> dict[str, str | None]:
        """The row's value in every channel but the masked ones; None where it has none, as an empty text has."""
        text, sql = normalise_text(row.text), normalise_sql(row.sql)
        keys: dict[str, str | None] = {
            "databases": row.db_id,
            "sources": row.source,
            "issue_text": text or None,
            "issue_sql": sql or None,
            "solution_sql": normalise_sql(row.solution) or None,
            "joint": f"{text} / {sql}" if text and sql else None,
        }
        if self._databases is not None:
            database = database_of(row.db_id, row.instance_id, self._databases)
            keys |= {"templates": database.sha256, "schemas": database.schema_sha256}
            if "results" in self.channels:
                keys["results"] = result
        return keys


class _MaskIndex:
    """Tells cheaply whether SQL may have the masked form of an indexed one: it must contain all names of that form.

    Forms are filed under one of their names, the one that fewest forms contain.
    """

    def __init__(self) -> None:
        self._forms: set[frozenset[str]] = set()
        self._filed: dict[str, list[frozenset[str]]] | None = None

    def add(self, masked: MaskedSql) -> None:
        if masked.text:
            self._forms.add(masked.names)

    def may_hold(self, statements: Sequence[str]) -> bool:
        if self._filed is None:
            spread = Counter(name for form in self._forms for name in form)
            self._filed = defaultdict(list)
            for form in sorted(self._forms, key=sorted):
                self._filed[min(form, key=lambda name: (spread[name], name), default="")].append(form)
        found = {"", *words(" ".join(statements))}
        return any(form <= found for name in found & self._filed.keys() for form in self._filed[name])


def find_overlap(
    train: Sequence[Row], evaluation: Sequence[Row], databases: Mapping[str, Database] | None = None
) -> Overlap:
    """All exact overlaps of two sets in memory, results of solutions left out."""
    index = EvalIndex(evaluation, databases)
    return index.collect([index.scan(train)])


def _shown(key: str) -> str:
    return key if len(key) <= SHOWN_CHARS else f"{key[:SHOWN_CHARS]}..."
