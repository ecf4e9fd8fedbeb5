"""Proxy rewards of Appendix B.2: formulas, gate, and what they are computed from."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from shop import OneTemplate, make_instance

from birdrl.errors import InputError
from birdrl.params import JudgeParams, PartialParams, RewardParams, RubricParams
from birdrl.rewards.auxiliary import gated, judge_parts, partial_parts, rubric_parts
from birdrl.rewards.overlap import SchemaReader, bigrams, f1, jaccard
from birdrl.sql import ReplicaPool
from birdrl.training.runs import check_gate

PARTIAL, JUDGE, RUBRIC = (model.model_validate({}) for model in (PartialParams, JudgeParams, RubricParams))
OURS, GOLD = {"t", "t.a", "t.b"}, {"t", "t.a", "u", "u.c"}


def test_schema_linking_is_the_f1_of_items() -> None:
    assert f1(OURS, GOLD) == pytest.approx(0.571429, abs=1e-6)
    assert jaccard(OURS, GOLD) == pytest.approx(0.4)
    for measure in (f1, jaccard):
        assert measure(set(), set()) == 1.0
        assert measure({"t"}, set()) == measure(set(), {"t"}) == 0.0


@pytest.mark.parametrize(
    ("executable", "overlap", "value"), [(True, f1, 0.157143), (False, f1, 0.057143), (True, jaccard, 0.14)]
)
def test_partial_correctness(executable: bool, overlap: Any, value: float) -> None:
    assert sum(partial_parts(executable, overlap(OURS, GOLD), PARTIAL).values()) == pytest.approx(value, abs=1e-6)


@pytest.mark.parametrize(("grades", "value"), [((3, 6), 0.12), ((5, 10), 0.2), ((0, 0), 0.0)])
def test_judge(grades: tuple[float, float], value: float) -> None:
    assert sum(judge_parts(*grades, JUDGE).values()) == pytest.approx(value)


@pytest.mark.parametrize(
    ("executable", "named", "bugs", "value"), [(True, 2, 3, 0.166667), (True, 0, 0, 0.1), (False, 3, 3, 0.1)]
)
def test_rubric(executable: bool, named: int, bugs: int, value: float) -> None:
    assert sum(rubric_parts(executable, named, bugs, RUBRIC).values()) == pytest.approx(value, abs=1e-6)


def test_the_gate() -> None:
    assert gated(0.2, {"partial": 0.1}) == {"execution": 0.2}
    assert gated(0.0, {"partial": 0.1}) == {"execution": 0.0, "partial": 0.1}


@given(st.booleans(), st.sets(st.sampled_from("abcde")), st.sets(st.sampled_from("abcde")), st.integers(1, 4))
def test_no_proxy_reaches_a_passed_test(executable: bool, ours: set[str], gold: set[str], tests: int) -> None:
    for measure in (f1, jaccard):
        value = sum(partial_parts(executable, measure(ours, gold), PARTIAL).values())
        assert 0 <= value <= 0.2 < 1 / tests


@given(st.sets(st.sampled_from("abcdef")), st.sets(st.sampled_from("abcdef")))
def test_overlap_is_bounded_symmetric_and_one_for_itself(a: set[str], b: set[str]) -> None:
    for measure in (f1, jaccard):
        assert 0 <= measure(a, b) <= 1
        assert measure(a, b) == measure(b, a)
        assert measure(a, a) == 1
    assert jaccard(a, b) <= f1(a, b) + 1e-12


def test_a_run_refuses_weights_that_beat_a_test() -> None:
    instance = make_instance(test_cases=[{"kind": "result"}] * 5)
    partial = {"preset": "bird_rl_partial"}
    with pytest.raises(InputError, match=r"reward\.partial: its weights allow 0\.2 .* shop-1 has 5 tests"):
        check_gate(RewardParams.model_validate(partial), [instance])
    check_gate(RewardParams.model_validate(partial), [make_instance()])
    check_gate(RewardParams.model_validate({**partial, "partial": {"executable": 0.05}}), [instance])
    check_gate(RewardParams.model_validate({}), [instance])
    endpoint = {"url": "http://127.0.0.1:9/v1", "model": "m"}
    for name, weight in (("judge", "weight"), ("rubric", "bugs")):
        asked = {"preset": f"bird_rl_{name}", "endpoint": endpoint}
        with pytest.raises(InputError, match=rf"reward\.{name}: its weights allow 0\.2 "):
            check_gate(RewardParams.model_validate(asked), [instance])
        check_gate(RewardParams.model_validate({**asked, name: {weight: 0.05}}), [instance])


# --- what SQL names


@pytest.fixture(scope="module")
def reader(templates: OneTemplate, pool: ReplicaPool) -> SchemaReader:
    return SchemaReader(templates, pool)


@pytest.mark.parametrize(
    ("sql", "items"),
    [
        ("SELECT name FROM item", "item item.name"),
        ("SELECT I.Name, i.price FROM ITEM AS i WHERE i.stock > 0", "item item.name item.price item.stock"),
        ("SELECT i.name FROM item i JOIN item j ON i.id = j.id", "item item.name item.id"),
        ("SELECT name FROM item JOIN sale USING (id)", "item item.name sale"),  # only `item` has a name
        ("WITH c AS (SELECT price FROM item) SELECT price FROM c", "item item.price"),
        ("SELECT x.p FROM (SELECT price AS p FROM item) AS x", "item item.price"),
        ("SELECT count(*) AS n FROM item GROUP BY stock ORDER BY n", "item item.stock"),
        ("SELECT name FROM item i WHERE EXISTS (SELECT 1 FROM sale s WHERE s.id = i.id)",
         "item item.name sale sale.id item.id"),
        ("UPDATE item SET stock = 0 WHERE price IS NULL", "item item.stock item.price"),
        ("DELETE FROM item WHERE id = 3", "item item.id"),
        ("SELECT 1; SELECT id FROM item", "item item.id"),
        ("SELECT 'item.price' -- item.stock", ""),
        ("SELEC name FRM item", ""),
        ("", ""),
    ],
)  # fmt: skip
def test_schema_items(reader: SchemaReader, templates: OneTemplate, sql: str, items: str) -> None:
    assert reader.items("shop", [sql], templates.schema("shop")) == set(items.split())


def test_a_parser_that_fails_costs_nothing_but_the_items(reader: SchemaReader, templates: OneTemplate) -> None:
    deep = "SELECT " + "(" * 3000 + "1" + ")" * 3000
    assert reader.items("shop", [deep], templates.schema("shop")) == set()


def test_bigrams_leave_comments_out() -> None:
    assert bigrams("SELECT a -- FROM secret\nFROM t /* WHERE x */;") == {"select a", "a from", "from t"}
    assert bigrams("SELECT 'a -- b', \"c d\"") == {"select 'a -- b'", "'a -- b' ,", ', "c d"'}
    assert bigrams("") == set()
