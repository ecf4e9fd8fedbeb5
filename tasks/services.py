"""`python -m tasks.services up|down|status`: Prefect server, the process that serves the flow, MLflow UI.

All of them listen on the loopback address only. Ports: BIRDRL_PREFECT_PORT (4200), BIRDRL_MLFLOW_PORT (5000).
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import psutil

from birdrl.errors import BirdrlError, InfraError, InputError
from birdrl.files import write_json, write_text

HOST = "127.0.0.1"
STATE = Path(".birdrl/services")
LOGS = Path(".birdrl/logs")
PREFECT_HOME = Path(".birdrl/prefect")
START_S = float(os.environ.get("BIRDRL_START_TIMEOUT_S", "180"))
STOP_S = 15.0


@dataclass(frozen=True)
class Service:
    """One background process: how to start it and how to see that it works."""

    name: str
    command: list[str]
    healthy: Callable[[], bool]
    port: int | None
    shown: str


def services() -> list[Service]:
    """In the order in which they start."""
    prefect, mlflow = _port("BIRDRL_PREFECT_PORT", 4200), _port("BIRDRL_MLFLOW_PORT", 5000)
    python = sys.executable
    return [
        Service(
            "prefect-server",
            [python, "-m", "prefect", "server", "start", "--host", HOST, "--port", str(prefect)],
            lambda: answers(f"http://{HOST}:{prefect}/api/health"),
            prefect,
            f"http://{HOST}:{prefect}",
        ),
        Service(
            "flow-runner",
            [python, "-m", "flows.full_curriculum", "serve"],
            lambda: (
                answers(f"http://{HOST}:{prefect}/api/deployments/name/birdrl/full-curriculum")
                and "is being served" in (LOGS / "flow-runner.log").read_text(errors="replace")
            ),
            None,
            "serves birdrl/full-curriculum",
        ),
        Service(
            "mlflow",
            [
                *(python, "-m", "mlflow", "server", "--host", HOST, "--port", str(mlflow), "--workers", "1"),
                *("--backend-store-uri", f"sqlite:///{Path('.birdrl/mlflow.db').resolve()}"),
                *("--default-artifact-root", Path(".birdrl/mlartifacts").resolve().as_uri(), "--serve-artifacts"),
            ],
            lambda: answers(f"http://{HOST}:{mlflow}/health"),
            mlflow,
            f"http://{HOST}:{mlflow}",
        ),
    ]


def up() -> None:
    """Start what is not running and wait until all of it answers. Raises InputError for a taken port."""
    todo = [service for service in services() if _process(service) is None]
    for service in todo:
        if service.port is not None and _taken(service.port):
            variable = {"prefect-server": "BIRDRL_PREFECT_PORT", "mlflow": "BIRDRL_MLFLOW_PORT"}[service.name]
            raise InputError(
                f"port {service.port} is taken by something else; stop it, or choose another port for "
                f"{service.name}, for example {variable}={service.port + 11} make up"
            )
    api = f"http://{HOST}:{services()[0].port}/api"
    PREFECT_HOME.mkdir(parents=True, exist_ok=True)
    profile = f'active = "birdrl"\n\n[profiles.birdrl]\nPREFECT_API_URL = "{api}"\n'
    write_text(PREFECT_HOME / "profiles.toml", profile)
    for service in todo:
        _start(service, api)
        if service.name == "prefect-server":  # the runner needs it
            _wait(service)
    for service in todo:
        _wait(service)
    status()
    print(
        "\nStart a run from this folder:\n"
        "  prefect deployment run birdrl/full-curriculum --watch --param profile=smoke\n"
        "From elsewhere: "
        f"export PREFECT_API_URL={api}"
    )


def down() -> None:
    """Stop what `up` has started: TERM, and KILL for what is still there after 15 s."""
    for service in reversed(services()):
        process = _process(service)
        if process is None:
            (STATE / f"{service.name}.json").unlink(missing_ok=True)
            continue
        family = [process, *process.children(recursive=True)]
        for member in family:
            _signal(member, signal.SIGTERM)
        _, alive = psutil.wait_procs(family, timeout=STOP_S)
        for member in alive:
            _signal(member, signal.SIGKILL)
        psutil.wait_procs(alive, timeout=STOP_S)
        (STATE / f"{service.name}.json").unlink(missing_ok=True)
        print(f"{service.name:<16} stopped")
    (PREFECT_HOME / "profiles.toml").unlink(missing_ok=True)


def status() -> bool:
    """Print what is up; True when everything is."""
    good = True
    for service in services():
        process = _process(service)
        state = "down" if process is None else ("up" if service.healthy() else "started, does not answer yet")
        good = good and state == "up"
        detail = f"{service.shown} (process {process.pid})" if process else "`make up` starts it"
        print(f"{service.name:<16} {state:<8} {detail}")
    return good


def _start(service: Service, api: str) -> None:
    LOGS.mkdir(parents=True, exist_ok=True)
    env = {
        **os.environ,
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]),
        "PYTHONPATH": os.pathsep.join(filter(None, [str(Path.cwd()), os.environ.get("PYTHONPATH")])),
        "PREFECT_HOME": str(PREFECT_HOME.resolve()),
        "PREFECT_API_URL": api,
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "DO_NOT_TRACK": "true",
        "MLFLOW_DISABLE_TELEMETRY": "true",
    }
    with (LOGS / f"{service.name}.log").open("wb") as log:
        started = subprocess.Popen(
            service.command, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )
    created = psutil.Process(started.pid).create_time()
    write_json(STATE / f"{service.name}.json", {"pid": started.pid, "created": created})


def _wait(service: Service) -> None:
    deadline = time.monotonic() + START_S
    log = LOGS / f"{service.name}.log"
    while not service.healthy():
        if _process(service) is None:
            tail = "\n".join(log.read_text(errors="replace").splitlines()[-15:])
            raise InfraError(f"{service.name} ended while starting; its log {log} ends with:\n{tail}")
        if time.monotonic() > deadline:
            raise InfraError(f"{service.name} does not answer after {START_S:.0f} s; see {log}, then `make down`")
        time.sleep(0.3)


def _process(service: Service) -> psutil.Process | None:
    """The running process of a service; a process id that somebody else has now does not count."""
    try:
        known = json.loads((STATE / f"{service.name}.json").read_text())
        process = psutil.Process(known["pid"])
        same = abs(process.create_time() - known["created"]) < 1
        return process if same and process.status() != psutil.STATUS_ZOMBIE else None
    except (FileNotFoundError, psutil.NoSuchProcess):
        return None


def _signal(process: psutil.Process, signum: int) -> None:
    try:
        process.send_signal(signum)
    except psutil.NoSuchProcess:
        return


def answers(url: str) -> bool:
    """Whether a page answers with status 200."""
    try:
        with urlopen(url, timeout=5) as answer:
            return bool(answer.status == 200)
    except (URLError, TimeoutError, ConnectionError):
        return False


def _taken(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return True
    return False


def _port(variable: str, default: int) -> int:
    text = os.environ.get(variable, str(default))
    if not text.isdigit() or not 0 < int(text) < 65536:
        raise InputError(f"{variable}={text}: expected a port number, for example {default}")
    return int(text)


def main(argv: list[str] | None = None) -> int:
    """Exit status 0 done (for `status`: all up), 1 failed or not all up, 2 wrong use."""
    parser = argparse.ArgumentParser(prog="python -m tasks.services", description=__doc__)
    parser.add_argument("action", choices=("up", "down", "status"))
    action = parser.parse_args(argv).action
    try:
        if action == "status":
            return 0 if status() else 1
        {"up": up, "down": down}[action]()
    except BirdrlError as error:
        print(f"{action}: {error}", file=sys.stderr)
        return 2 if isinstance(error, InputError) else 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
