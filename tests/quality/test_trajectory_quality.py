"""The check of trajectories: what the teacher wrote passes; what was spoilt stops the run and shows the rows."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from birdrl.agent.tools import EXECUTE, format_tool_call
from birdrl.errors import QualityError
from birdrl.stages.distill import run_trajectories
from birdrl.stages.registry import StageContext

pytest.importorskip("great_expectations", reason="the pipeline extra is not installed")
from tasks.quality_history import runs
from tasks.trajectory_expectations import run

Rows = dict[str, list[dict[str, Any]]]
Trajectories = list[dict[str, Any]]


@pytest.fixture
def written(rows: Rows, context: Callable[[Rows], StageContext]) -> tuple[StageContext, Trajectories]:
    """A profile folder whose trajectories the teacher has written, and the trajectories to be spoilt by a test."""
    ctx = context(rows)
    params = ctx.params.model_copy(
        update={
            "quality_trajectories": ctx.params.quality_trajectories.model_copy(
                update={"min_trajectories": 8, "gate_sample": None}
            )
        }
    )
    (ctx.root / "quality").mkdir()
    out = ctx.root / "distill_trajectories"
    out.mkdir()
    run_trajectories(StageContext("distill_trajectories", params, ctx.root, out, ctx.work))
    lines = (out / "trajectories.jsonl").read_text().splitlines()
    return StageContext("quality_trajectories", params, ctx.root, ctx.out, ctx.work), [json.loads(x) for x in lines]


def save(ctx: StageContext, trajectories: Trajectories) -> None:
    text = "".join(json.dumps(row) + "\n" for row in trajectories)
    (ctx.root / "distill_trajectories" / "trajectories.jsonl").write_text(text)


def test_what_the_teacher_writes_passes(written: tuple[StageContext, Trajectories]) -> None:
    ctx, trajectories = written
    assert len(trajectories) == 8
    run(ctx)
    summary = json.loads((ctx.out / "summary.json").read_text())
    suites = {suite["name"]: suite for suite in summary["suites"]}
    assert suites["trajectories"]["success"]
    assert (suites["trajectories"]["rows"], suites["variety"]["hard"]) == (8, False)
    assert [path.name for path in runs(ctx.root / "quality_trajectories-history")] == ["0001-passed"]
    page = next((ctx.out / "docs" / "validations").rglob("*.html")).read_text()
    assert "what the trajectory submits passes all tests" in page


def test_spoilt_trajectories_are_named_with_the_reason(written: tuple[StageContext, Trajectories]) -> None:
    ctx, rows = written
    solution = rows[1]["final_sql"]
    rows[0]["messages"][-1]["content"] = "I am done."
    rows[1]["final_sql"] = ["SELECT id FROM item"]
    rows[2]["instance_id"] = "eval-0"
    rows[3]["turns"] = 9
    rows[4]["messages"].insert(3, {"role": "user", "content": "Hm?"})
    rows[5]["messages"][2]["content"] = rows[5]["messages"][2]["content"].replace("</tool_call>", "")
    rows[6]["messages"][2]["content"] = f"Hm.\n{format_tool_call(EXECUTE, 'SELECT 42')}"
    rows[7]["final_sql"] = []
    save(ctx, rows)
    with pytest.raises(QualityError) as caught:
        run(ctx)
    message = str(caught.value)
    assert solution != ["SELECT id FROM item"]
    for shown in (
        r"expect_dialogue_to_be_well_formed of dialogue_gate: 4 of 8 rows",
        r"train-0: dialogue_gate = 'turn \d: no tool call'",
        r"train-4: dialogue_gate = 'roles are system, user, assistant, user",
        r"train-5: dialogue_gate = 'turn 1: the tool call has no closing </tool_call>.'",
        r"train-7: dialogue_gate = 'final_sql is empty'",
        r"expect_submission_to_pass_the_tests of submission_gate: 1 .*\n.*train-1: submission_gate = .passes 0 of 1",
        r"of in_training: 1 of 8 rows\n.*row 3, instance_id eval-0",
        r"of turns: 1 .*\n.*train-3: turns = 9",
        r"of turns_match: 1 ",
        r"expect_no_unjustified_sql of leak_gate: 1 .*\n.*train-6: leak_gate = '",
    ):
        assert re.search(shown, message), f"{shown}\n{message}"
    assert "quality_trajectories-history/0001-failed/docs/index.html" in message
