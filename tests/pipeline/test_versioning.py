"""Data versions: templates and gym travel through a remote to a second clone and back in time, byte for byte."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from birdrl.gym.instance import read_instances
from birdrl.gym.templates import TemplateStore
from birdrl.rewards.execution import ExecutionScorer
from birdrl.sql.pool import PoolConfig, ReplicaPool

ROOT = Path(__file__).parents[2]
COPIED = ("birdrl", "tasks", "dvc.yaml", "params.yaml", ".dvc/config", ".dvcignore", ".gitignore")
DATA = ("templates", "gym")


@dataclass
class Clone:
    """A clone of the project, and the commands a user runs in it."""

    path: Path

    def run(self, *words: str) -> str:
        env = {k: v for k, v in os.environ.items() if not k.startswith(("DVC_", "BIRDRL_", "GIT_", "MLFLOW_"))}
        env |= {"DVC_NO_ANALYTICS": "1", "BIRDRL_TRACKING": "off", "PYTHONPATH": str(self.path)}
        env["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{env['PATH']}"
        env |= {
            f"GIT_{who}_{what}": "tester@example.org" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")
        }
        command = [sys.executable, "-m", *words] if words[0] in ("dvc", "birdrl") else list(words)
        done = subprocess.run(command, cwd=self.path, env=env, capture_output=True, text=True, timeout=600, check=False)
        assert done.returncode == 0, f"{words}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def commit(self, message: str) -> None:
        self.run("git", "add", "-A")
        self.run("git", "commit", "-q", "-m", message)

    def data(self) -> dict[str, bytes]:
        root = self.path / "artifacts" / "smoke"
        return {
            str(path.relative_to(root)): path.read_bytes()
            for stage in DATA
            for path in sorted((root / stage).rglob("*"))
            if path.is_file()
        }

    def set_parameters(self, **changes: dict[str, object]) -> None:
        path = self.path / "params.yaml"
        values = yaml.safe_load(path.read_text())
        for section, fields in changes.items():
            values["smoke"][section] = {**values["smoke"][section], **fields}
        path.write_text(json.dumps(values))


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Clone:
    """The project with a small gym that has been built, committed and pushed."""
    path = tmp_path_factory.mktemp("versions") / "first"
    path.mkdir()
    for name in COPIED:
        target = path / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, target)
    clone = Clone(path)
    clone.run("git", "init", "-q", "-b", "main")
    clone.run("dvc", "init", "-q", "-f")
    shutil.copy(ROOT / ".dvc/config", path / ".dvc/config")
    clone.run("dvc", "remote", "add", "-q", "-d", "store", "../store")
    clone.set_parameters(templates={"scale": 0.1}, gym={"train_instances": 8, "eval_instances": 4})
    clone.run("birdrl", "activate", "--profile", "smoke")
    clone.run("dvc", "repro", "--quiet", "gym")
    clone.commit("A small gym")
    clone.run("dvc", "push", "--quiet", *DATA)
    return clone


def test_data_travel_to_a_second_clone_and_back_in_time(first: Clone) -> None:
    old = first.data()
    assert {Path(name).parts[0] for name in old} == set(DATA)
    second = Clone(first.path.parent / "second")
    first.run("git", "clone", "-q", str(first.path), str(second.path))
    second.run("birdrl", "activate", "--profile", "smoke")
    assert second.data() == {}
    second.run("dvc", "pull", "--quiet", *DATA)
    assert second.data() == old
    assert json.loads(second.run("dvc", "status", "--json", *DATA)) == {}, "nothing has to be built again"

    # a new version, from the second clone to the first
    second.set_parameters(gym={"train_instances": 9})
    second.run("dvc", "repro", "--quiet", "gym")
    second.commit("One issue more")
    second.run("dvc", "push", "--quiet", *DATA)
    new = second.data()
    assert new["gym/train.jsonl"].count(b"\n") == old["gym/train.jsonl"].count(b"\n") + 1
    first.run("git", "pull", "-q", str(second.path), "main")
    first.run("dvc", "pull", "--quiet", *DATA)
    assert first.data() == new

    # and back, without the remote
    shutil.move(first.path.parent / "store", first.path.parent / "away")
    first.run("git", "checkout", "-q", "HEAD~1")
    first.run("dvc", "checkout", "--quiet", *DATA)
    assert first.data() == old
    assert json.loads(first.run("dvc", "status", "--json", *DATA)) == {}

    # what arrived is as good as what was built
    store = TemplateStore(second.path / "artifacts" / "smoke" / "templates")
    store.verify()
    instances = read_instances(second.path / "artifacts" / "smoke" / "gym" / "train.jsonl")
    with ReplicaPool(PoolConfig(workers=1)) as pool:
        scorer = ExecutionScorer(store, pool)
        assert all(scorer.score(instance, instance.sol_sql).reward == 1.0 for instance in instances)
