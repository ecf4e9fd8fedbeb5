"""Settings of Prefect for this checkout."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

PREFECT_HOME = Path(".birdrl/prefect")


def configure_prefect() -> None:
    """Keep Prefect inside the checkout and point it at the server of `make up`, if that answers.

    To be called before Prefect is imported. Settings that the user has made in the environment stay.
    """
    PREFECT_HOME.mkdir(parents=True, exist_ok=True)
    os.environ.setdefault("PREFECT_HOME", str(PREFECT_HOME.resolve()))
    os.environ.setdefault("DO_NOT_TRACK", "1")
    os.environ.setdefault("PREFECT_SERVER_ANALYTICS_ENABLED", "false")
    os.environ.setdefault("PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS", "120")
    if "PREFECT_API_URL" in os.environ:
        return
    if server := running_server():
        os.environ["PREFECT_API_URL"] = server
    else:  # a temporary server, even where a crash has left the address of a real one
        os.environ.setdefault("PREFECT_PROFILES_PATH", str((PREFECT_HOME / "no-server.toml").resolve()))


def running_server() -> str | None:
    """Address of the API that `make up` has started, None when it does not answer."""
    profiles = PREFECT_HOME / "profiles.toml"
    if not profiles.is_file():
        return None
    url: str = tomllib.loads(profiles.read_text())["profiles"]["birdrl"]["PREFECT_API_URL"]
    try:
        with urlopen(f"{url}/health", timeout=5) as answer:
            return url if answer.status == 200 else None
    except (URLError, TimeoutError, ConnectionError):
        return None
