"""Stage 1 pairs: kept only when thought and issue alone lead to SQL that passes every test."""

from __future__ import annotations

from toy_shop import BAD_GOLD, BOUNDARY, BROKEN, UPDATE

from birdrl.agent.answers import parse_answer
from birdrl.agent.prompting import load_prompts
from birdrl.distill.reasoning import Rejected, build_pair, hide_solution, prove, write_thought


def build(instance, store, scorer):
    return build_pair(instance, store.schema("shop"), load_prompts("compact"), scorer)


def test_a_pair_is_thought_and_regenerated_sql(store, scorer):
    pair = build(BOUNDARY, store, scorer)
    assert pair["thought"] == "The bound is left out. Replace `price > 20` with `price >= 20`."
    assert pair["sol_sql"] == ["SELECT id FROM orders WHERE price >= 20"]
    roles = [message["role"] for message in pair["messages"]]
    assert roles == ["system", "user", "assistant"]
    assert parse_answer(pair["messages"][-1]["content"]) == pair["sol_sql"]
    assert pair["sol_sql"][0] not in pair["messages"][1]["content"]
    assert (pair["kind"], pair["category"]) == ("comparison_boundary", "query")


def test_state_changing_issues_too(store, scorer):
    pair = build(UPDATE, store, scorer)
    assert "Insert `WHERE customer_id = 1` after" in pair["thought"]


def test_a_thought_that_leads_to_wrong_sql_is_rejected_by_its_tests(scorer):
    verdict = prove(BOUNDARY, "Replace `price > 20` with `price > 21`.", scorer)
    assert isinstance(verdict, Rejected)
    assert verdict.gate == "tests"
    assert "passes 0 of 1" in verdict.reason


def test_a_thought_that_leads_nowhere_is_rejected(scorer):
    verdict = prove(BOUNDARY, "The bound is left out.", scorer)
    assert isinstance(verdict, Rejected)
    assert verdict.gate == "regeneration"


def test_bad_gold_and_missing_solutions_are_named(store, scorer):
    verdict = build(BAD_GOLD, store, scorer)
    assert (verdict.gate, verdict.instance_id) == ("gold", "bad_gold")
    assert "no such column" in verdict.reason
    unsolved = BOUNDARY.model_copy(update={"sol_sql": []})
    assert build(unsolved, store, scorer).gate == "thought"


def test_the_regenerator_sees_no_solution():
    hidden = hide_solution(BROKEN)
    assert (hidden.sol_sql, hidden.test_cases, hidden.bug) == ([], [], None)


def test_without_a_bug_record_the_thought_is_the_edits():
    imported = BROKEN.model_copy(update={"bug": None})
    assert write_thought(imported).text == "Replace `idd` with `id`."
