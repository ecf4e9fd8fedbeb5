"""Every bug kind: what it changes, what its text tells, and that it gets through the gates."""

from __future__ import annotations

import re
from pathlib import Path
from random import Random

import pytest
from rewind_store import make_store

from birdrl.gym.instance import CATEGORIES, FeatureTest, Instance
from birdrl.gym.rewind import KINDS, apply_construction, apply_mutation
from birdrl.gym.rewind import draft as registry
from birdrl.gym.rewind.draft import Bench, Draft, mutation
from birdrl.gym.rewind.gates import GateFailure, Gates
from birdrl.gym.rewind.tree import canonical, parse
from birdrl.gym.rewind.words import Words
from birdrl.sql.pool import PoolConfig, ReplicaPool


@pytest.fixture(scope="module")
def gates(tmp_path_factory):
    store = make_store(tmp_path_factory.mktemp("store"))
    with ReplicaPool(PoolConfig(workers=1)) as pool:
        yield Gates(store, pool)


@pytest.fixture(scope="module")
def view(gates):
    return gates.view("shop")


def bench(view, seed: int) -> Bench:
    rng = Random(seed)
    return Bench(view, Words(view.schema, rng), rng)


def mutants(view, kind: str, sql: str, seeds: int = 30) -> list[Draft]:
    drafts = [apply_mutation(KINDS[kind], bench(view, seed), parse(sql), "test") for seed in range(seeds)]
    return [draft for draft in drafts if draft is not None]


# kind, verified SQL, issues that the kind may write
CASES = [
    ("comparison_boundary", "SELECT product_name FROM product WHERE stock > 5", {"stock >= 5"}),
    ("comparison_boundary", "SELECT product_name FROM product WHERE stock <= 8", {"stock < 8"}),
    ("comparison_operator", "SELECT product_name FROM product WHERE stock >= 8", {"stock <= 8"}),
    (
        "lost_condition",
        "SELECT product_name FROM product WHERE stock = 5 AND weight = 400",
        {"stock = 5", "weight = 400"},
    ),
    ("lost_condition", "SELECT product_name FROM product WHERE stock = 5", {"FROM product"}),
    ("and_or", "SELECT product_name FROM product WHERE stock = 5 OR weight = 400", {"stock = 5 AND weight = 400"}),
    ("range_bound", "SELECT product_name FROM product WHERE stock BETWEEN 3 AND 8", None),
    ("wrong_literal", "SELECT product_name FROM product WHERE category = 'Garden'", {"'Kitchen'", "'Office'"}),
    ("wrong_filter_column", "SELECT product_name FROM product WHERE stock > 5", None),
    ("wrong_aggregate", "SELECT category, MAX(price) FROM product GROUP BY category", None),
    ("lost_count_distinct", "SELECT COUNT(DISTINCT channel) FROM sale", {"COUNT(channel)"}),
    ("wrong_group_column", "SELECT channel, COUNT(*) FROM sale GROUP BY channel", {"GROUP BY sold_on"}),
    ("lost_group_by", "SELECT channel, COUNT(*) FROM sale GROUP BY channel", {"FROM sale"}),
    ("lost_having", "SELECT product_id FROM sale GROUP BY product_id HAVING COUNT(*) > 5", {"GROUP BY product_id"}),
    (
        "having_in_where",
        "SELECT product_id FROM sale WHERE quantity > 1 GROUP BY product_id HAVING COUNT(*) > 3",
        {"WHERE quantity > 1 AND COUNT(*) > 3 GROUP BY product_id"},
    ),
    ("wrong_output_column", "SELECT price FROM product WHERE stock > 5", None),
    ("missing_output_column", "SELECT product_name, price FROM product", {"SELECT product_name FROM product"}),
    ("lost_distinct", "SELECT DISTINCT channel FROM sale", {"SELECT channel FROM sale"}),
    ("extra_distinct", "SELECT channel FROM sale", {"SELECT DISTINCT channel"}),
    ("swapped_columns", "SELECT product_name, price FROM product", {"SELECT price, product_name"}),
    ("sort_direction", "SELECT product_name FROM product ORDER BY price DESC LIMIT 3", {"ORDER BY price LIMIT 3"}),
    ("sort_direction", "SELECT product_name FROM product ORDER BY price LIMIT 3", {"ORDER BY price DESC LIMIT 3"}),
    ("order_column", "SELECT product_name FROM product ORDER BY price, product_id LIMIT 3", None),
    (
        "order_aggregate",
        "SELECT channel FROM sale GROUP BY channel ORDER BY SUM(quantity) DESC",
        {"ORDER BY channel DESC"},
    ),
    ("wrong_limit", "SELECT product_name FROM product ORDER BY price LIMIT 3", None),
    (
        "join_type",
        "SELECT p.product_id, s.sale_id FROM product AS p LEFT JOIN sale AS s ON s.product_id = p.product_id",
        {"AS p JOIN sale"},
    ),
    (
        "join_condition",
        "SELECT p.product_name FROM product AS p JOIN sale AS s ON s.product_id = p.product_id",
        None,
    ),
    ("null_equality", "SELECT product_name FROM product WHERE category IS NULL", {"category = NULL"}),
    (
        "set_operator",
        "SELECT product_id FROM product EXCEPT SELECT product_id FROM sale",
        {" UNION SELECT", " INTERSECT SELECT"},
    ),
    (
        "in_negation",
        "SELECT product_name FROM product WHERE product_id NOT IN (SELECT product_id FROM sale)",
        {"product_id IN (SELECT"},
    ),
    ("top_clause", "SELECT product_name FROM product ORDER BY price DESC LIMIT 3", {"SELECT TOP 3 product_name"}),
    (
        "fetch_first",
        "SELECT product_name FROM product ORDER BY price DESC LIMIT 3",
        {"ORDER BY price DESC FETCH FIRST 3 ROWS ONLY"},
    ),
    (
        "date_part_function",
        "SELECT STRFTIME('%Y', sold_on), COUNT(*) FROM sale GROUP BY STRFTIME('%Y', sold_on)",
        {"YEAR(sold_on), COUNT(*) FROM sale GROUP BY YEAR", "EXTRACT(YEAR FROM sold_on), COUNT(*)"},
    ),
    ("null_function", "SELECT product_name, COALESCE(category, 'none') FROM product", {"NVL(category, 'none')"}),
    (
        "ilike_operator",
        "SELECT product_name FROM product WHERE product_name LIKE 'Lamp%'",
        {"product_name ILIKE 'Lamp%'"},
    ),
    (
        "like_pattern",
        "SELECT product_name FROM product WHERE product_name LIKE 'Lamp%'",
        {"'%Lamp%'", "'%Lamp'", "'Lamp'"},
    ),
]


