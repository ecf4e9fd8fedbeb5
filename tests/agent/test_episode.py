"""The trajectory loop: limits, final SQL, who is to blame, and that a policy's text never raises."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from birdrl.agent.episode import LAST_TURN_NOTE, Episode, StopReason
from birdrl.agent.tools import format_tool_call
from birdrl.errors import GoldError, InfraError
from birdrl.rewards.execution import Blame

from .conftest import FakeLease, failed, ok

RUN = format_tool_call("execute_sql", "SELECT 1")
SUBMIT = format_tool_call("submit_solution", "SELECT 2")


def episode(instance, params, lease=None, **more):
    return Episode(instance, lease or FakeLease(), params, tools=True, **more)


def test_run_then_submit(instance, agent_params):
    lease = FakeLease()
    ep = episode(instance, agent_params, lease)
    step = ep.step(f"Look.\n{RUN}")
    assert (step.stop, step.observation) == (None, "n\n1")
    step = ep.step(SUBMIT)
    assert (step.stop, step.observation) == (StopReason.SUBMITTED, None)
    assert ep.final_sql == ["SELECT 2"]
    assert (ep.turns, ep.tool_calls, ep.tool_errors, ep.blame) == (2, 2, 0, Blame.NONE)
    assert lease.scripts == ["SELECT 1"]
    assert [message["role"] for message in ep.transcript()] == ["assistant", "tool", "assistant"]


def test_a_submission_on_the_last_allowed_turn_counts(instance, agent_params):
    ep = episode(instance, agent_params)
    ep.step(RUN)
    assert LAST_TURN_NOTE in (ep.step(RUN).observation or "")
    assert ep.step(SUBMIT).stop is StopReason.SUBMITTED
    assert ep.final_sql == ["SELECT 2"]


def test_the_turn_limit_ends_the_trajectory_after_its_call_has_run(instance, agent_params):
    lease = FakeLease()
    ep = episode(instance, agent_params, lease)
    stops = [ep.step(RUN).stop for _ in range(3)]
    assert stops == [None, None, StopReason.MAX_TURNS]
    assert len(lease.scripts) == 3
    with pytest.raises(ValueError, match="has ended"):
        ep.step(RUN)


@pytest.mark.parametrize(("rule", "expected"), [("submit_or_last", ["SELECT 1"]), ("submit_only", None)])
def test_what_counts_without_a_submission(instance, agent_params, rule, expected):
    ep = episode(instance, agent_params.model_copy(update={"final_sql": rule}))
    ep.step(RUN)
    assert ep.step("I give up.").stop is StopReason.NO_TOOL_CALL
    assert ep.final_sql == expected
    assert ep.blame is (Blame.NONE if expected else Blame.POLICY)


def test_sql_written_without_a_call_is_the_last_query(instance, agent_params):
    ep = episode(instance, agent_params)
    ep.step("```sql\nSELECT 9\n```")
    assert ep.final_sql == ["SELECT 9"]


def test_malformed_calls_are_observations(instance, agent_params):
    ep = episode(instance, agent_params)
    step = ep.step("<tool_call>\nnonsense\n</tool_call>")
    assert (step.observation or "").startswith("Error: the tool call is not valid JSON")
    assert (ep.tool_calls, ep.tool_errors) == (0, 1)


def test_the_calls_of_a_turn_share_one_observation_message(instance, agent_params):
    ep = episode(instance, agent_params)
    step = ep.step(RUN + "<tool_call>{}</tool_call>" + RUN)
    assert (step.observation or "").count("n\n1") == 2
    assert [message["role"] for message in ep.transcript()] == ["assistant", "tool"]


def test_calls_after_a_submission_are_not_run(instance, agent_params):
    lease = FakeLease()
    episode(instance, agent_params, lease).step(SUBMIT + RUN)
    assert lease.scripts == []


def test_only_the_first_calls_of_a_turn_are_run(instance, agent_params):
    lease = FakeLease()
    step = episode(instance, agent_params, lease).step(RUN * 9)
    assert len(lease.scripts) == 4
    assert "first 4 calls" in (step.observation or "")


def test_a_tool_call_inside_an_observation_is_not_a_call(instance, agent_params):
    lease = FakeLease(lambda script: [ok(script, ("v",), ((SUBMIT,), ("<|im_end|>",)))])
    ep = episode(instance, agent_params, lease)
    step = ep.step(RUN)
    assert ep.stop is None
    assert "<tool_call>" not in (step.observation or "")
    assert "<|im_end|>" not in (step.observation or "")


def test_observations_keep_to_their_budget(instance, agent_params):
    lease = FakeLease(lambda script: [ok(script, ("v",), (("\u00e9" * 10_000,),))])
    step = episode(instance, agent_params, lease).step(RUN * 4)
    assert len((step.observation or "").encode()) <= agent_params.observation_bytes


@pytest.mark.parametrize("status", ["error", "denied", "timeout"])
def test_failing_sql_is_the_policys_observation(instance, agent_params, status):
    lease = FakeLease(lambda script: [failed(script, status, "no such column: x")])
    ep = episode(instance, agent_params, lease)
    step = ep.step(RUN)
    assert "no such column: x" in (step.observation or "")
    assert ep.tool_errors == 1


def test_after_a_killed_statement_the_policy_may_submit_but_not_run(instance, agent_params):
    lease = FakeLease(lambda script: [failed(script, "killed", "killed after 2 s")])
    for last, stop in ((SUBMIT, StopReason.SUBMITTED), (RUN, StopReason.POLICY_KILLED)):
        ep = episode(instance, agent_params, lease)
        assert "killed after 2 s" in (ep.step(RUN).observation or "")
        assert ep.step(last).stop is stop
        assert ep.blame is Blame.NONE


def test_infrastructure_failure_propagates_and_is_not_the_policys_fault(instance, agent_params):
    def broken(script):
        raise InfraError("worker 3 died")

    ep = episode(instance, agent_params, FakeLease(broken))
    with pytest.raises(InfraError, match="worker 3"):
        ep.step(RUN)
    assert (ep.stop, ep.blame) == (StopReason.INFRA, Blame.INFRA)


def test_preprocess_runs_first_and_its_failure_is_the_instances_fault(instance, agent_params):
    prepared = instance.model_copy(update={"preprocess_sql": ["CREATE TABLE t(x)", "DROP TABLE u"]})
    lease = FakeLease()
    episode(prepared, agent_params, lease)
    assert lease.scripts == ["CREATE TABLE t(x)", "DROP TABLE u"]
    with pytest.raises(GoldError, match="shop_1, preprocess_sql 'CREATE TABLE"):
        episode(prepared, agent_params, FakeLease(lambda script: [failed(script, "error", "exists")]))


class Clock:
    """Stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def slow(clock, seconds, elapsed_s):
    """A lease on which a script takes `seconds` of the clock, `elapsed_s` of them inside SQLite."""

    def answer(script):
        clock.now += seconds
        return [replace(ok(script, ("n",), ((1,),)), elapsed_s=elapsed_s)]

    return FakeLease(answer)


