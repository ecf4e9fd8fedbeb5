"""Bugs that people reported: each is covered by a kind, and passes the scorer as an issue with its solution."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from rewind_store import make_store

from birdrl.gym.instance import Instance, ResultTest, StateTest
from birdrl.gym.rewind import KINDS
from birdrl.rewards.execution import ExecutionScorer
from birdrl.sql.pool import PoolConfig, ReplicaPool

SHARED = Path(os.environ.get("BIRDRL_SHARED_DATA", "../shared/data"))
CASES = SHARED / "sql_bugs" / "cases.jsonl"

KIND_OF = {
    "BUG_01": "integer_division",
    "BUG_03": "stray_blank",
    "BUG_05": "quotes_name_a_column",
    "BUG_07": "lost_parentheses",
    "BUG_09": "join_multiplies",
    "BUG_11": "inner_after_left",
    "BUG_13": "equals_null",
    "BUG_15": "having_in_where",
    "BUG_17": "wildcard_taken_literally",
    "BUG_19": "recursion_repeats",
    "BUG_21": "null_total",
    "BUG_23": "timestamp_format",
    "BUG_24": "replace_cascades",
    "BUG_26": "conflict_without_key",
    "BUG_28": "rebuild_loses_index",
    "BUG_30": "delete_group_by",
    "BUG_32": "trigger_all_rows",
    "BUG_34": "month_start",
    "BUG_36": "concat_order",
    "BUG_38": "zone_suffix",
    "BUG_40": "natural_order",
}


def test_every_reported_bug_has_a_kind():
    assert set(KIND_OF.values()) <= set(KINDS)
    if not CASES.is_file():
        pytest.skip(f"no reported bugs at {CASES}; set BIRDRL_SHARED_DATA")
    reported = [json.loads(line) for line in CASES.read_text().splitlines()]
    assert {case["id"] for case in reported} == set(KIND_OF)


@pytest.fixture(scope="module")
def cases() -> dict[str, dict]:
    if not CASES.is_file():
        pytest.skip(f"no reported bugs at {CASES}; set BIRDRL_SHARED_DATA")
    return {case["id"]: case for case in map(json.loads, CASES.read_text().splitlines())}


@pytest.fixture(scope="module")
def scorer(tmp_path_factory):
    store = make_store(tmp_path_factory.mktemp("store"))
    with ReplicaPool(PoolConfig(workers=1, statement_timeout_s=0.5)) as pool:
        yield ExecutionScorer(store, pool)


@pytest.mark.parametrize("bug", KIND_OF)
def test_a_reported_bug_is_an_issue_that_its_repair_solves(cases, scorer, bug):
    case = cases[bug]
    broken, fixed, probe = case["broken_sql_sketch"], case["fixed_sql_sketch"], case["probe_sql"]
    if probe is None:
        tests = [ResultTest(ordered="ORDER BY" in fixed[-1])]
    else:
        *then, probe = [probe] if isinstance(probe, str) else probe
        broken, fixed = [*broken, *then], [*fixed, *then]
        tests = [StateTest(probe_sql=probe)]
    setup = ["PRAGMA foreign_keys = ON"] if case["foreign_keys"] else []
    instance = Instance(
        instance_id=bug, db_id="shop", category=case["category"], query=case["title"], issue_sql=broken, sol_sql=fixed,
        preprocess_sql=[*setup, *case["setup_sql"]], test_cases=tests,
    )  # fmt: skip
    assert scorer.score(instance, fixed).reward == 1.0
    assert scorer.score(instance, broken).reward < 1.0
