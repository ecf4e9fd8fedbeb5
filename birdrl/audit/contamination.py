"""The contamination audit as a whole: exact overlaps, the dual-view comparison, and which training rows go."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from birdrl.audit.overlap import Overlap, Shared, find_overlap
from birdrl.audit.similarity import DualView, Pair, compare
from birdrl.gym.instance import Instance
from birdrl.params import AuditParams

SHOWN_SHARED = 50  # entries of one kind of overlap that the report lists; the counts are always complete


@dataclass(frozen=True)
class Flag:
    """A training instance that is excluded, why, and what it resembles.

    Reasons: `near_duplicate` (dual view), `exact_copy` (same text and same buggy SQL), `same_source`.
    Similarities belong to the nearest evaluation instance of a `near_duplicate` and are None otherwise.
    """

    instance_id: str
    reasons: tuple[str, ...]
    eval_ids: tuple[str, ...]
    text_similarity: float | None
    sql_similarity: float | None


@dataclass(frozen=True)
class Audit:
    """Everything the audit found. `flags` are in the order of the training file."""

    train: Sequence[Instance]
    evaluation: Sequence[Instance]
    params: AuditParams
    overlap: Overlap
    views: DualView
    flags: tuple[Flag, ...]

    @property
    def kept(self) -> list[bool]:
        """For each training row, whether it stays."""
        flagged = {flag.instance_id for flag in self.flags}
        return [instance.instance_id not in flagged for instance in self.train]

    def counts(self) -> dict[str, int]:
        """The numbers a reader looks for first, databases on top."""
        overlap = self.overlap
        touched = {eval_id for flag in self.flags for eval_id in flag.eval_ids}
        return {
            "database_overlap": len(overlap.databases),
            "template_overlap": len(overlap.templates),
            "source_overlap": len(overlap.sources),
            "exact_issue_text": len(overlap.issue_text),
            "exact_issue_sql": len(overlap.issue_sql),
            "exact_solution_sql": len(overlap.solution_sql),
            "exact_joint": len(overlap.joint),
            "near_duplicate_pairs": len(self.views.flagged),
            "train_instances": len(self.train),
            "eval_instances": len(self.evaluation),
            "pairs": self.views.pairs,
            "pairs_above_text_threshold": self.views.text_above,
            "pairs_above_sql_threshold": self.views.sql_above,
            "flagged_train": len(self.flags),
            "flagged_eval": len(touched),
            "kept_train": sum(self.kept),
            "train_without_source": overlap.without_source[0],
            "eval_without_source": overlap.without_source[1],
        }

    def to_json(self) -> dict[str, Any]:
        """JSON-ready report, counts first."""
        return {
            "counts": self.counts(),
            "thresholds": {"text": self.params.text_threshold, "sql": self.params.sql_threshold, "strict": True},
            "vectoriser": "word 1-2-grams, smooth idf, L2, fitted on the union of training and evaluation",
            "overlap": {
                kind: [asdict(shared) for shared in getattr(self.overlap, kind)[:SHOWN_SHARED]]
                for kind in ("databases", "templates", "sources", "issue_text", "issue_sql", "solution_sql", "joint")
            },
            "flagged": [asdict(flag) for flag in self.flags],
            "closest": [self._pair(pair) for pair in self.views.closest],
        }

    def _pair(self, pair: Pair) -> dict[str, Any]:
        sides = {"train": self.train[pair.train], "eval": self.evaluation[pair.eval]}
        return {
            "text_similarity": pair.text,
            "sql_similarity": pair.sql,
            "flagged": pair.text > self.params.text_threshold and pair.sql > self.params.sql_threshold,
            **{
                side: {
                    "instance_id": instance.instance_id,
                    "db_id": instance.db_id,
                    "query": instance.query,
                    "issue_sql": instance.issue_sql,
                }
                for side, instance in sides.items()
            },
        }


def audit(
    train: Sequence[Instance],
    evaluation: Sequence[Instance],
    template_hashes: Mapping[str, str],
    params: AuditParams,
) -> Audit:
    """Compare training with evaluation instances (BIRD-RL, SIX-GYM-SQLite section).

    `template_hashes`: database id -> SHA-256 of its template. Raises InputError when an instance's database is not
    in it. A database on both sides is reported, not repaired: the split is at fault then, not single rows.
    """
    overlap = find_overlap(train, evaluation, template_hashes)
    views = compare(
        train,
        evaluation,
        text_threshold=params.text_threshold,
        sql_threshold=params.sql_threshold,
        closest=params.closest_pairs,
    )
    return Audit(train, evaluation, params, overlap, views, _flags(train, evaluation, overlap, views))


def _flags(
    train: Sequence[Instance], evaluation: Sequence[Instance], overlap: Overlap, views: DualView
) -> tuple[Flag, ...]:
    near: dict[str, list[Pair]] = defaultdict(list)
    for pair in views.flagged:
        near[train[pair.train].instance_id].append(pair)
    copies, sources = _by_train(overlap.joint), _by_train(overlap.sources)
    flags = []
    for identifier in dict.fromkeys(instance.instance_id for instance in train):
        pairs = sorted(near[identifier], key=lambda pair: (-min(pair.text, pair.sql), pair.eval))
        reasons = {"near_duplicate": pairs, "exact_copy": copies[identifier], "same_source": sources[identifier]}
        if not any(reasons.values()):
            continue
        eval_ids = [evaluation[pair.eval].instance_id for pair in pairs] + copies[identifier] + sources[identifier]
        flags.append(
            Flag(
                instance_id=identifier,
                reasons=tuple(reason for reason, found in reasons.items() if found),
                eval_ids=tuple(dict.fromkeys(eval_ids)),
                text_similarity=pairs[0].text if pairs else None,
                sql_similarity=pairs[0].sql if pairs else None,
            )
        )
    return tuple(flags)


def _by_train(shared: Sequence[Shared]) -> dict[str, list[str]]:
    partners: dict[str, list[str]] = defaultdict(list)
    for entry in shared:
        for identifier in entry.train:
            partners[identifier].extend(entry.eval)
    return partners
