"""The audit's behaviour (BIRD-RL, SIX-GYM-SQLite section): what is flagged, what is not, what is counted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from birdrl.audit import contamination as under_test
from birdrl.audit.contamination import Audit
from birdrl.audit.databases import Database
from birdrl.audit.markdown import render_markdown
from birdrl.audit.rows import rows_of
from birdrl.audit.similarity import DualView, Thresholds, above_both
from birdrl.audit.similarity import compare as compare_rows
from birdrl.errors import InputError
from birdrl.gym.instance import Instance
from birdrl.params import AuditParams

MakeInstance = Callable[..., Instance]

TEXT = "The monthly revenue report counts cancelled orders although they should be left out"
SQL = "SELECT month, SUM(amount) FROM orders GROUP BY month"


def hashes(*instances: Instance) -> dict[str, str]:
    """A template hash per database, different for different databases."""
    return {instance.db_id: f"hash-of-{instance.db_id}" for instance in instances}


def audit(
    train: Sequence[Instance], evaluation: Sequence[Instance], template_hashes: dict[str, str], params: AuditParams
) -> Audit:
    """The audit of instances in memory, with databases of which only the hashes matter."""
    databases = {db_id: Database(Path("unread"), value, f"schema-{value}") for db_id, value in template_hashes.items()}
    return under_test.audit(rows_of(train), rows_of(evaluation), params, databases=databases)


def kept(result: Audit) -> list[bool]:
    return [number not in result.excluded for number in range(1, result.overlap.rows + 1)]


def compare(
    train: Sequence[Instance],
    evaluation: Sequence[Instance],
    *,
    text_threshold: float,
    sql_threshold: float,
    closest: int,
    block_cells: int = 10**6,
) -> DualView:
    thresholds = Thresholds(text_threshold, sql_threshold, closest)
    return compare_rows(rows_of(train), rows_of(evaluation), thresholds, block_cells=block_cells)


def test_an_identical_pair_is_flagged_and_excluded(make: MakeInstance, params: AuditParams) -> None:
    train = [make("t0"), make("t1", TEXT, SQL), make("t2")]
    evaluation = [make("e0", TEXT, SQL)]
    result = audit(train, evaluation, hashes(*train, *evaluation), params)
    assert kept(result) == [True, False, True]
    (flag,) = result.flags
    assert (flag.instance_id, flag.eval_ids) == ("t1", ("e0",))
    assert flag.reasons == ("near_duplicate", "exact_copy")
    assert (flag.text_similarity, flag.sql_similarity) == (1.0, 1.0)
    counts = result.counts()
    assert (counts["near_duplicate_pairs"], counts["exact_joint"], counts["kept_train"]) == (1, 1, 2)


def test_a_similarity_equal_to_its_threshold_is_not_above_it() -> None:
    text = np.array([[0.86, 0.86, 0.85, 0.86]])
    sql = np.array([[0.90, 0.91, 0.91, np.nextafter(0.90, 1)]])
    assert above_both(text, sql, 0.85, 0.90).tolist() == [[False, True, False, True]]


def test_thresholds_are_strict_end_to_end(make: MakeInstance) -> None:
    train = [make("t0", TEXT, SQL)]
    evaluation = [make("e0", TEXT + " please", SQL + " ORDER BY month")]
    (pair,) = compare(train, evaluation, text_threshold=0.5, sql_threshold=0.5, closest=1).closest
    assert 0.5 < pair.sql < 1
    assert 0.5 < pair.text < 1

    def flagged(text: float, sql: float) -> int:
        return len(compare(train, evaluation, text_threshold=text, sql_threshold=sql, closest=1).flagged)

    assert flagged(0.5, pair.sql) == 0
    assert flagged(pair.text, 0.5) == 0
    assert flagged(0.5, pair.sql - 1e-9) == 1
    assert flagged(pair.text - 1e-9, 0.5) == 1


def test_both_views_must_agree_on_the_same_training_instance(make: MakeInstance, params: AuditParams) -> None:
    train = [make("text_only", TEXT, "UPDATE shelf SET height = 3"), make("sql_only", "Shelves grow at night", SQL)]
    evaluation = [make("e0", TEXT, SQL)]
    result = audit(train, evaluation, hashes(*train, *evaluation), params)
    counts = result.counts()
    assert (counts["pairs_above_text_threshold"], counts["pairs_above_sql_threshold"]) == (1, 1)
    assert result.flags == ()
    assert kept(result) == [True, True]


def test_near_copies_are_flagged_though_no_fingerprint_matches(make: MakeInstance, params: AuditParams) -> None:
    long_text = " ".join(f"{TEXT} in region {number}." for number in range(4))
    long_sql = " UNION ALL ".join(f"{SQL} HAVING COUNT(*) > {number}" for number in range(4))
    train = [make("t0", long_text, long_sql)]
    evaluation = [make("e0", long_text + " Thanks!", long_sql + " LIMIT 5")]
    result = audit(train, evaluation, hashes(*train, *evaluation), params)
    assert result.overlap.shared["issue_text"] == []
    assert [flag.reasons for flag in result.flags] == [("near_duplicate",)]


def test_exact_overlaps_are_counted_by_kind(make: MakeInstance, params: AuditParams) -> None:
    train = [
        make("t0", "Same TEXT", "SELECT 1 FROM a"),
        make("t1", "other words", "SELECT x  FROM b -- note"),
        make("t2", "third story", "SELECT y FROM c", solution="SELECT z FROM c;"),
        make("t3", "fourth tale", "SELECT k FROM d", db_id="shop"),
    ]
    evaluation = [
        make("e0", "same  text", "SELECT 2 FROM p"),
        make("e1", "different line", "select x from b"),
        make("e2", "something else", "SELECT r FROM q", solution="select z from c"),
        make("e3", "last one here", "SELECT w FROM s", db_id="shop"),
    ]
    counts = audit(train, evaluation, hashes(*train, *evaluation), params).counts()
    kinds = ("database_overlap", "template_overlap", "exact_issue_text", "exact_issue_sql", "exact_solution_sql")
    assert {kind: counts[kind] for kind in kinds} == dict.fromkeys(kinds, 1)
    assert (counts["exact_joint"], counts["flagged_train"], counts["pairs"]) == (0, 0, 16)


def test_a_copied_template_under_another_name_is_found(make: MakeInstance, params: AuditParams) -> None:
    train, evaluation = [make("t0", db_id="shop")], [make("e0", db_id="store")]
    result = audit(train, evaluation, {"shop": "same bytes", "store": "same bytes"}, params)
    assert (result.counts()["database_overlap"], result.counts()["template_overlap"]) == (0, 1)
    (shared,) = result.overlap.shared["templates"]
    assert (shared.train, shared.eval) == (("t0",), ("e0",))


def test_a_shared_source_is_excluded_and_unknown_sources_are_counted(make: MakeInstance, params: AuditParams) -> None:
    train = [make("t0", source={"source_id": "post-9"}), make("t1", source={"source_id": "post-8"}), make("t2")]
    evaluation = [make("e0", source={"source_id": "post-9"})]
    result = audit(train, evaluation, hashes(*train, *evaluation), params)
    assert [(flag.instance_id, flag.reasons, flag.text_similarity) for flag in result.flags] == [
        ("t0", ("same_source",), None)
    ]
    assert result.counts()["train_without_source"] == 1


def test_constructed_issues_share_no_source(make: MakeInstance, params: AuditParams) -> None:
    train = [make("t0", source={"verified_sql": "constructed"}), make("t1", source={"verified_sql": "dev.json:4"})]
    evaluation = [make("e0", source={"verified_sql": "constructed"})]
    result = audit(train, evaluation, hashes(*train, *evaluation), params)
    assert result.overlap.shared["sources"] == []
    assert (kept(result), result.counts()["train_without_source"]) == ([True, True], 1)


def test_issues_without_words_are_similar_to_nothing(make: MakeInstance, params: AuditParams) -> None:
    train, evaluation = [make("t0", "???", ["--"])], [make("e0", "!!!", ["--"])]
    result = audit(train, evaluation, hashes(*train, *evaluation), params)
    assert result.flags == ()
    assert result.views.closest[0].text == 0.0


def test_blocks_change_nothing(make: MakeInstance) -> None:
    train = [make(f"t{n}", f"{TEXT} {n % 5}", f"{SQL} LIMIT {n % 3}") for n in range(23)]
    evaluation = [make(f"e{n}", f"{TEXT} {n}", f"{SQL} LIMIT {n}") for n in range(7)]

    def run(cells: int) -> object:
        return compare(train, evaluation, text_threshold=0.9, sql_threshold=0.9, closest=9, block_cells=cells)

    whole = run(10**6)
    assert run(1) == whole
    assert run(40) == whole


def test_the_closest_pairs_are_the_true_ones(make: MakeInstance) -> None:
    train = [make(f"t{n}", f"{TEXT} number {n}", f"{SQL} LIMIT {n * n}") for n in range(12)]
    evaluation = [make(f"e{n}", f"{TEXT} number {n}", f"{SQL} LIMIT {n}") for n in range(6)]
    everything = compare(train, evaluation, text_threshold=0.85, sql_threshold=0.9, closest=72).closest
    closeness = [min(pair.text / 0.85, pair.sql / 0.9) for pair in everything]
    assert closeness == sorted(closeness, reverse=True)
    assert len({(pair.train, pair.eval) for pair in everything}) == 72
    few = compare(train, evaluation, text_threshold=0.85, sql_threshold=0.9, closest=5, block_cells=13).closest
    assert few == everything[:5]


def test_the_report_is_deterministic_and_starts_with_the_counts(make: MakeInstance, params: AuditParams) -> None:
    train = [make(f"t{n}", f"{TEXT} {n}", SQL) for n in range(5)]
    evaluation = [make("e0", f"{TEXT} 3", SQL, db_id="db_of_t0")]
    first, second = (audit(train, evaluation, hashes(*train, *evaluation), params) for _ in range(2))
    assert first.to_json() == second.to_json()
    assert next(iter(first.to_json())) == "counts"
    assert next(iter(first.to_json()["counts"])) == "database_overlap"
    page = render_markdown(first)
    assert page == render_markdown(second)
    assert "db_of_t0" in page
    assert TEXT in page


def test_a_database_without_template_is_named(make: MakeInstance, params: AuditParams) -> None:
    train, evaluation = [make("t0", db_id="shop")], [make("e0", db_id="lost")]
    with pytest.raises(InputError, match=r"'e0'.*'lost'.*manifest"):
        audit(train, evaluation, {"shop": "h"}, params)
