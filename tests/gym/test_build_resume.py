"""A build that was stopped goes on where it was, in the same process or another, and gives the same gym."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from rewind_store import make_store

from birdrl.gym import build
from birdrl.gym.build import build_gym
from birdrl.gym.journal import Journal, build_key
from birdrl.params import GymParams

SHOPS = ("shop_a", "shop_b")


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return make_store(tmp_path_factory.mktemp("templates"), SHOPS)


def params(**changes) -> GymParams:
    values = {"train_instances": 60, "eval_instances": 0, "workers": 1}
    return GymParams.model_validate({**values, **changes})


class Stop(Exception):
    pass


def rows(gym) -> list[dict]:
    return [instance.row() for instance in gym.train]


@pytest.fixture(autouse=True)
def small_slices(monkeypatch):
    monkeypatch.setattr(build, "SLICE", 10)


def test_a_stopped_build_goes_on_and_gives_the_same(store, tmp_path):
    whole = build_gym(store, params(), 5)
    done = 0

    def stop(phase: str, count: int) -> None:
        nonlocal done
        done += count if phase == "issues" else 0
        if done >= 25:
            raise Stop

    with pytest.raises(Stop):
        build_gym(store, params(), 5, stop, work=tmp_path)
    kept = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("0*.json")}
    assert len(kept) == 3
    again = build_gym(store, params(), 5, work=tmp_path)
    assert all(path.stat().st_mtime_ns == time_ns for path, time_ns in kept.items()), "finished slices are made again"
    assert rows(again) == rows(whole)
    assert again.quarantine == whole.quarantine
    again.journal.remove()
    assert not list(tmp_path.iterdir())


def test_another_seed_or_parameter_starts_anew(store, tmp_path):
    key = build_key(store, params(), 5)
    assert key == build_key(store, params(workers=2), 5)
    assert key != build_key(store, params(), 6)
    assert key != build_key(store, params(max_words=44), 5)
    first = Journal.open(tmp_path, key)
    assert first.folder.is_dir()
    Journal.open(tmp_path, build_key(store, params(), 6))
    assert not first.folder.exists(), "what another build has left is removed"


def test_slices_do_not_depend_on_who_makes_them(store, tmp_path):
    """Each slice in a process that has seen nothing of the earlier ones."""
    from birdrl.gym.build_steps import BuildSpec, Workshop

    quota = {"query": 6, "management": 2, "personalization": 2}
    made = {}
    for name in ("one", "many"):
        journal = tmp_path / name
        shop = None
        for number in range(3):
            if shop is None or name == "many":
                if shop is not None:
                    shop.close()
                shop = Workshop(BuildSpec(store.folder, journal, params(), 5))
                shop.verify("shop_a", None, 40)
            shop.extend("shop_a", number, quota)
        shop.close()
        made[name] = [(journal / "shop_a" / f"{number:04d}.json").read_text() for number in range(3)]
    assert made["one"] == made["many"]


def test_a_killed_command_leaves_no_process_and_goes_on(tmp_path):
    """SIGKILL in the middle, two worker processes; the second run gives what an undisturbed one gives."""
    options = ["--instances", "260", "--seed", "3", "--skip", "airline", "--set", "text_style=brief"]

    def command(out: str) -> list[str]:
        return [sys.executable, "-m", "birdrl", "gym", "build", "--out", str(tmp_path / out), *options]

    marked = tmp_path / "temporary"  # in the environment of every process that the build starts
    marked.mkdir()
    environment = {**os.environ, "TMPDIR": str(marked)}
    work = tmp_path / ".mine.work"
    with subprocess.Popen(
        command("mine"), start_new_session=True, stderr=subprocess.DEVNULL, env=environment
    ) as process:
        deadline = time.monotonic() + 60
        while not list(work.rglob("0000.json")) and time.monotonic() < deadline:
            time.sleep(0.02)
        process.send_signal(signal.SIGKILL)
    assert list(work.rglob("0000.json")), "the build was not far enough to be interrupted"
    deadline = time.monotonic() + 20
    while (left := _processes_with(str(marked))) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not left, f"processes outlive the killed build: {left}"
    for out in ("mine", "undisturbed"):
        done = subprocess.run(command(out), capture_output=True, text=True, check=False, timeout=300, env=environment)
        assert done.returncode == 0, done.stderr
    for file in ("train.jsonl", "quarantine.jsonl", "stats.json"):
        assert (tmp_path / "mine" / file).read_bytes() == (tmp_path / "undisturbed" / file).read_bytes()
    assert not work.exists()
    assert json.loads((tmp_path / "mine" / "stats.json").read_text())["train"]["instances"] == 260


def _processes_with(text: str) -> list[str]:
    """Processes in whose environment a text stands."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            environment = (folder / "environ").read_bytes()
            state = (folder / "stat").read_text().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue
        if text.encode() in environment and state != "Z":
            found.append(folder.name)
    return found
