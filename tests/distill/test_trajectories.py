"""Stage 2 trajectories: real observations, a submission that passes, and no SQL from nowhere."""

from __future__ import annotations

import random

import pytest
from toy_shop import BAD_GOLD, BOUNDARY, BROKEN, UPDATE

from birdrl.agent.prompting import load_prompts
from birdrl.agent.tools import format_tool_call
from birdrl.distill.reasoning import Rejected, write_thought
from birdrl.distill.trajectories import TrajectoryTeacher, find_leak, plan_turns
from birdrl.params import AgentParams

PARAMS = AgentParams.model_validate({"max_turns": 3})


def teacher(store, pool, scorer, seed=0):
    return TrajectoryTeacher(store, pool, scorer, load_prompts("compact"), PARAMS, seed)


@pytest.fixture(scope="module")
def rows(store, pool, scorer):
    return [teacher(store, pool, scorer, seed).build(i) for seed in range(8) for i in (BOUNDARY, BROKEN, UPDATE)]


def test_every_trajectory_ends_in_a_submission_after_real_observations(rows):
    seen = set()
    for row in rows:
        roles = [message["role"] for message in row["messages"]]
        assert roles[:2] == ["system", "user"]
        assert roles[2:] == ["assistant", "tool"] * (row["turns"] - 1) + ["assistant"]
        assert "submit_solution" in row["messages"][-1]["content"]
        assert "tool_calls" not in row["messages"][-1]
        seen |= {(row["instance_id"], m["content"]) for m in row["messages"] if m["role"] == "tool"}
    assert ("boundary", "id\n2\n3\n4") in seen
    assert ("broken", "Error: no such column: idd") in seen
    assert ("update", "OK (2 rows changed)") in seen


def test_several_forms_occur_and_the_seed_decides(rows, store, pool, scorer):
    assert {row["turns"] for row in rows} == {2, 3}
    assert len({str(row["messages"]) for row in rows if row["instance_id"] == "boundary"}) > 2
    assert teacher(store, pool, scorer, 0).build(BOUNDARY) == rows[0]


def test_a_bad_reference_is_rejected_not_raised(store, pool, scorer):
    verdict = teacher(store, pool, scorer).build(BAD_GOLD)
    assert isinstance(verdict, Rejected)


def test_forms_keep_to_the_turn_limit():
    thought = write_thought(BOUNDARY)
    for limit in (1, 2, 3):
        for seed in range(20):
            assert len(plan_turns(BOUNDARY, thought, random.Random(seed), limit)) <= limit


def test_sql_that_no_thought_leads_to_is_a_leak():
    call = format_tool_call("submit_solution", BOUNDARY.sol_sql[0])
    fix = "Replace `price > 20` with `price >= 20`."
    assert find_leak(BOUNDARY, [{"role": "assistant", "content": f"{fix}\n{call}"}]) == ""
    assert "before a thought leads to it" in find_leak(BOUNDARY, [{"role": "assistant", "content": call}])
    other = fix.replace(">=", "<>")
    assert "do not lead to" in find_leak(BOUNDARY, [{"role": "assistant", "content": f"{other}\n{call}"}])
