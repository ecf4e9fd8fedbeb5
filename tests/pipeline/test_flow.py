"""DVC and Prefect agree: what one has done, the other does not do again."""

from __future__ import annotations

import re
import shutil
import sqlite3
import subprocess
import sys
import time
from dataclasses import replace

import pytest

from birdrl.stages.registry import STAGES

ALL = list(STAGES)


def only(*stages: str) -> dict[str, str]:
    """States of a flow in which just these stages ran."""
    return {stage: "Completed" if stage in stages else "Cached" for stage in ALL}


@pytest.fixture(autouse=True)
def _start_clean(project) -> None:
    """Without overrides and up to date; what has been run before comes out of DVC's run cache."""
    project.command("birdrl", "activate", "--profile", "smoke")
    project.repro()
    project.ran()


def test_a_flow_runs_every_stage_and_leaves_dvc_nothing_to_do(project):
    assert project.is_clean()
    first = project.query(
        "prefect/prefect.db",
        "select t.name, t.state_name from task_run t join flow_run f on f.id = t.flow_run_id "
        "where f.id = (select id from flow_run order by start_time limit 1) order by t.start_time",
    )
    assert [state for _, state in first] == ["Completed"] * len(ALL)
    assert all(str(name).startswith(stage) for (name, _), stage in zip(first, ALL, strict=True))


def test_a_changed_parameter_reruns_its_dependents_under_dvc_and_then_the_flow_is_all_cached(project):
    project.set_parameter("smoke", "rl_reasoning", "learning_rate", 3e-4)
    assert not project.is_clean()
    project.repro()
    assert project.ran() == ["rl_reasoning", "rl_agentic", "evaluate", "report"]
    done = project.flow()
    assert project.ran() == []
    assert project.task_states() == dict.fromkeys(ALL, "Cached")
    assert re.search(r"after stage 2 +agentic +100 +70.0 \[65.0, 75.0\]", done.stdout)


def test_an_override_of_the_flow_reruns_its_dependents_and_leaves_dvc_clean(project):
    project.flow("--set", "distill_trajectories.limit=41")
    dependents = [
        "distill_trajectories", "quality_trajectories", "sft_tools", "rl_reasoning", "rl_agentic", "evaluate", "report",
    ]  # fmt: skip
    assert project.ran() == dependents
    assert project.task_states() == only(*dependents)
    assert project.is_clean()


def test_a_deleted_output_is_not_shown_as_cached(project):
    shutil.rmtree(project.path / "artifacts/smoke/audit")
    project.flow()
    assert project.task_states() == only("audit")
    assert project.ran() == []  # DVC had the outputs of this very run in its cache
    assert (project.path / "artifacts/smoke/audit/summary.json").is_file()


def test_profiles_share_neither_outputs_nor_lock_entries(project):
    kept = (project.path / "artifacts/smoke/gym/summary.json").read_bytes()
    project.command("birdrl", "activate", "--profile", "demo")
    project.repro("gym")
    assert project.ran() == ["templates", "gym"]
    assert (project.path / "artifacts/demo/gym/summary.json").read_bytes() != kept
    assert (project.path / "artifacts/smoke/gym/summary.json").read_bytes() == kept
    project.command("birdrl", "activate", "--profile", "smoke")
    assert project.is_clean()


def test_a_failed_stage_fails_the_flow_and_shows_why(project):
    (project.path / "fail-templates").touch()
    project.set_parameter("smoke", "templates", "scale", 0.25)
    try:
        done = project.flow(status=1)
    finally:
        (project.path / "fail-templates").unlink()
    assert "row 3 of train.jsonl: sol_sql is empty" in done.stderr.splitlines()[-1]
    assert "templates.log" in done.stderr
    assert project.task_states() == {"templates": "Failed"}


@pytest.mark.skipif(sys.platform != "linux", reason="the death of a parent is noticed on Linux only")
def test_a_killed_flow_leaves_nothing_behind_and_the_next_one_goes_on(project):
    project.set_parameter("smoke", "rl_reasoning", "steps", 5)
    (project.path / "hang-rl_reasoning").touch()
    flow = subprocess.Popen(
        [sys.executable, "-m", "flows.full_curriculum", "--profile", "smoke"],
        cwd=project.path,
        env=project.env,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        _until(lambda: sum("birdrl-test" in command for command in project.processes()) == 2)
        half = project.path / "artifacts/smoke/.rl_reasoning.part"
        assert half.is_dir()
        flow.kill()
        flow.wait()
        _until(lambda: project.processes() == [], seconds=60)
    finally:
        flow.kill()
        (project.path / "hang-rl_reasoning").unlink()
    assert not half.exists()
    assert not (project.path / "artifacts/smoke/rl_reasoning").exists()
    project.ran()

    project.flow(BIRDRL_TEST_RESUMED="1")
    assert project.ran() == ["rl_reasoning", "rl_agentic", "evaluate", "report"]
    assert project.task_states() == only("rl_reasoning", "rl_agentic", "evaluate", "report")
    assert "resumed" in (project.path / ".birdrl/logs/smoke/rl_reasoning.log").read_text()
    states = project.query("prefect/prefect.db", "select state_name from flow_run order by start_time desc limit 2")
    assert states == [("Completed",), ("Crashed",)]
    running = project.query("mlflow.db", "select count(*) from runs where status = 'RUNNING'")
    killed = project.query("mlflow.db", "select count(*) from runs where status = 'KILLED'")
    assert (running, killed) == ([(0,)], [(2,)])  # the stage and its curriculum


def test_a_flow_with_a_server_of_its_own_hands_over_all_its_logs(project, tmp_path):
    done = replace(project, api="").flow(PREFECT_HOME=str(tmp_path))
    assert "Error logging to API" not in done.stdout + done.stderr
    with sqlite3.connect(tmp_path / "prefect.db") as db:
        logged = [message for (message,) in db.execute("select message from log where task_run_id is null")]
    assert any("Finished in state" in message for message in logged)
    project.ran()


def test_wrong_input_is_told_before_anything_starts(project):
    done = project.flow("--set", "gym.train_instanzes=5", status=2)
    assert "gym.train_instanzes" in done.stderr
    assert "params.yaml" in done.stderr
    assert "train_instances" in done.stderr
    assert "Traceback" not in done.stderr


def test_mlflow_holds_a_run_per_stage_with_inputs_models_and_aliases(project):
    parents = "select run_uuid from tags where key = 'mlflow.parentRunId'"
    names = project.query("mlflow.db", f"select distinct name from runs where run_uuid in ({parents})")
    assert {name for (name,) in names} == {f"smoke/{stage}" for stage in ALL}
    aliases = dict(project.query("mlflow.db", "select alias, version from registered_model_aliases"))
    assert set(aliases) == {"init", "stage1", "stage2", "stage3", "stage4", "champion"}
    assert aliases["champion"] == aliases["stage2"]  # 70 % first reached there
    digests = project.query("mlflow.db", "select name, digest from datasets where name = 'audit'")
    assert digests
    assert all(str(digest).endswith(".dir") for _, digest in digests)
    assert project.query("mlflow.db", "select count(*) from metrics where key = 'value'")[0][0] >= len(ALL)


def _until(holds, seconds: float = 600) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, f"still not so after {seconds} s"
        time.sleep(0.2)


def test_paths_of_this_machine_do_not_enter_the_lock_file(project):
    lock = (project.path / "dvc.lock").read_text()
    assert str(project.path) not in lock
