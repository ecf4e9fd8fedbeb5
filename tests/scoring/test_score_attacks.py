"""Every known way to be paid for a wrong answer, against every mode, the reward, and the tests in Python."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from birdrl.compare import MODES
from birdrl.gym.database_folder import DatabaseFolder
from birdrl.gym.instance import PythonTest, ResultTest, StateTest
from birdrl.rewards import Blame, ExecutionScorer
from birdrl.scoring.judge import Judge
from birdrl.scoring.tasks import Task
from birdrl.sql import ReplicaPool
from birdrl.testcases import DEFAULT_TEST

ATTACKS: list[dict[str, Any]] = yaml.safe_load((Path(__file__).parent / "attacks.yaml").read_text())
JudgeIn = Callable[[str], Judge]
MANY_ATTACKS = pytest.mark.parametrize("attack", ATTACKS, ids=[attack["name"] for attack in ATTACKS])


def task(attack: dict[str, Any], *tests: Any) -> Task:
    return Task(attack["name"], "shop", tuple(attack["gold"]), test_cases=tests)


def writes(attack: dict[str, Any]) -> bool:
    return not attack["gold"][-1].startswith("SELECT")


@pytest.fixture(scope="module")
def scorer(databases: DatabaseFolder, pool: ReplicaPool) -> Iterator[ExecutionScorer]:
    scorer = ExecutionScorer(databases, pool)
    yield scorer
    scorer.close()


def test_every_name_is_used_once() -> None:
    names = [attack["name"] for attack in ATTACKS]
    assert len(set(names)) == len(names) >= 30


@MANY_ATTACKS
def test_no_mode_pays(attack: dict[str, Any], judge_in: JudgeIn) -> None:
    verdicts = {mode: judge_in(mode).judge(task(attack), attack["pred"]) for mode in MODES}
    assert {mode for mode, verdict in verdicts.items() if verdict.verdict != 0} == set(attack.get("wins_in", ()))
    for verdict in verdicts.values():
        assert verdict.blame == ("policy" if verdict.verdict == 0 else "none")
    if "status" in attack:
        statuses = {mode: verdict.status for mode, verdict in verdicts.items() if mode not in ("bird", "spider")}
        assert set(statuses.values()) == {attack["status"]}


@MANY_ATTACKS
def test_the_gold_itself_is_right(attack: dict[str, Any], judge_in: JudgeIn) -> None:
    empty = attack["gold"] == ["SELECT name FROM item WHERE price > 1000"]
    for mode in MODES:
        verdict = judge_in(mode).judge(task(attack), attack["gold"])
        assert verdict.verdict == int(not (empty and mode.startswith("critic"))), (mode, verdict)


@MANY_ATTACKS
def test_the_reward_does_not_pay(attack: dict[str, Any], scorer: ExecutionScorer) -> None:
    test = StateTest(probe_sql="SELECT * FROM item") if writes(attack) else ResultTest()
    if "cheap" in attack["gold"][-1]:
        test = StateTest(probe_sql="SELECT * FROM cheap")
    score = scorer.score(task(attack, test), attack["pred"])
    # A single result test looks at the last result alone: a right constant beside a changed database passes it.
    expected = 1 if attack["name"] == "the right constant, then a changed database" else attack.get("reward", 0)
    assert score.reward == expected
    assert score.blame is (Blame.NONE if expected else Blame.POLICY)


@pytest.mark.parametrize(
    "attack", [a for a in ATTACKS if not writes(a)], ids=[a["name"] for a in ATTACKS if not writes(a)]
)
def test_the_default_test_case_does_not_pay(attack: dict[str, Any], scorer: ExecutionScorer) -> None:
    score = scorer.score(task(attack, PythonTest(source=DEFAULT_TEST)), attack["pred"])
    forgiven = {"repeated rows dropped", "the right constant, then a changed database"}
    assert score.reward == int(attack["name"] in forgiven), score.reason


PAID_BY_THE_PUBLIC_SEQUENCE = {
    "an empty temporary table shadows the real one, and a constant answers",
    "delete, then a constant",
    "delete, then the gold",
}


@pytest.mark.parametrize(
    "attack",
    [a for a in ATTACKS if a["name"] in PAID_BY_THE_PUBLIC_SEQUENCE],
    ids=[a["name"] for a in ATTACKS if a["name"] in PAID_BY_THE_PUBLIC_SEQUENCE],
)
def test_where_the_public_evaluator_pays_the_report_says_so(attack: dict[str, Any], judge_in: JudgeIn) -> None:
    verdict = judge_in("critic_compat").judge(task(attack, PythonTest(source=DEFAULT_TEST)), attack["pred"])
    assert (verdict.verdict, verdict.strict) == (1, 0)


def test_a_constant_earns_half_where_a_perturbed_database_is_among_the_tests(scorer: ExecutionScorer) -> None:
    perturbed = ResultTest(setup_sql=["DELETE FROM item WHERE id = 1"])
    instance = Task("constant", "shop", ("SELECT count(*) FROM item",), test_cases=(ResultTest(), perturbed))
    assert scorer.score(instance, ["SELECT 5"]).reward == 0.5
    assert scorer.score(instance, ["SELECT count(id) FROM item"]).reward == 1.0