@pytest.mark.parametrize(("kind", "sql", "pieces"), CASES)
def test_mutation_edits_the_issue_and_leaves_the_solution(view, kind, sql, pieces):
    drafts = mutants(view, kind, sql)
    assert drafts
    for draft in drafts:
        assert draft.sol_sql == (canonical(sql),)
        assert draft.issue_sql != draft.sol_sql
        assert pieces is None or any(piece in draft.issue_sql[0] for piece in pieces)


@pytest.mark.parametrize(("kind", "sql", "pieces"), CASES)
def test_mutation_passes_the_gates(gates, view, kind, sql, pieces):
    instance = _first_accepted(gates, view, mutants(view, kind, sql))
    assert instance is not None
    assert instance.bug is not None
    assert (instance.bug.kind, instance.bug.family) == (kind, KINDS[kind].family)
    assert instance.bug.cause
    assert instance.bug.intent


def test_every_mutation_has_a_case():
    assert {kind for kind, _, _ in CASES} == {name for name, kind in KINDS.items() if kind.mutate}


CONSTRUCTIONS = sorted(name for name, kind in KINDS.items() if kind.construct)


@pytest.mark.parametrize("name", CONSTRUCTIONS)
def test_construction_passes_the_gates(gates, view, name):
    drafts = [apply_construction(KINDS[name], bench(view, seed)) for seed in range(40)]
    instance = _first_accepted(gates, view, [draft for draft in drafts if draft is not None])
    assert instance is not None
    assert instance.category == KINDS[name].category
    assert instance.bug is not None
    assert instance.bug.kind == name
    if instance.category == "personalization":
        assert any(isinstance(test, FeatureTest) for test in instance.test_cases)


def _first_accepted(gates: Gates, view, drafts: list[Draft]) -> Instance | None:
    for draft in drafts:
        try:
            return gates.check(draft, view, Random(0))
        except GateFailure:
            continue
    return None


def test_the_taxonomy_is_broad():
    assert len(KINDS) >= 30
    assert {kind.category for kind in KINDS.values()} == set(CATEGORIES)
    assert all(kind.doc and bool(kind.mutate) != bool(kind.construct) for kind in KINDS.values())
    scripts = {"commit_missing", "archive_after_delete", "single_statement"}
    assert scripts <= set(KINDS)


