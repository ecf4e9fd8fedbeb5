"""Reports: what they are made of, how much they vary, and that they give nothing away."""

from __future__ import annotations

import re
from dataclasses import replace
from random import Random

import pytest
from rewind_store import make_store

from birdrl.gym.leaks import leaks
from birdrl.gym.rewind import KINDS, apply_construction, apply_mutation
from birdrl.gym.rewind.draft import Bench
from birdrl.gym.rewind.gates import GateFailure, Gates, Limits
from birdrl.gym.rewind.tree import parse
from birdrl.gym.rewind.words import Words
from birdrl.gym.rewind.writing import Facts, write_text
from birdrl.gym.sql_text import count_tokens, figures_once
from birdrl.sql.pool import PoolConfig, ReplicaPool

REPORT = Limits(max_sql_chars=1200, max_words=400, style="report")


@pytest.fixture(scope="module")
def gates(tmp_path_factory):
    store = make_store(tmp_path_factory.mktemp("store"))
    with ReplicaPool(PoolConfig(workers=1)) as pool:
        yield Gates(store, pool, REPORT)


@pytest.fixture(scope="module")
def view(gates):
    return gates.view("shop")


def mutant(view, seed: int = 0):
    rng = Random(seed)
    bench = Bench(view, Words(view.schema, rng), rng)
    tree = parse("SELECT product_name FROM product WHERE stock > 5")
    return apply_mutation(
        KINDS["comparison_boundary"], bench, tree, "here", "Which products have more than 5 in stock?"
    )


def test_brief_is_the_draft_alone(view):
    draft = mutant(view)
    assert write_text(draft, Facts(), view.schema, Random(0), "brief") == draft.query


def test_a_report_holds_the_facts_and_varies(view):
    draft = mutant(view)
    facts = Facts(columns=("product_name",), rows=(("Lamp A1",), ("Desk B2",)), expected_rows=1)
    texts = [write_text(draft, facts, view.schema, Random(seed), "report") for seed in range(60)]
    assert all(draft.query in text for text in texts)
    assert all("2 rows" in text and "Lamp A1" in text for text in texts)
    assert any("1 row" in text.replace("2 rows", "") for text in texts)
    assert any("Which products have more than 5 in stock?" in text for text in texts)
    assert any("product_id" in text for text in texts), "some describe the table"
    assert len(set(texts)) == 60
    lengths = [count_tokens(text) for text in texts]
    assert min(lengths) < 110 < 150 < max(lengths)
    assert not any(draft.cause.rstrip(".").lower() in text.lower() for text in texts), "the cause is for the record"
    assert not any(leaks(text, draft.issue_sql, draft.sol_sql) for text in texts)


def test_the_same_seed_writes_the_same_text(view):
    draft = mutant(view)
    texts = {write_text(draft, Facts(), view.schema, Random(4), "report") for _ in range(3)}
    assert len(texts) == 1


def test_an_error_is_quoted_once(view):
    rng = Random(2)
    bench = Bench(view, Words(view.schema, rng), rng)
    draft = apply_construction(KINDS["left_function"], bench)
    text = write_text(draft, Facts(error='near "(": syntax error'), view.schema, Random(1), "report")
    assert text.count("syntax error") >= 1
    known = Facts(error=draft.query.split(".")[0])
    assert write_text(draft, known, view.schema, Random(1), "report").count(known.error) == 1


def test_gates_write_reports_from_what_they_see(gates, view):
    texts = []
    for seed in range(12):
        try:
            texts.append(gates.check(mutant(view, seed), view, Random(seed)).query)
        except GateFailure:
            continue
    assert len(texts) >= 6
    assert any("rows" in text and "(" in text for text in texts), "observed rows are shown"


def test_a_text_that_names_the_edit_does_not_pass(gates, view):
    draft = replace(mutant(view), query="Please write stock > 5 instead.")
    with pytest.raises(GateFailure, match="gives the solution away: quotes the solution"):
        gates.check(draft, view, Random(0))


def reports(draft, facts, schema, count: int = 80) -> list[str]:
    return [write_text(draft, facts, schema, Random(seed), "report") for seed in range(count)]


