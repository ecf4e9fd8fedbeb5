"""Running the engine: a supervised subprocess with a log, a progress line, and nothing left behind.

The engine may live in an environment of its own (`engine.python`). It runs under `birdrl.stages.supervisor`: when
this process ends in any way, SIGKILL included, the supervisor ends every process the engine started, Ray's too.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tqdm import tqdm

import birdrl
from birdrl.errors import InfraError, InputError
from birdrl.files import sha256_text
from birdrl.params import EngineParams
from birdrl.training.recipes import RL_MODULE, gpus

POLL_S = 0.5
TAIL_LINES = 40
# verl goes on without tracking when MLflow cannot be reached; a run that was told to track must not.
TRACKING_LOST = "All MLflow initialization attempts failed"


@dataclass(frozen=True)
class EngineRun:
    """One attempt: what to run, where its log and metrics go, and how many steps it should reach."""

    label: str
    module: str
    overrides: Sequence[str]
    folder: Path  # of this attempt
    first_step: int
    total_steps: int

    @property
    def log(self) -> Path:
        return self.folder / "engine.log"

    @property
    def metrics(self) -> Path:
        return self.folder / "metrics.jsonl"


def run_engine(run: EngineRun, engine: EngineParams) -> None:
    """Run to the last step. Raises InfraError with the end of the log when the engine fails or stops early."""
    run.folder.mkdir(parents=True, exist_ok=True)
    ray_folder = _ray_folder(run) if run.module == RL_MODULE and engine.device == "cpu" else None
    overrides = [*run.overrides, *([f"+ray_kwargs.ray_init._temp_dir={ray_folder}"] if ray_folder else [])]
    command = [sys.executable, "-m", "birdrl.stages.supervisor", *engine_command(run.module, overrides, engine)]
    with run.log.open("ab") as log:
        process = subprocess.Popen(
            command,
            env=engine_environment(engine, run.metrics),
            cwd=run.folder,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        status = _follow(process, run)
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait()
        if ray_folder:
            shutil.rmtree(ray_folder, ignore_errors=True)
    reached = max((row["step"] for row in read_metrics(run.metrics)), default=run.first_step)
    if status != 0 or reached < run.total_steps:
        raise InfraError(
            f"{run.label}: the engine ended with status {status} at step {reached} of {run.total_steps}; the same "
            f"command continues from the last checkpoint. End of {run.log}:\n{log_tail(run.log)}"
        )


def engine_command(module: str, overrides: Sequence[str], engine: EngineParams) -> list[str]:
    """The engine's command line. Raises InputError when `engine.python` is not there."""
    python = engine.python or sys.executable
    if shutil.which(python) is None:
        raise InputError(f"engine.python: {python!r} is not an executable; give the Python of an environment with verl")
    if engine.device == "cuda" and module != RL_MODULE and gpus() > 1:
        launcher = ["-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={gpus()}"]
        return [python, *launcher, "-m", module, *overrides]
    return [python, "-m", module, *overrides]


def engine_environment(engine: EngineParams, metrics: Path) -> dict[str, str]:
    """Environment of the engine's processes, Ray's included."""
    environment = dict(os.environ)
    package_root = str(Path(birdrl.__file__).resolve().parents[1])
    environment |= {
        "PYTHONPATH": os.pathsep.join(filter(None, [package_root, os.environ.get("PYTHONPATH")])),
        "BIRDRL_SUPERVISED_BY": str(os.getpid()),
        "HF_HUB_OFFLINE": "1",
        "HYDRA_FULL_ERROR": "1",
        "RAY_USAGE_STATS_ENABLED": "0",
        "VERL_FILE_LOGGER_PATH": str(metrics),
        # The plugin is named below where it is wanted; found through entry points, its errors would be silent.
        "VERL_USE_EXTERNAL_PLUGINS": "none",
    }
    if engine.device == "cpu":
        environment |= {
            "VERL_PLATFORM": "cpu",
            "VERL_USE_EXTERNAL_MODULES": "birdrl.training.cpu_platform",
            "OMP_NUM_THREADS": str(engine.threads),
            "BIRDRL_TORCH_THREADS": str(engine.threads),
            # Ray would run the training process at nice 15, where any other process of the machine starves it.
            "RAY_worker_niceness": "0",
        }
    if engine.device == "cpu" or gpus() == 1:  # one process without torchrun
        environment |= {
            "RANK": "0",
            "WORLD_SIZE": "1",
            "LOCAL_RANK": "0",
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(_free_port()),
        }
    return environment


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """The engine's lines `{"step", "data"}`; an unfinished last line is left out."""
    if not path.exists():
        return []
    complete = path.read_text(encoding="utf-8").rpartition("\n")[0]
    return [json.loads(line) for line in complete.splitlines() if line]


def log_tail(path: Path) -> str:
    """The last lines of a log, without progress bars' repeats."""
    with path.open(encoding="utf-8", errors="replace") as file:
        lines = deque((line.rstrip("\n").rpartition("\r")[2] for line in file), maxlen=TAIL_LINES)
    return "\n".join(f"  {line}" for line in lines)


def shown_figures(data: Mapping[str, Any]) -> dict[str, str]:
    """What the progress line shows of a step."""
    names = {"train/loss": "loss", "critic/score/mean": "reward", "actor/kl_loss": "kl"}
    return {short: f"{data[name]:.4g}" for name, short in names.items() if name in data}


def _ray_folder(run: EngineRun) -> Path:
    """A short path (Ray's sockets lie below it), and the same one whenever the run is continued.

    It is part of the logged configuration, and MLflow refuses a parameter that changes.
    """
    folder = Path(tempfile.gettempdir()) / f"birdrl-ray-{sha256_text(str(run.folder.parent))[:12]}"
    shutil.rmtree(folder, ignore_errors=True)
    return folder


def _follow(process: subprocess.Popen[bytes], run: EngineRun) -> int:
    with tqdm(total=run.total_steps, initial=run.first_step, desc=run.label, unit="step", file=sys.stderr) as bar:
        # On a terminal the clock of the line runs; in a log file a line every quarter of a minute is enough.
        refresh_s = POLL_S if sys.stderr.isatty() else 15.0
        scanned, refreshed = 0, time.monotonic()
        while True:
            ended = process.poll()
            rows = read_metrics(run.metrics)
            if rows and rows[-1]["step"] > bar.n:
                bar.set_postfix(shown_figures(rows[-1]["data"]), refresh=False)
                bar.update(rows[-1]["step"] - bar.n)
            elif time.monotonic() - refreshed >= refresh_s:
                bar.refresh()
                refreshed = time.monotonic()
            scanned = _raise_if_untracked(run.log, scanned)
            if ended is not None:
                return ended
            time.sleep(POLL_S)


def _raise_if_untracked(log: Path, start: int) -> int:
    with log.open("rb") as file:
        file.seek(start)
        text = file.read()
    if TRACKING_LOST.encode() in text:
        raise InfraError(
            f"MLFLOW_TRACKING_URI is {os.environ.get('MLFLOW_TRACKING_URI')!r}, but the engine cannot write to it; "
            f"start the server or unset the variable. End of {log}:\n{log_tail(log)}"
        )
    return start + max(0, len(text) - len(TRACKING_LOST))


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
