"""A Prefect server for one flow run, where `make up` has not started one."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from birdrl.errors import InfraError
from birdrl.stages import supervisor
from tasks.services import HOST, LOGS, START_S, answers


@contextmanager
def temporary_server() -> Iterator[str]:
    """The address of its API; it ends with the block, and by its supervisor also when this process is killed.

    Prefect's own temporary server would stay behind after a kill. Raises InfraError when it does not start.
    """
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port = probe.getsockname()[1]
    api = f"http://{HOST}:{port}/api"
    LOGS.mkdir(parents=True, exist_ok=True)
    path = LOGS / "prefect-temporary.log"
    with path.open("wb") as log:
        process = subprocess.Popen(
            [
                *(sys.executable, supervisor.__file__),
                *(sys.executable, "-m", "prefect", "server", "start", "--host", HOST, "--port", str(port)),
            ],
            env={**os.environ, "BIRDRL_SUPERVISED_BY": str(os.getpid()), "PREFECT_API_URL": api},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,  # Ctrl-C is for the flow, which still reports its end here
        )
    try:
        deadline = time.monotonic() + START_S
        while not answers(f"{api}/health"):
            if process.poll() is not None or time.monotonic() > deadline:
                tail = "\n".join(path.read_text(errors="replace").splitlines()[-15:])
                raise InfraError(f"the temporary Prefect server did not start; its log {path} ends with:\n{tail}")
            time.sleep(0.3)
        yield api
    finally:
        process.terminate()
        process.wait(supervisor.GRACE_S + 10)
