"""The Prefect server of a single flow run ends with the run, however that ends."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tasks.services import answers

ROOT = Path(__file__).parents[2]
HOLD = """
import sys
from tasks.temporary_server import temporary_server
with temporary_server() as api:
    print(api, flush=True)
    sys.stdin.readline()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the death of a parent is noticed on Linux only")
@pytest.mark.parametrize("ending", ["returns", "is killed"])
def test_it_serves_and_ends_when_its_run(ending: str, tmp_path: Path) -> None:
    env = {**os.environ, "PREFECT_HOME": str(tmp_path / "home"), "PYTHONPATH": str(ROOT)}
    env.pop("PREFECT_API_URL", None)
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD], cwd=tmp_path, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert holder.stdin
    assert holder.stdout
    health = f"{holder.stdout.readline().strip()}/health"
    assert answers(health)
    if ending == "returns":
        holder.stdin.close()
        assert holder.wait(60) == 0
    else:
        holder.kill()
        holder.wait()
    deadline = time.monotonic() + 60
    while answers(health) or processes_in(tmp_path):
        assert time.monotonic() < deadline, "the server outlives its run"
        time.sleep(0.2)


def processes_in(folder: Path) -> list[str]:
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
            if state != "Z" and (entry / "cwd").resolve() == folder:
                found.append((entry / "cmdline").read_text())
        except (FileNotFoundError, PermissionError, ProcessLookupError):
            continue
    return found
