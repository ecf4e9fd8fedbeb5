"""One configuration, one finished trajectory, one reward with its parts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from chat_server import ChatServer, ServerFactory
from play import answer, play, run, submit
from shop import OneTemplate, make_instance

from birdrl.agent.prompting import load_prompts
from birdrl.errors import GoldError, InfraError
from birdrl.params import RewardParams
from birdrl.rewards import Blame, ExecutionScorer
from birdrl.rewards.rewarder import Outcome, Rewarder
from birdrl.rewards.trajectory import Trajectory
from birdrl.sql import ReplicaPool

RIGHT, WRONG = "SELECT count(*) FROM item WHERE stock > 0", "SELECT 'wrong'"
# Two columns: the first is right in `HALF`, so M = 1 of N_G = N_P = 2.
PAIRS = make_instance(
    sol_sql=["SELECT name, stock FROM item WHERE stock > 5"],
    test_cases=[{"kind": "result"}, {"kind": "result", "setup_sql": ["UPDATE item SET stock = 9 WHERE id = 2"]}],
)
HALF, WHOLE = "SELECT name, price FROM item WHERE stock > 5", "SELECT name, stock FROM item WHERE stock >= 6"


class Bench:
    def __init__(self, templates: OneTemplate, pool: ReplicaPool, scorer: ExecutionScorer) -> None:
        self.templates, self.pool, self.scorer = templates, pool, scorer

    def rewarder(self, preset: str, **values: Any) -> Rewarder:
        params = RewardParams.model_validate({"preset": preset, **values})
        return Rewarder(params, self.scorer, self.templates, self.pool, load_prompts("compact"))

    def play(self, *turns: str, instance: Any = None) -> Trajectory:
        return play(instance or make_instance(), turns, self.templates, self.pool)


@pytest.fixture
def bench(templates: OneTemplate, pool: ReplicaPool, scorer: ExecutionScorer) -> Bench:
    return Bench(templates, pool, scorer)


@pytest.fixture
def serve() -> Iterator[ServerFactory]:
    pytest.importorskip("openai")
    with ExitStack() as stack:
        yield lambda *script: stack.enter_context(ChatServer(*script))


def test_the_default_is_the_share_of_tests(bench: Bench) -> None:
    rewarder = bench.rewarder("bird_rl")
    earned = rewarder.reward(bench.play(run("SELECT 1"), submit(RIGHT)))
    assert (earned.reward, dict(earned.parts), earned.outcome) == (1.0, {"execution": 1.0}, Outcome.SOLVED)
    assert (earned.blame, earned.reason, earned.turn_scores) == (Blame.NONE, "", ())
    half = rewarder.reward(bench.play(submit("SELECT 3")))
    assert (half.reward, half.outcome, half.blame) == (0.5, Outcome.PARTIAL, Blame.POLICY)


@pytest.mark.parametrize(
    ("turns", "outcome", "reason"),
    [
        ([submit(WRONG)], Outcome.WRONG, "another result"),
        ([submit("SELEC")], Outcome.FAILED, "syntax error"),
        ([submit("ATTACH 'x' AS y")], Outcome.FAILED, "the prediction failed"),
        (["no idea"], Outcome.NO_SOLUTION, "empty"),
        ([submit("-- nothing")], Outcome.NO_SOLUTION, "no SQL"),
        ([submit("WITH RECURSIVE r(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM r) SELECT count(*) FROM r")],
         Outcome.TIMED_OUT, "stopped after"),
    ],
)  # fmt: skip
def test_outcomes(bench: Bench, turns: list[str], outcome: Outcome, reason: str) -> None:
    earned = bench.rewarder("bird_rl").reward(bench.play(*turns))
    assert (earned.outcome, earned.reward, earned.blame) == (outcome, 0.0, Blame.POLICY)
    assert reason in earned.reason


def test_what_is_not_the_policys_fault_is_no_reward(bench: Bench) -> None:
    trajectory = bench.play(submit(RIGHT))
    with pytest.raises(InfraError, match="shop-1: the trajectory ended as infra"):
        bench.rewarder("bird_rl").reward(replace(trajectory, blame=Blame.INFRA, stop="infra"))
    broken = make_instance(sol_sql=["SELECT nothing FROM item"])
    with pytest.raises(GoldError):
        bench.rewarder("astra").reward(replace(trajectory, instance=broken))


def test_csmr_of_the_final_sql(bench: Bench) -> None:
    rewarder = bench.rewarder("csmr")
    assert rewarder.reward(bench.play(submit(HALF), instance=PAIRS)).reward == pytest.approx(0.2)
    assert rewarder.reward(bench.play(submit(WHOLE), instance=PAIRS)).reward == 1.0
    assert bench.rewarder("csmr", csmr={"alpha": 0.4}).reward(
        bench.play(submit(HALF), instance=PAIRS)
    ).reward == pytest.approx(0.1)


def test_atr_aggregates_the_states(bench: Bench) -> None:
    rewarder = bench.rewarder("astra")
    earned = rewarder.reward(bench.play(run(WRONG), run(HALF), submit(WHOLE), instance=PAIRS))
    assert earned.turn_scores == pytest.approx((0.0, 0.2, 1.0))
    assert dict(earned.parts) == pytest.approx({"atr/gain": 1.0, "atr/cost": -0.15})
    assert earned.reward == pytest.approx(0.85)
    regressed = rewarder.reward(bench.play(run(WHOLE), run("SELEC"), instance=PAIRS))
    assert regressed.turn_scores == (1.0, 0.0), "a turn that fails is a fall"
    assert regressed.reward == pytest.approx(-0.60)
    assert rewarder.reward(bench.play("nothing", instance=PAIRS)).reward == pytest.approx(-0.20)


def test_a_binary_score_sees_only_right_and_wrong(bench: Bench) -> None:
    earned = bench.rewarder("astra_binary").reward(bench.play(run(HALF), submit(WHOLE), instance=PAIRS))
    assert earned.turn_scores == (0.0, 1.0)
    assert earned.reward == pytest.approx(0.90)


def test_probes_are_left_out_when_asked_for(bench: Bench) -> None:
    turns = [run(HALF), run("SELECT * FROM item LIMIT 5"), submit(WHOLE)]
    trajectory = bench.play(*turns, instance=PAIRS)
    assert len(bench.rewarder("astra").reward(trajectory).turn_scores) == 3
    answers = bench.rewarder("astra", atr={"score_turns": "answer_like"}).reward(trajectory)
    assert answers.turn_scores == pytest.approx((0.2, 1.0))


def test_step_wise_gives_each_turn_its_own(bench: Bench) -> None:
    earned = bench.rewarder("step_wise").reward(
        bench.play(run(HALF), "<tool_call>{</tool_call>", submit(WHOLE), instance=PAIRS)
    )
    assert earned.turn_rewards == pytest.approx((0.2, 0.0, 1.0))
    assert earned.reward == pytest.approx(1.2)


def test_submitting_what_was_run_is_no_turn_of_its_own(bench: Bench) -> None:
    earned = bench.rewarder("astra").reward(bench.play(run(WHOLE), submit(WHOLE), instance=PAIRS))
    assert earned.turn_scores == (1.0,)
    assert earned.reward == pytest.approx(0.95)


def test_instances_without_a_result_are_scored_by_their_tests(bench: Bench) -> None:
    instance = make_instance(
        category="management",
        sol_sql=["UPDATE item SET stock = 0 WHERE price IS NULL"],
        test_cases=[
            {"kind": "state", "probe_sql": "SELECT id, stock FROM item"},
            {"kind": "state", "probe_sql": "SELECT count(*) FROM item"},
        ],
    )
    earned = bench.rewarder("astra").reward(
        bench.play(run("DELETE FROM item"), submit("UPDATE item SET stock = 0"), instance=instance)
    )
    assert earned.turn_scores == (0.0, 0.5)


def test_partial_correctness_on_a_real_schema(bench: Bench) -> None:
    """Gold names item and item.stock; the answer item and item.name: F1 and Jaccard 1/2 and 1/3."""
    wrong = bench.play(submit("SELECT count(name) FROM item WHERE 0"))
    earned = bench.rewarder("bird_rl_partial").reward(wrong)
    assert dict(earned.parts) == pytest.approx(
        {"execution": 0.0, "partial/executable": 0.1, "partial/schema_linking": 0.05}
    )
    jaccard = bench.rewarder("bird_rl_partial", partial={"schema_score": "jaccard"}).reward(wrong)
    assert jaccard.reward == pytest.approx(0.1 + 0.1 / 3)
    broken = bench.rewarder("bird_rl_partial").reward(bench.play(submit("SELEC stock FROM item")))
    assert broken.reward == 0.0
    passed = bench.rewarder("bird_rl_partial").reward(bench.play(submit("SELECT 3")))
    assert dict(passed.parts) == {"execution": 0.5}, "gated to trajectories that pass nothing"


def test_the_judge_is_asked_only_about_what_passes_nothing(bench: Bench, serve: ServerFactory, tmp_path: Path) -> None:
    server = serve(json.dumps({"trajectory": 3, "solution": 6, "reason": ""}), "nonsense")
    endpoint = {"url": server.url, "model": "m", "cache": str(tmp_path)}
    rewarder = bench.rewarder("bird_rl_judge", endpoint=endpoint)
    assert rewarder.reward(bench.play(submit("SELECT 3"))).reward == 0.5
    assert rewarder.reward(bench.play(submit(RIGHT))).reward == 1.0
    assert server.requests == []
    graded = rewarder.reward(bench.play("Hm. " + submit(WRONG)))
    assert dict(graded.parts) == pytest.approx({"execution": 0.0, "judge/trajectory": 0.04, "judge/solution": 0.08})
    assert (graded.unparsable, graded.outcome) == (0, Outcome.WRONG)
    useless = rewarder.reward(bench.play("Hm! " + submit(WRONG)))
    assert (useless.reward, useless.unparsable) == (0.0, 1)


def test_a_judge_that_is_gone_is_no_zero(bench: Bench, serve: ServerFactory, tmp_path: Path) -> None:
    endpoint = {"url": serve(500).url, "model": "m", "cache": str(tmp_path), "retries": 0}
    with pytest.raises(InfraError):
        bench.rewarder("bird_rl_judge", endpoint=endpoint).reward(bench.play(submit(WRONG)))


def test_the_rubric_reads_the_reasoning(bench: Bench, serve: ServerFactory, tmp_path: Path) -> None:
    server = serve('{"faults": ["a", "b", "c"]}', '{"named": [1, 3]}', "nonsense")
    endpoint = {"url": server.url, "model": "m", "cache": str(tmp_path)}
    rewarder = bench.rewarder("bird_rl_rubric", endpoint=endpoint, rubric={"checklist": "endpoint"})
    earned = rewarder.reward(bench.play("Both a and c. " + submit(WRONG)))
    assert earned.reward == pytest.approx(0.166667, abs=1e-6)
    useless = rewarder.reward(bench.play("Again. " + submit(WRONG)))
    assert (useless.reward, useless.unparsable) == (0.1, 1), "it still runs"


@pytest.mark.parametrize(
    ("preset", "turns", "parts"),
    [
        ("skyrl_sql", [run(RIGHT), submit(RIGHT)], {"format": 0.0, "result": 1.0}),
        ("skyrl_sql", [run(RIGHT), "done"], {"format": -1.0, "result": 0.0}),
        ("arctic", [submit(WRONG)], {"result": 0.0, "executable": 0.1}),
        ("mtir_sql", [submit("SELEC")], {"format": 0.1, "executable": -0.1, "result": -1.0}),
        ("sql_trail", [submit(RIGHT)], {"result": 5.0, "turns": 2.0, "schema": 1.0, "bigrams": 1.0, "executable": 1.0,
                                        "format": 1.0}),
        ("think2sql", ["Count. " + submit("SELECT 3")], {"cells": 1.0, "format": 1.0, "tags": 1.0}),
        ("think2sql", [submit("SELECT 0, 3")], {"cells": (0.5 + 1 + 1) / 3, "format": 1.0, "tags": 0.75}),
    ],
)  # fmt: skip
def test_peers_on_this_protocol(bench: Bench, preset: str, turns: list[str], parts: dict[str, float]) -> None:
    earned = bench.rewarder(preset).reward(bench.play(*turns))
    assert dict(earned.parts) == pytest.approx({f"{preset}/{name}": value for name, value in parts.items()})


def test_sql_r1_counts_characters_of_a_single_turn_answer(bench: Bench) -> None:
    text = f"{'x' * 100}\n```sql\n{RIGHT}\n```"
    earned = bench.rewarder("sql_r1").reward(answer(make_instance(), text))
    block = len(text) - 100
    assert dict(earned.parts) == pytest.approx(
        {"sql_r1/format": 1, "sql_r1/executable": 2, "sql_r1/result": 3, "sql_r1/length": 0.5 * len(text) / 2048,
         "sql_r1/share": len(RIGHT) / block}
    )  # fmt: skip


def test_reasoning_sql_hears_its_judge_when_the_result_is_wrong(
    bench: Bench, serve: ServerFactory, tmp_path: Path
) -> None:
    server = serve(json.dumps({"trajectory": 2.5, "solution": 5, "reason": ""}))
    rewarder = bench.rewarder("reasoning_sql", endpoint={"url": server.url, "model": "m", "cache": str(tmp_path)})
    assert rewarder.reward(bench.play(submit(RIGHT))).reward == pytest.approx(7.0)
    assert server.requests == []
    earned = rewarder.reward(bench.play(submit(WRONG)))
    assert earned.parts["reasoning_sql/judge"] == pytest.approx(1.0)
    assert earned.parts["reasoning_sql/schema"] == 0.0


@pytest.mark.parametrize(("difficulty", "expected"), [("moderate", 2.0), ("challenging", 0.0), (None, 0.0)])
def test_turns_pay_by_the_instances_difficulty(bench: Bench, difficulty: str | None, expected: float) -> None:
    more = {} if difficulty is None else {"difficulty": difficulty}
    trajectory = bench.play(run(WRONG), run(WRONG), submit(WRONG), instance=make_instance(**more))
    assert bench.rewarder("sql_trail").reward(trajectory).parts["sql_trail/turns"] == expected


def test_weights_can_be_changed(bench: Bench) -> None:
    earned = bench.rewarder("arctic", weights={"executable": 0.3}).reward(bench.play(submit(WRONG)))
    assert earned.reward == pytest.approx(0.3)


def test_a_query_is_scored_once(bench: Bench) -> None:
    before = bench.pool.counters.leases
    bench.rewarder("astra").reward(bench.play(run(WRONG), run(WRONG), run(WRONG)))
    assert bench.pool.counters.leases - before <= 1 + 2 + 2, "the trajectory, the query and maybe the reference, twice"


def test_turn_scores_are_there_for_any_reward(bench: Bench) -> None:
    trajectory = bench.play(run(HALF), submit(WHOLE), instance=PAIRS)
    assert bench.rewarder("csmr").turn_scores(trajectory) == pytest.approx((0.2, 1.0))
