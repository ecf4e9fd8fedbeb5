"""Peers' forms: the published examples, bounds, and that being right always pays more."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tables import FAILED, table

from birdrl.params import PEER_WEIGHTS
from birdrl.rewards.peers import FORMS, Facts, cell_overlap, peer_parts

RIGHT: dict[str, Any] = {"executed": True, "right": True}
WRONG: dict[str, Any] = {"executed": True}


def value(kind: str, **facts: Any) -> float:
    return sum(peer_parts(kind, Facts(**facts), PEER_WEIGHTS[kind]).values())


@pytest.mark.parametrize(
    ("kind", "facts", "reward"),
    [
        ("skyrl_sql", RIGHT | {"formatted": False}, -1),
        ("skyrl_sql", RIGHT, 1),
        ("skyrl_sql", WRONG, 0),
        ("arctic", RIGHT, 1),
        ("arctic", WRONG, 0.1),
        ("arctic", {}, 0),
        ("sql_r1", {"formatted": False}, -1),
        ("sql_r1", {}, -1),
        ("sql_r1", WRONG, 0),
        ("sql_r1", RIGHT | {"thought_chars": 924, "answer_chars": 100, "sql_chars": 80}, 7.05),
        ("reasoning_sql", WRONG | {"judge": 0.5, "schema_overlap": 0.6, "bigram_overlap": 0.4}, 4.0),
        ("reasoning_sql", RIGHT | {"judge": 0.9, "schema_overlap": 1, "bigram_overlap": 1}, 7.0),
        ("mtir_sql", RIGHT, 1.2),
        ("mtir_sql", WRONG, -0.8),
        ("mtir_sql", {}, -1.0),
        ("mtir_sql", WRONG | {"formatted": False}, -1.2),
        ("sql_trail", RIGHT | {"difficulty": "medium", "turns": 2, "schema_overlap": 1, "bigram_overlap": 1}, 11),
        ("sql_trail", RIGHT | {"difficulty": "medium", "turns": 5, "schema_overlap": 1, "bigram_overlap": 1}, 9),
        ("sql_trail", WRONG | {"difficulty": "hard", "turns": 3, "max_turns": 10, "schema_overlap": 0.5,
                               "bigram_overlap": 0.3}, 2.8),
        ("think2sql", {"formatted": False, "cells": 0.5}, 0.5),
        ("think2sql", {"cells": 1.0, "tags": 4}, 3.0),
    ],
)  # fmt: skip
def test_published_examples(kind: str, facts: dict[str, Any], reward: float) -> None:
    assert value(kind, **facts) == pytest.approx(reward)


@pytest.mark.parametrize(
    ("difficulty", "turns", "right", "in_time"),
    [
        ("easy", 2, False, 1),
        ("easy", 3, True, 0),
        ("medium", 3, False, 1),
        ("hard", 9, True, 1),
        ("extra", 10, True, 0),
    ],
)
def test_few_turns_pay_by_difficulty(difficulty: str, turns: int, right: bool, in_time: int) -> None:
    facts = Facts(executed=True, right=right, difficulty=difficulty, turns=turns, max_turns=10)
    assert peer_parts("sql_trail", facts, PEER_WEIGHTS["sql_trail"])["turns"] == 2 * in_time


def test_cells_of_the_worked_example() -> None:
    assert cell_overlap(table([(1, 3)]), table([(1,), (2,)])) == pytest.approx(0.5)
    assert cell_overlap(table([(1,), (2,)]), table([(2,), (1,)])) == 1.0
    assert cell_overlap(table([], 1), table([], 2)) == 1.0
    assert cell_overlap(table([], 1), table([(1,)])) == 0.0
    assert cell_overlap(FAILED, table([(1,)])) == cell_overlap(None, table([(1,)])) == 0.0


FACTS = st.builds(
    Facts,
    formatted=st.booleans(), executed=st.booleans(), right=st.booleans(), turns=st.integers(1, 6),
    max_turns=st.integers(1, 6), difficulty=st.sampled_from(["easy", "medium", "hard", "extra"]),
    schema_overlap=st.floats(0, 1), bigram_overlap=st.floats(0, 1), judge=st.floats(0, 1), cells=st.floats(0, 1),
    tags=st.integers(0, 4), thought_chars=st.integers(0, 9999), answer_chars=st.integers(100, 999),
    sql_chars=st.integers(0, 100),
)  # fmt: skip
MOST = {
    "skyrl_sql": 1,
    "arctic": 1,
    "sql_r1": 7.5,
    "reasoning_sql": 9,
    "mtir_sql": 1.2,
    "sql_trail": 11,
    "think2sql": 3,
}
LEAST = {"skyrl_sql": -1, "sql_r1": -1, "mtir_sql": -1.2}


@given(FACTS)
def test_bounds(facts: Facts) -> None:
    for kind in FORMS:
        reward = sum(peer_parts(kind, facts, PEER_WEIGHTS[kind]).values())
        assert LEAST.get(kind, 0) - 1e-9 <= reward <= MOST[kind] + 1e-9


@given(FACTS)
def test_being_right_never_pays_less(facts: Facts) -> None:
    from dataclasses import replace

    wrong, right = replace(facts, executed=True, right=False), replace(facts, executed=True, right=True, cells=1.0)
    for kind in FORMS:
        weights = PEER_WEIGHTS[kind]
        assert sum(peer_parts(kind, right, weights).values()) >= sum(peer_parts(kind, wrong, weights).values())


def test_every_form_has_weights_for_all_its_terms() -> None:
    assert FORMS.keys() == PEER_WEIGHTS.keys()
    best = Facts(executed=True, right=True)
    for kind, form in FORMS.items():
        assert form(best).keys() == PEER_WEIGHTS[kind].keys()