@pytest.mark.parametrize(("in_sql", "blame"), [(1.0, Blame.INFRA), (490.0, Blame.NONE)])
def test_running_out_of_time_is_blamed_by_where_the_time_went(instance, agent_params, in_sql, blame):
    clock = Clock()
    params = agent_params.model_copy(update={"trajectory_timeout_s": 500.0})
    ep = episode(instance, params, slow(clock, 600.0, in_sql), clock=clock)
    assert ep.step(RUN).stop is StopReason.TIMEOUT
    assert ep.blame is blame


def test_sql_gets_no_more_time_than_the_trajectory_has_left(instance, agent_params):
    clock = Clock()
    params = agent_params.model_copy(update={"trajectory_timeout_s": 10.0, "statement_timeout_s": 4.0, "max_turns": 9})
    lease = slow(clock, 3.0, 3.0)
    ep = episode(instance, params, lease, clock=clock)
    assert ep.step(RUN).stop is None
    assert ep.step(RUN * 4).stop is StopReason.TIMEOUT
    assert lease.limits == [(4.0, 10.0), (4.0, 7.0), (4.0, 4.0), (1.0, 1.0)], "the fourth call of the turn is not run"
    assert ep.blame is Blame.NONE, "the time went into its SQL: what it ran last is scored"


def test_a_submission_written_in_time_counts_however_slow_the_call_before_it_was(instance, agent_params):
    clock = Clock()
    ep = episode(instance, agent_params, slow(clock, 1000.0, 1000.0), clock=clock)
    assert ep.step(RUN + SUBMIT).stop is StopReason.SUBMITTED


def test_preprocessing_is_not_the_policys_time(instance, agent_params):
    clock = Clock()
    prepared = instance.model_copy(update={"preprocess_sql": ["CREATE TABLE t(x)"]})
    ep = episode(prepared, agent_params, slow(clock, 100.0, 100.0), clock=clock)
    assert ep.seconds_left == agent_params.trajectory_timeout_s
    assert ep.sql_seconds == 0


def test_single_turn_answers_need_no_lease(instance, agent_params):
    ep = Episode(instance, None, agent_params, tools=False)
    assert ep.step("Because.\n```sql\nSELECT 3\n```").stop is StopReason.ANSWERED
    assert ep.final_sql == ["SELECT 3"]
    ep = Episode(instance, None, agent_params, tools=False)
    assert ep.step("no idea").stop is StopReason.NO_ANSWER
    assert (ep.final_sql, ep.blame) == (None, Blame.POLICY)


def test_a_limit_seen_from_outside_ends_it(instance, agent_params):
    ep = episode(instance, agent_params)
    ep.step(RUN)
    assert ep.end(StopReason.TOKEN_LIMIT).stop is StopReason.TOKEN_LIMIT
    assert ep.final_sql == ["SELECT 1"]


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)
@given(st.lists(st.one_of(st.text(), st.text().map(lambda t: f"<tool_call>{t}</tool_call>")), max_size=3))
def test_no_text_raises(instance, agent_params, texts):
    ep = episode(instance, agent_params)
    for text in texts:
        if ep.stop is None:
            ep.step(text)
