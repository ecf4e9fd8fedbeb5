"""Nothing outlives whoever asked for it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from birdrl.stages import supervisor

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the death of a parent is noticed on Linux only")

# A child, a child in its own session, and one whose parent is gone: what Ray leaves about.
FAMILY = """
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
sleep = [sys.executable, "-c", "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(300)"]
one = subprocess.Popen(sleep)
two = subprocess.Popen(sleep, start_new_session=True)
if os.fork() == 0:
    os.setsid()
    three = subprocess.Popen(sleep)
    print(one.pid, two.pid, three.pid, os.getpid(), flush=True)
    os._exit(0)
os.wait()
EXIT
"""


@pytest.fixture(autouse=True)
def _short_grace(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))


def start(ending: str) -> tuple[subprocess.Popen[str], list[int]]:
    process = subprocess.Popen(
        [sys.executable, supervisor.__file__, sys.executable, "-c", FAMILY.replace("EXIT", ending)],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    return process, [int(word) for word in process.stdout.readline().split()]


def gone(pids: list[int], seconds: float = 20) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if not any(Path(f"/proc/{pid}").exists() for pid in pids):
            return True
        time.sleep(0.1)
    return False


@pytest.mark.parametrize(("ending", "status"), [("sys.exit(3)", 3), ("os.kill(os.getpid(), 9)", 137), ("", 0)])
def test_the_status_is_passed_on_and_background_processes_are_ended(ending, status):
    process, family = start(ending)
    assert process.wait(30) == status
    assert gone(family)


def test_a_terminated_supervisor_ends_the_family():
    process, family = start("time.sleep(300)")
    process.terminate()
    assert process.wait(30) == 128 + signal.SIGTERM
    assert gone(family)


def test_the_death_of_the_asking_process_ends_the_family():
    asker = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import os, subprocess, sys, time\n"
            f"subprocess.Popen([sys.executable, {supervisor.__file__!r}, sys.executable, '-c', {FAMILY!r}"
            ".replace('EXIT', 'time.sleep(300)')])\n"
            "time.sleep(300)\n",
        ],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert asker.stdout is not None
    family = [int(word) for word in asker.stdout.readline().split()]
    assert not gone(family, seconds=0.3)
    os.kill(asker.pid, signal.SIGKILL)
    asker.wait()
    assert gone(family)
