"""A copy of the project in which the orchestration is real and every stage is a few lines.

The real registry, dvc.yaml, params.yaml, CLI, tasks and flow are copied. Only the stage functions are replaced: each
writes the numbers it was asked for and a digest of what it read, so that a rerun on other input shows.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import pytest
import yaml

from birdrl.stages.registry import STAGES

ROOT = Path(__file__).parents[2]
WIRING = [
    "birdrl/__init__.py",
    "birdrl/__main__.py",
    "birdrl/active.py",
    "birdrl/errors.py",
    "birdrl/files.py",
    "birdrl/gym/paper.py",
    "birdrl/params.py",
    "birdrl/cli",
    "birdrl/stages/__init__.py",
    "birdrl/stages/registry.py",
    "birdrl/stages/execute.py",
    "birdrl/stages/lock.py",
    "birdrl/stages/supervisor.py",
    "tasks/__init__.py",
    "tasks/_dvc.py",
    "tasks/_prefect.py",
    "tasks/_process.py",
    "tasks/_stage.py",
    "birdrl/report",
    "tasks/tracking.py",
    "tasks/services.py",
    "tasks/temporary_server.py",
    "flows",
    "prefect.toml",
    "dvc.yaml",
    "params.yaml",
    ".dvcignore",
]

TINY_STAGE = '''
"""Stand-in stage functions of the orchestration tests."""

import json, os, subprocess, sys, time
from birdrl.files import canonical_json, sha256_text, write_json
from birdrl.stages.registry import STAGES


def work(ctx):
    read = {}
    for stage in STAGES[ctx.name].inputs:
        read[stage] = (ctx.input(stage) / "summary.json").read_text()
    sections = {name: str(getattr(ctx.params, name)) for name in STAGES[ctx.name].sections}
    digest = sha256_text(canonical_json({"read": read, "sections": sections}))
    with open("runs.log", "a") as log:
        log.write(f"{ctx.params.seed} {ctx.root.name} {ctx.name} {os.environ.get('MLFLOW_RUN_ID', '-')}\\n")
    if os.path.exists(f"hang-{ctx.name}"):
        (ctx.out / "half").write_text("half-written")
        (ctx.work / "checkpoint").write_text("step 1")
        # one child as usual, one that has left for the background as Ray's daemons do
        asleep = [sys.executable, "-c", "import time; time.sleep(600)"]
        subprocess.Popen([*asleep, "birdrl-test-child"])
        subprocess.Popen([*asleep, "birdrl-test-daemon"], start_new_session=True)
        print("hanging", file=sys.stderr, flush=True)
        time.sleep(600)
    if os.path.exists(f"fail-{ctx.name}"):
        from birdrl.errors import QualityError
        raise QualityError("row 3 of train.jsonl: sol_sql is empty")
    resumed = (ctx.work / "checkpoint").exists()
    if resumed:
        (ctx.work / "checkpoint").unlink()
    write_json(ctx.out / "summary.json", {"value": int(digest[:4], 16)})
    for name in ("manifest.json", "stats.json", "report.json", "policy.json"):
        write_json(ctx.out / name, {"value": int(digest[:4], 16)})
    if ctx.name in ("policy_init", "sft_reasoning", "sft_tools", "rl_reasoning", "rl_agentic"):
        (ctx.out / "model").mkdir()
        (ctx.out / "model" / "model.safetensors").write_text(digest)
    if ctx.name == "evaluate":
        write_json(ctx.out / "results.json", {"policies": [
            {"policy": p, "protocol": "agentic", "instances": 100, "success": s, "interval": [s - 0.05, s + 0.05],
             "by_category": {"query": {"n": 60, "success": s, "interval": [s - 0.1, s + 0.1]}},
             "mean_reward": s, "mean_turns": 2.0, "tool_errors": 1}
            for p, s in [("policy_init", 0.1), ("sft_reasoning", 0.5), ("sft_tools", 0.7), ("rl_reasoning", 0.7)]]})
    if ctx.name == "report":
        (ctx.out / "report.html").write_text("<p>report</p>")
    if os.environ.get("BIRDRL_TEST_RESUMED"):
        print("resumed" if resumed else "afresh", file=sys.stderr)


run = run_reasoning = run_trajectories = work
run_sft_reasoning = run_sft_tools = run_rl_reasoning = run_rl_agentic = work
'''


@dataclass
class Project:
    """A temporary project and the commands a user runs in it."""

    path: Path
    api: str = ""

    @property
    def env(self) -> dict[str, str]:
        dropped = ("PREFECT_", "MLFLOW_", "BIRDRL_", "DVC_")
        env = {name: value for name, value in os.environ.items() if not name.startswith(dropped)}
        env["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{env['PATH']}"
        env |= {"DVC_NO_ANALYTICS": "1", "DO_NOT_TRACK": "true", "PREFECT_SERVER_ANALYTICS_ENABLED": "false"}
        return env | ({"PREFECT_API_URL": self.api} if self.api else {})

    def command(self, *words: str, status: int | None = 0, **env: str) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [sys.executable, "-m", *words],
            cwd=self.path,
            env={**self.env, **env},
            capture_output=True,
            text=True,
            timeout=900,
            check=False,
        )
        assert status is None or done.returncode == status, f"{words}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done

    def flow(self, *words: str, status: int = 0, **env: str) -> subprocess.CompletedProcess[str]:
        return self.command("flows.full_curriculum", "--profile", "smoke", *words, status=status, **env)

    def repro(self, *stages: str) -> None:
        self.command("dvc", "repro", "--quiet", *stages, BIRDRL_TRACKING="off")

    def is_clean(self) -> bool:
        return self.command("dvc", "status", "--json").stdout.strip() == "{}"

    def query(self, database: str, sql: str) -> list[tuple[object, ...]]:
        with sqlite3.connect(self.path / ".birdrl" / database) as db:
            return db.execute(sql).fetchall()

    def processes(self) -> list[str]:
        """Command lines of the processes that work in this project, the Prefect server of the tests left out."""
        found = []
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                if (entry / "cwd").resolve() == self.path and command and "prefect server" not in command:
                    found.append(command)
            except (FileNotFoundError, PermissionError, ProcessLookupError):
                continue
        return found

    def ran(self) -> list[str]:
        """Stages run since the last call, in order."""
        log = self.path / "runs.log"
        lines = log.read_text().splitlines() if log.exists() else []
        log.unlink(missing_ok=True)
        return [line.split()[2] for line in lines]

    def task_states(self) -> dict[str, str]:
        """Name of each task run's state in the latest flow run, read from Prefect's database."""
        [(flow_run,)] = self.query("prefect/prefect.db", "select id from flow_run order by start_time desc limit 1")
        rows = self.query(
            "prefect/prefect.db", f"select name, state_name from task_run where flow_run_id = '{flow_run}'"
        )
        return {re.sub(r"-\w{3}$", "", str(name)): str(state) for name, state in rows}

    def set_parameter(  # the block is written out, anchors and merges are gone afterwards
        self, profile: str, section: str, key: str, value: object
    ) -> None:
        path = self.path / "params.yaml"
        values = yaml.safe_load(path.read_text())
        values[profile][section] = {**values[profile][section], key: value}
        path.write_text(json.dumps(values))


@pytest.fixture(scope="session")
def blank_project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("project")
    for name in WIRING:
        target = path / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, target)
    for stage in STAGES.values():
        shutil.copy(ROOT / "tasks" / f"{stage.name}.py", path / "tasks")
        module = path / (stage.function.split(":")[0].replace(".", "/") + ".py")
        module.write_text(TINY_STAGE)
    for stage in yaml.safe_load((path / "dvc.yaml").read_text())["stages"].values():
        for dep in stage["do"]["deps"]:
            if not dep.startswith("artifacts/") and not (path / dep).exists():
                file = path / dep if Path(dep).suffix else path / dep / "__init__.py"
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text('"""Stands for code that a stage depends on."""\n')
    subprocess.run(["git", "init", "-q"], cwd=path, check=True)
    project = Project(path)
    project.command("dvc", "init", "-q")
    shutil.copy(ROOT / ".dvc/config", path / ".dvc/config")
    (path / ".gitignore").write_text("artifacts/\nactive.yaml\n.birdrl/\nruns.log\n")
    return path


@pytest.fixture(scope="session")
def project(blank_project: Path) -> Iterator[Project]:
    """The project after one whole flow, with a Prefect server that the tests share to save time."""
    project = Project(blank_project)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    home = blank_project / ".birdrl/prefect"
    home.mkdir(parents=True)
    server = subprocess.Popen(
        [sys.executable, "-m", "prefect", "server", "start", "--host", "127.0.0.1", "--port", str(port), "--no-ui"],
        cwd=blank_project,
        env={**project.env, "PREFECT_HOME": str(home)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        project.api = f"http://127.0.0.1:{port}/api"
        _wait_for(f"{project.api}/health", server)
        project.flow()
        yield project
    finally:
        os.killpg(server.pid, signal.SIGTERM)
        try:
            server.wait(15)
        except subprocess.TimeoutExpired:
            os.killpg(server.pid, signal.SIGKILL)


def _wait_for(url: str, server: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 180
    while time.monotonic() < deadline:
        assert server.poll() is None, "the Prefect server ended while starting"
        try:
            with urlopen(url, timeout=5):
                return
        except (URLError, TimeoutError, ConnectionError):
            time.sleep(0.3)
    raise TimeoutError(url)
