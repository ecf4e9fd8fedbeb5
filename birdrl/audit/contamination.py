"""The contamination audit as a whole: exact overlaps, the dual-view comparison, and which training rows go."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from birdrl.audit.databases import Database
from birdrl.audit.executed import result_hashes
from birdrl.audit.overlap import CHANNELS, EvalIndex, Overlap
from birdrl.audit.rows import Row, blocks_of, find_rows, is_list, read_rows
from birdrl.audit.similarity import DualView, Pair, Thresholds, compare
from birdrl.audit.streaming import stream
from birdrl.errors import InputError
from birdrl.params import AuditParams
from birdrl.sql.pool import ReplicaPool

SHOWN_SHARED = 50  # entries of one kind of overlap that the report lists; the counts are always complete
# Reasons for which a row can be excluded and the channel in which it then shares something.
COPY_REASONS = {
    "exact_copy": "joint",
    "same_source": "sources",
    "same_text": "issue_text",
    "same_sql": "issue_sql",
    "same_masked_sql": "masked_issue_sql",
    "same_solution": "solution_sql",
    "same_result": "results",
}
# Names of the counts of shared values.
COUNTS = {
    "databases": "database_overlap",
    "templates": "template_overlap",
    "schemas": "schema_overlap",
    "sources": "source_overlap",
    "issue_text": "exact_issue_text",
    "issue_sql": "exact_issue_sql",
    "masked_issue_sql": "masked_issue_sql",
    "solution_sql": "exact_solution_sql",
    "masked_solution_sql": "masked_solution_sql",
    "results": "result_overlap",
    "joint": "exact_joint",
}


@dataclass(frozen=True)
class Flag:
    """A training instance that is excluded, why, and what it resembles. `number` is its `Row.number`.

    Reasons: `near_duplicate` (dual view) and the keys of COPY_REASONS. Similarities belong to the nearest evaluation
    instance of a `near_duplicate` and are None otherwise.
    """

    number: int
    instance_id: str
    reasons: tuple[str, ...]
    eval_ids: tuple[str, ...]
    text_similarity: float | None
    sql_similarity: float | None


@dataclass(frozen=True)
class Audit:
    """Everything the audit found. `flags` are in the order of the training file; `shown` holds the training rows of
    the closest pairs by number."""

    params: AuditParams
    evaluation: Sequence[Row]
    overlap: Overlap
    views: DualView
    flags: tuple[Flag, ...]
    shown: Mapping[int, Row]
    exhaustive: bool

    @property
    def excluded(self) -> frozenset[int]:
        """Numbers of the training rows that go."""
        return frozenset(flag.number for flag in self.flags)

    @property
    def clean(self) -> bool:
        """No database, schema or flagged row on both sides."""
        counts = self.counts()
        return not any(
            counts[key] for key in ("database_overlap", "template_overlap", "schema_overlap", "flagged_train")
        )

    def counts(self) -> dict[str, int | None]:
        """The numbers a reader looks for first, databases on top; None for what was not looked at."""
        shared, missing = self.overlap.shared, self.overlap.missing
        touched = {eval_id for flag in self.flags for eval_id in flag.eval_ids}
        without = {
            f"{side}_without_{channel}": missing[name][place] if name in missing else None
            for name, channel in (("sources", "source"), ("solution_sql", "solution"), ("results", "result"))
            for place, side in enumerate(("train", "eval"))
        }
        return {
            **{COUNTS[channel]: len(shared[channel]) if channel in shared else None for channel in CHANNELS},
            "near_duplicate_pairs": len(self.views.flagged),
            "train_instances": self.overlap.rows,
            "eval_instances": len(self.evaluation),
            "pairs": self.views.pairs,
            "pairs_above_text_threshold": self.views.text_above,
            "pairs_above_sql_threshold": self.views.sql_above,
            "flagged_train": len(self.flags),
            "flagged_eval": len(touched),
            "kept_train": self.overlap.rows - len(self.flags),
            **without,
        }

    def to_json(self) -> dict[str, Any]:
        """JSON-ready report, counts first."""
        return {
            "counts": self.counts(),
            "mode": "exhaustive" if self.exhaustive else "streaming",
            "thresholds": {"text": self.params.text_threshold, "sql": self.params.sql_threshold, "strict": True},
            "vectoriser": "word 1-2-grams, smooth idf, L2, fitted on the union of training and evaluation",
            "overlap": {
                channel: [asdict(entry) for entry in sorted(entries, key=lambda e: -e.count)[:SHOWN_SHARED]]
                for channel, entries in self.overlap.shared.items()
            },
            "flagged": [asdict(flag) for flag in self.flags],
            "closest_complete": self.views.closest_complete,
            "closest": [self._pair(pair) for pair in self.views.closest],
        }

    def _pair(self, pair: Pair) -> dict[str, Any]:
        sides = {"train": self.shown[pair.train], "eval": self.evaluation[pair.eval]}
        return {
            "text_similarity": pair.text,
            "sql_similarity": pair.sql,
            "flagged": pair.flagged(thresholds_of(self.params)),
            **{
                side: {
                    "instance_id": row.instance_id,
                    "db_id": row.db_id,
                    "query": row.text,
                    "issue_sql": list(row.sql),
                }
                for side, row in sides.items()
            },
        }


def audit(
    train: Path | Sequence[Row],
    evaluation: Path | Sequence[Row],
    params: AuditParams,
    *,
    databases: Mapping[str, Database] | None = None,
    pool: ReplicaPool | None = None,
    progress: Callable[[float], None] = lambda share: None,
) -> Audit:
    """Compare training with evaluation instances (BIRD-RL, SIX-GYM-SQLite section).

    A training file of more than `params.exhaustive_rows` rows is streamed in bounded memory, with the same flags.
    `databases` by id enable the comparison of templates and schemas, and with `pool` that of the solutions' results.
    `progress` is called with the share of the work just done. A database on both sides is reported, not repaired: the
    split is at fault then, not single rows. Raises InputError for a row that cannot be read, naming file, line and
    field, and for one whose database is not among `databases`; InfraError when workers fail.
    """
    train = _fitting(train, params)
    rows = read_rows(evaluation) if isinstance(evaluation, Path) else evaluation

    def hashed(some: Sequence[Row]) -> list[str | None]:
        return list(result_hashes(some, databases or {}, pool)) if pool is not None else []

    executed = databases is not None and pool is not None
    if "same_result" in params.exclude and not executed:
        raise InputError("audit.exclude names same_result, which needs the databases and audit.results: true")
    report = {COPY_REASONS[reason] for reason in params.exclude if reason in COPY_REASONS}
    index = EvalIndex(rows, databases, hashed(rows) if executed else None, report)
    thresholds = thresholds_of(params)
    if isinstance(train, Path):
        overlap, views = stream(
            train, rows, index, thresholds, workers=params.workers, results=hashed if executed else None,
            progress=progress,
        )  # fmt: skip
        flagged = {pair.train for pair in views.flagged}
        shown = find_rows(train, {*flagged, *(pair.train for pair in views.closest)})
    else:
        overlap = index.collect([index.scan(train, hashed(train) if executed else None)])
        views = compare(train, rows, thresholds, progress=progress)
        shown = {row.number: row for row in train}
    return Audit(
        params=params,
        evaluation=rows,
        overlap=overlap,
        views=views,
        flags=_flags(rows, overlap, views, shown, params),
        shown={pair.train: shown[pair.train] for pair in views.closest},
        exhaustive=not isinstance(train, Path),
    )


def thresholds_of(params: AuditParams) -> Thresholds:
    """The thresholds of both views."""
    return Thresholds(params.text_threshold, params.sql_threshold, params.closest_pairs)


def _fitting(train: Path | Sequence[Row], params: AuditParams) -> Path | Sequence[Row]:
    """The rows of a file that is small enough to be compared exhaustively, else the path."""
    if not isinstance(train, Path) or is_list(train):
        return read_rows(train) if isinstance(train, Path) else train
    lines = sum(block.lines for block in blocks_of(train))
    return train if lines > params.exhaustive_rows else read_rows(train)


def _flags(
    evaluation: Sequence[Row], overlap: Overlap, views: DualView, rows: Mapping[int, Row], params: AuditParams
) -> tuple[Flag, ...]:
    near: dict[int, list[Pair]] = defaultdict(list)
    if "near_duplicate" in params.exclude:
        for pair in views.flagged:
            near[pair.train].append(pair)
    copies = {copy.number: copy for copy in overlap.copies}
    flags = []
    for number in sorted(near.keys() | copies.keys()):
        pairs = sorted(near[number], key=lambda pair: (-min(pair.text, pair.sql), pair.eval))
        copy = copies.get(number)
        partners = copy.partners if copy else {}
        reasons = ["near_duplicate"] if pairs else []
        reasons += [reason for reason, channel in COPY_REASONS.items() if channel in partners]
        indices = [pair.eval for pair in pairs] + [
            index for channel in COPY_REASONS.values() for index in partners.get(channel, ())
        ]
        flags.append(
            Flag(
                number=number,
                instance_id=copy.instance_id if copy else rows[number].instance_id,
                reasons=tuple(reasons),
                eval_ids=tuple(dict.fromkeys(evaluation[index].instance_id for index in indices)),
                text_similarity=pairs[0].text if pairs else None,
                sql_similarity=pairs[0].sql if pairs else None,
            )
        )
    return tuple(flags)


def check_sides(train: Path, evaluation: Path) -> None:
    """Raise InputError when both sides are one file: everything would be a copy of itself."""
    if train.resolve() == evaluation.resolve():
        raise InputError(f"{train}: named as training and as evaluation file; name two files")