def test_a_table_in_a_report_ends_without_a_stray_full_stop(view):
    facts = Facts(columns=("product_name",), rows=(("Lamp A1",), ("Desk B2",)), expected_rows=1)
    for state in (False, True):
        texts = reports(mutant(view), replace(facts, state=state), view.schema)
        assert any("\nLamp A1\n" in text for text in texts)
        assert not any(re.search(r"\n\s*[.;,]", text) for text in texts)


def test_an_empty_table_is_said_to_be_empty(view):
    facts = Facts(columns=("product_name",), rows=(), expected_rows=2, state=True)
    for text in reports(mutant(view), facts, view.schema):
        assert "nothing" in text or "empty" in text
        assert not re.search(r"\b0 rows", text)


def test_nothing_is_summed_up_before_it_was_said(view):
    draft = replace(mutant(view), question=None, intent="Nothing is listed that has to be ordered anew.")
    texts = reports(draft, Facts(), view.schema)
    said_again = [text for text in texts if any(word in text for word in ("In short:", "Put differently:"))]
    assert said_again
    for text in said_again:
        again = min(text.find(word) for word in ("In short:", "Put differently:") if word in text)
        assert text.index(draft.query) < again


def test_a_column_keeps_its_name_at_the_start_of_an_intent(view):
    draft = replace(mutant(view), intent="STOCK is above 5.", question=None)
    shouting = view.schema.model_copy(deep=True)
    assert any(column.name == "stock" for table in shouting.tables for column in table.columns)
    for text in reports(draft, Facts(), shouting, 20):
        assert "STOCK is above 5." in text


@pytest.mark.parametrize("said", ["It fails with 'misuse of aggregate'.", "The message: misuse of aggregate: COUNT()."])
def test_a_message_is_not_told_twice(view, said):
    draft = replace(mutant(view), query=said, issue_fails=True)
    for text in reports(draft, Facts(error="misuse of aggregate: COUNT()"), view.schema, 20):
        assert text.count("misuse of aggregate") == 1


def test_what_a_catalogue_holds_is_no_content_of_a_table(gates, view):
    rng = Random(0)
    draft = None
    while draft is None:
        draft = apply_construction(KINDS["index_not_unique"], Bench(view, Words(view.schema, rng), rng))
    texts = {gates.check(draft, view, Random(seed)).query for seed in range(10)}
    assert not any(f"({next(iter(draft.tests)).probe_sql.split()[-1].strip(chr(39))}, 0)" in text for text in texts)
    assert not any("1 row" in text for text in texts)


def test_one_row_is_no_first_one_row(view):
    draft = None
    for seed in range(40):
        rng = Random(seed)
        tree = parse("SELECT product_name FROM product ORDER BY stock DESC LIMIT 1")
        draft = apply_mutation(KINDS["wrong_limit"], Bench(view, Words(view.schema, rng), rng), tree, "here", None)
        if draft is not None:
            assert "first 1 row" not in f"{draft.query} {draft.intent}"
    assert draft is not None


def test_what_the_symptom_says_is_no_goal_behind_it(view):
    draft = replace(mutant(view), query="Only products with stock above 5 should count.", question=None)
    once = reports(replace(draft, intent="Only products with stock above 5."), Facts(), view.schema)
    assert all(text.count("stock above 5") == 1 for text in once)
    assert min(count_tokens(text) for text in once) > 30, "what is left out makes room for something else"
    more = reports(replace(draft, intent="Only garden furniture with stock above 5."), Facts(), view.schema)
    assert all("nly garden furniture with stock above 5" in text for text in more)
    asked = reports(
        replace(draft, question="Which products?", intent="Products with stock above 5."), Facts(), view.schema
    )
    assert all("Which products?" in text and text.count("stock above 5") == 1 for text in asked)


def test_a_column_that_is_called_what_is_computed_is_not_stuttered(view):
    assert figures_once("the average Average of teams") == "the average of Average of teams"
    assert (
        figures_once("total total_value, highest damage, sum of sums")
        == "total of total_value, highest damage, sum of sums"
    )
    text = Bench(view, Words(view.schema, Random(0)), Random(0)).sentence("show the lowest Lowest")
    assert text == "Show the lowest of Lowest."
