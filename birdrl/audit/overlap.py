"""What training and evaluation share exactly: databases, template files, sources, texts and SQL.

These counts come before any similarity: a database on both sides is the first thing a reader must know.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from birdrl.audit.normalise import fingerprint, normalise_sql, normalise_text
from birdrl.errors import InputError
from birdrl.gym.instance import Instance

# Keys of `Instance.source`: the verified SQL of our own gym, the source of imported rows, a Stack Overflow post.
SOURCE_KEYS = ("verified_sql", "source_id", "post_id")
CONSTRUCTED = "constructed"  # written without a source


@dataclass(frozen=True)
class Shared:
    """One value that occurs on both sides, with the instances that carry it, in file order."""

    value: str
    train: tuple[str, ...]
    eval: tuple[str, ...]


@dataclass(frozen=True)
class Overlap:
    """Exact overlaps of two sets. `without_source` counts (training, evaluation) rows with no source id."""

    databases: tuple[Shared, ...]
    templates: tuple[Shared, ...]
    sources: tuple[Shared, ...]
    issue_text: tuple[Shared, ...]
    issue_sql: tuple[Shared, ...]
    solution_sql: tuple[Shared, ...]
    joint: tuple[Shared, ...]
    without_source: tuple[int, int]


def source_id(instance: Instance) -> str | None:
    """Where the instance's SQL came from, or None when it has no source or its row does not say."""
    for key in SOURCE_KEYS:
        value = instance.source.get(key)
        if value not in (None, "", CONSTRUCTED):
            return f"{key}:{value}"
    return None


def text_fingerprint(instance: Instance) -> str | None:
    """Fingerprint of the issue text; None for an empty text, which would equal every other empty one."""
    return _fingerprint(normalise_text(instance.query))


def issue_fingerprint(instance: Instance) -> str | None:
    """Fingerprint of the buggy SQL, None when nothing but comments is there."""
    return _fingerprint(normalise_sql(instance.issue_sql))


def solution_fingerprint(instance: Instance) -> str | None:
    """Fingerprint of the solution SQL, None when there is no solution."""
    return _fingerprint(normalise_sql(instance.sol_sql))


def joint_fingerprint(instance: Instance) -> str | None:
    """Fingerprint of issue text and buggy SQL together."""
    text, sql = text_fingerprint(instance), issue_fingerprint(instance)
    return fingerprint(f"{text} {sql}") if text and sql else None


def find_overlap(
    train: Sequence[Instance], evaluation: Sequence[Instance], template_hashes: Mapping[str, str]
) -> Overlap:
    """All exact overlaps; `template_hashes` maps a database id to the SHA-256 of its template file.

    Raises InputError for an instance whose database has no template.
    """

    def template(instance: Instance) -> str:
        try:
            return template_hashes[instance.db_id]
        except KeyError:
            raise InputError(
                f"instance {instance.instance_id!r}: database {instance.db_id!r} is not in the template manifest; "
                "add the database to the templates or remove the instance"
            ) from None

    def shared(key: Callable[[Instance], str | None]) -> tuple[Shared, ...]:
        return _shared(_group(train, key), _group(evaluation, key))

    return Overlap(
        databases=shared(lambda instance: instance.db_id),
        templates=shared(template),
        sources=shared(source_id),
        issue_text=shared(text_fingerprint),
        issue_sql=shared(issue_fingerprint),
        solution_sql=shared(solution_fingerprint),
        joint=shared(joint_fingerprint),
        without_source=(
            sum(source_id(instance) is None for instance in train),
            sum(source_id(instance) is None for instance in evaluation),
        ),
    )


def _fingerprint(normalised: str) -> str | None:
    return fingerprint(normalised) if normalised else None


def _group(instances: Iterable[Instance], key: Callable[[Instance], str | None]) -> dict[str, list[str]]:
    groups: dict[str, list[str]] = defaultdict(list)
    for instance in instances:
        value = key(instance)
        if value is not None:
            groups[value].append(instance.instance_id)
    return groups


def _shared(train: Mapping[str, list[str]], evaluation: Mapping[str, list[str]]) -> tuple[Shared, ...]:
    return tuple(
        Shared(value, tuple(train[value]), tuple(evaluation[value])) for value in sorted(train) if value in evaluation
    )