# What people get wrong, and kinds that stand for it.
AREAS = {
    "joins and fan-out": {"join_condition", "join_multiplies", "inner_after_left"},
    "aggregation and grouping": {"wrong_aggregate", "lost_group_by", "having_in_where"},
    "NULL logic": {"equals_null", "not_in_null", "unequal_drops_null"},
    "types and affinity": {"number_as_text", "substring_as_number", "quotes_name_a_column"},
    "dates": {"month_start", "timestamp_format", "last_day_lost", "zone_suffix"},
    "text and collation": {"letter_case", "unique_by_case", "wildcard_taken_literally"},
    "set operations": {"set_operator", "union_keeps_repeats"},
    "subqueries and correlation": {"lost_correlation", "subquery_wrong_filter", "update_from_all"},
    "windows": {"rank_ties", "window_partition", "window_order"},
    "recursion": {"recursion_repeats", "series_ends_early"},
    "ordering and limits": {"sort_direction", "wrong_limit", "natural_order"},
    "DML scope": {"update_all_rows", "delete_too_much"},
    "upsert and conflict": {"upsert_missing", "replace_wipes_columns", "conflict_without_key"},
    "schema changes": {"add_column_default", "rename_wrong_column", "rebuild_loses_index"},
    "constraints and triggers": {"check_missing", "foreign_keys_off", "trigger_all_rows"},
    "transactions": {"commit_missing", "trial_not_undone"},
    "indexes and plans": {"index_wrong_column", "index_not_unique", "function_hides_index", "index_column_order"},
    "JSON": {"json_wrong_path", "json_keeps_quotes", "json_update_wipes"},
    "permissions without GRANT": {"grant_columns", "revoke_delete", "grant_as_row"},
    "other dialects": {"top_clause", "date_difference", "update_join", "on_duplicate_key"},
}


@pytest.mark.parametrize("area", AREAS)
def test_the_taxonomy_covers_what_people_get_wrong(area):
    assert AREAS[area] <= set(KINDS)


def test_a_kind_cannot_be_defined_twice():
    with pytest.raises(ValueError, match="defined twice"):

        @mutation("filtering")
        def wrong_literal(bench, tree):
            return None


def test_the_documented_kind_is_all_that_a_new_one_needs(gates, view, monkeypatch):
    monkeypatch.setattr(registry, "KINDS", {**KINDS})
    page = (Path(__file__).parents[2] / "docs" / "bug_kinds.md").read_text(encoding="utf-8")
    [source] = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    exec(compile(source, "bug_kinds.md", "exec"), {"__name__": "short_lists"})
    [(kind, sql, piece)] = re.findall(r'^\("(\w+)", "(.+)", \{"(.+)"\}\)$', page, re.MULTILINE)
    drafts = [apply_mutation(registry.KINDS[kind], bench(view, seed), parse(sql), "test") for seed in range(5)]
    assert all(draft is not None and piece in draft.issue_sql[0] for draft in drafts)
    assert _first_accepted(gates, view, drafts).bug.kind == kind


def test_text_holds_the_facts_that_the_fix_needs(view):
    for draft in mutants(view, "wrong_literal", "SELECT product_name FROM product WHERE category = 'Garden'"):
        assert "Garden" in draft.query
    for draft in mutants(view, "wrong_limit", "SELECT product_name FROM product ORDER BY price LIMIT 3"):
        assert "3" in draft.query
    for draft in mutants(view, "wrong_output_column", "SELECT price FROM product WHERE stock > 5"):
        assert "price" in draft.query
    for draft in mutants(view, "comparison_boundary", "SELECT price FROM product WHERE stock > 5"):
        assert "5" in draft.query
        assert "stock" in draft.query


# Words of someone who knows the edit. A style that the user asks for (personalization) may be named.
EDITS = re.compile(
    r"\b(?:sort|group|rank|filter) (?:them |it )?by\b|, not by\b|\bmust use\b|\bshould test\b|\bbefore deleting\b"
    r"|\bignor\w+ NULL|\bskip those\b|\bthe (?:filter|condition|join|clause) (?:should|must|is meant)\b",
    re.IGNORECASE,
)


def test_reports_say_what_is_wanted_and_not_what_to_edit(view):
    mutated = [draft for kind, sql, _ in CASES for draft in mutants(view, kind, sql)]
    made = [apply_construction(KINDS[name], bench(view, seed)) for name in CONSTRUCTIONS for seed in range(20)]
    drafts = [d for d in [*mutated, *made] if d is not None and d.category != "personalization"]
    assert len({draft.kind for draft in drafts}) > 100
    assert [(d.kind, d.query) for d in drafts if EDITS.search(f"{d.query} {d.intent}")] == []


def test_several_wordings_for_the_same_bug(view):
    drafts = mutants(view, "lost_condition", "SELECT product_name FROM product WHERE stock = 5")
    assert len({draft.query for draft in drafts}) >= 4


def test_the_same_seed_writes_the_same_draft(view):
    for name in CONSTRUCTIONS:
        assert apply_construction(KINDS[name], bench(view, 5)) == apply_construction(KINDS[name], bench(view, 5))


def test_canonical_spelling_puts_not_where_people_put_it():
    sql = "select a from t where a not in (1, 2) and b is not null and c not between 1 and 2 and not exists (select 1)"
    assert canonical(sql) == (
        "SELECT a FROM t WHERE a NOT IN (1, 2) AND b IS NOT NULL AND c NOT BETWEEN 1 AND 2 AND NOT EXISTS(SELECT 1)"
    )
    assert canonical("BEGIN") == "BEGIN"
    with pytest.raises(ValueError, match="does not parse"):
        canonical("SELECT FROM WHERE")
