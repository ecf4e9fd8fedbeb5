"""What surrounds the stages: the checkout's lock, the MLflow parent run, the closing table."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from birdrl.active import DEFAULT_PROFILE, Active, write_active
from birdrl.cli._settings import add_overrides, parse_overrides
from birdrl.errors import BirdrlError, InputError
from birdrl.files import read_json
from birdrl.stages.execute import output_folder
from birdrl.stages.lock import checkout_lock

if TYPE_CHECKING:
    from prefect import Flow

    from tasks._stage import Curriculum

DEPLOYMENT = "full-curriculum"


@contextmanager
def session(profile: str, overrides: dict[str, Any]) -> Iterator[Curriculum]:
    """Hold the checkout, activate the profile, open the MLflow run; on success print what came of it."""
    from tasks._prefect import close_killed_runs
    from tasks._stage import Curriculum
    from tasks.tracking import record_curriculum

    active = Active(profile, overrides)
    with checkout_lock(f"the flow, profile {profile}") as lock:
        params = write_active(active)
        close_killed_runs()
        with record_curriculum(active, params) as record:
            yield Curriculum(profile, record, lock)
            record.finish(output_folder("evaluate", profile))
    print(summary(profile))


def summary(profile: str) -> str:
    """The result table and where to look next."""
    from birdrl.report import render_table

    report = output_folder("report", profile)
    pages = [str(page) for page in sorted(report.glob("*.html"))] or [str(report)]
    docs = output_folder("quality", profile) / "docs"
    return "\n".join(
        [
            "",
            f"Success on held-out databases in percent [95 % interval], profile {profile}:",
            "",
            render_table(read_json(output_folder("evaluate", profile) / "results.json")),
            "",
            "Where to look next:",
            f"  report     {', '.join(pages)}",
            f"  Data Docs  {docs / 'index.html'}",
            "  MLflow     `make up`, then http://127.0.0.1:5000 (experiment birdrl); Prefect at http://127.0.0.1:4200",
            "  again      `dvc repro` has nothing to do; change a value in params.yaml and what depends on it runs",
        ]
    )


@contextmanager
def _server() -> Iterator[None]:
    """The server of `make up`, or whatever PREFECT_API_URL names; else one for this run."""
    if "PREFECT_API_URL" in os.environ:
        yield
        return
    from prefect.events.worker import EventsWorker
    from prefect.logging.handlers import APILogWorker
    from prefect.settings import PREFECT_API_URL, temporary_settings

    from tasks.temporary_server import temporary_server

    with temporary_server() as api, temporary_settings({PREFECT_API_URL: api}):
        try:
            yield
        finally:  # what is still on its way to the server must arrive before it ends
            EventsWorker.drain_all()
            APILogWorker.drain_all()


def main(flow: Flow[..., Any], argv: list[str] | None = None) -> int:
    """Command line of the flow. Exit status 0 only if every stage ran or was cached; 2 for wrong input."""
    parser = argparse.ArgumentParser(
        prog="python -m flows.full_curriculum",
        description="Run the full curriculum under Prefect; stages that are up to date are cached.",
        epilog=(
            "examples:\n  python -m flows.full_curriculum --profile smoke\n"
            "  python -m flows.full_curriculum --set sft_tools.learning_rate=2e-4\n"
            "  python -m flows.full_curriculum serve     (what `make up` starts)"
        ),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("action", nargs="?", choices=("run", "serve"), default="run", help="run now, or serve")
    parser.add_argument("--profile", default=DEFAULT_PROFILE, help="a block of params.yaml (default: %(default)s)")
    add_overrides(parser)
    arguments = parser.parse_args(argv)
    if arguments.action == "serve":
        flow.serve(name=DEPLOYMENT, limit=1, print_starting_message=True)
        return 0
    try:
        overrides = parse_overrides(arguments.overrides)
        Active(arguments.profile, overrides).params()  # wrong input is told before a server is started
        with _server():
            flow(profile=arguments.profile, overrides=overrides)
    except BirdrlError as error:
        print(f"birdrl flow: {error}", file=sys.stderr)
        return 2 if isinstance(error, InputError) else 1
    return 0
