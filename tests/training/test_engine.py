"""The engine as a subprocess: progress, errors with the log's end, and nothing left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from birdrl.errors import InfraError, InputError
from birdrl.params import EngineParams
from birdrl.training.engine import EngineRun, engine_command, engine_environment, read_metrics, run_engine

ENGINE = EngineParams.model_validate({})
# Writes its steps like verl's file logger; `lose` leaves a process in a session of its own, as Ray's daemons are.
FAKE = """
import json, os, subprocess, sys, time
mode, steps = sys.argv[1].split("=")[1], int(sys.argv[2].split("=")[1])
if mode == "lose":
    left = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
    open("pids", "w").write(f"{os.getpid()} {left.pid}")
    time.sleep(600)
if mode == "untracked":
    print("WARNING: All MLflow initialization attempts failed. Proceeding.", flush=True)
    time.sleep(600)
with open(os.environ["VERL_FILE_LOGGER_PATH"], "w") as out:
    for step in range(1, steps + 1):
        print(json.dumps({"step": step, "data": {"train/loss": 1 / step}}), file=out, flush=True)
print("rank", os.environ["RANK"], "threads", os.environ["OMP_NUM_THREADS"])
if mode == "fail":
    sys.exit("ValueError: shapes do not match")
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "fake_engine.py").write_text(FAKE)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return tmp_path


def attempt(folder: Path, mode: str, steps: int = 3) -> EngineRun:
    return EngineRun("stage", "fake_engine", [f"mode={mode}", f"steps={steps}"], folder / "attempt", 0, 3)


def test_a_run_to_the_last_step(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = attempt(folder, "work")
    run_engine(run, ENGINE)
    assert [row["step"] for row in read_metrics(run.metrics)] == [1, 2, 3]
    assert "rank 0 threads 2" in run.log.read_text()
    assert "3/3" in capsys.readouterr().err


def test_a_failure_shows_the_end_of_the_log(folder: Path) -> None:
    with pytest.raises(InfraError, match=r"status 1 at step 3 of 3(.|\n)*shapes do not match"):
        run_engine(attempt(folder, "fail"), ENGINE)


def test_stopping_early_is_a_failure(folder: Path) -> None:
    with pytest.raises(InfraError, match="status 0 at step 2 of 3"):
        run_engine(attempt(folder, "work", steps=2), ENGINE)


def test_lost_tracking_stops_the_run(folder: Path) -> None:
    started = time.monotonic()
    with pytest.raises(InfraError, match="cannot write to it"):
        run_engine(attempt(folder, "untracked"), ENGINE)
    assert time.monotonic() - started < 60


def test_an_unfinished_line_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "m").write_text('{"step": 1, "data": {}}\n{"step": 2, "da')
    assert [row["step"] for row in read_metrics(tmp_path / "m")] == [1]


def test_the_engines_python_must_be_there() -> None:
    with pytest.raises(InputError, match=r"engine\.python"):
        engine_command("m", [], ENGINE.model_copy(update={"python": "/nowhere/python"}))


def test_only_cpu_runs_load_the_cpu_platform(tmp_path: Path) -> None:
    cuda = ENGINE.model_copy(update={"device": "cuda"})
    assert "VERL_PLATFORM" not in engine_environment(cuda, tmp_path)
    assert engine_environment(ENGINE, tmp_path)["VERL_USE_EXTERNAL_MODULES"] == "birdrl.training.cpu_platform"


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's parent-death signal is Linux's")
def test_sigkill_leaves_no_process(folder: Path) -> None:
    script = (
        "from pathlib import Path; from birdrl.training.engine import EngineRun, run_engine; "
        "from birdrl.params import EngineParams; "
        f"run_engine(EngineRun('s', 'fake_engine', ['mode=lose', 'steps=1'], Path({str(folder / 'a')!r}), 0, 1), "
        "EngineParams.model_validate({}))"
    )
    root = str(Path(__file__).parents[2])
    environment = os.environ | {"PYTHONPATH": f"{folder}{os.pathsep}{root}"}
    stage = subprocess.Popen([sys.executable, "-c", script], env=environment, stderr=subprocess.DEVNULL)
    pids = folder / "a" / "pids"
    deadline = time.monotonic() + 120
    while not (pids.exists() and len(pids.read_text().split()) == 2):
        assert time.monotonic() < deadline
        assert stage.poll() is None
        time.sleep(0.1)
    engine, left = (int(pid) for pid in pids.read_text().split())
    assert alive(engine)
    assert alive(left)
    stage.send_signal(signal.SIGKILL)
    stage.wait()
    deadline = time.monotonic() + 60
    while (alive(engine) or alive(left)) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not alive(engine)
    assert not alive(left)
