"""MLflow: a parent run per curriculum run, a child run per stage, checkpoints as models with aliases.

Everything goes through one MlflowClient on `.birdrl/mlflow.db`; MLflow is imported when the first record is opened.
The training engine streams its metrics into the child run that MLFLOW_TRACKING_URI and MLFLOW_RUN_ID name.
Checkpoints stay where DVC keeps them: models are registered by folder and hash, not copied.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from birdrl.active import Active
from birdrl.files import read_json, sha256_file
from birdrl.params import Params
from birdrl.stages.registry import STAGES
from tasks._dvc import output_hashes

if TYPE_CHECKING:
    from mlflow.tracking import MlflowClient

EXPERIMENT = "birdrl"
DATABASE = Path(".birdrl/mlflow.db")
FILES = Path(".birdrl/mlartifacts")
ALIASES = {
    "policy_init": "init",
    "sft_reasoning": "stage1",
    "sft_tools": "stage2",
    "rl_reasoning": "stage3",
    "rl_agentic": "stage4",
}
_SMALL_FILES = {".json", ".md", ".html", ".png", ".svg", ".csv"}
_SMALL_BYTES = 2 * 2**20
_LONG_TABLE = 12


def tracking_uri(root: Path = Path()) -> str:
    """The store of this checkout, or MLFLOW_TRACKING_URI where the user has set one."""
    return os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{(root / DATABASE).resolve()}"


def open_client() -> tuple[MlflowClient, str]:
    """Client and experiment id; the database and the experiment are created at first use."""
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    os.environ.setdefault("DO_NOT_TRACK", "true")
    from mlflow.tracking import MlflowClient

    logging.getLogger("mlflow").setLevel(logging.WARNING)  # its import sets the level
    logging.getLogger("alembic").setLevel(logging.WARNING)
    DATABASE.parent.mkdir(parents=True, exist_ok=True)
    client = MlflowClient(tracking_uri())
    experiment = client.get_experiment_by_name(EXPERIMENT)
    if experiment is not None:
        return client, experiment.experiment_id
    return client, client.create_experiment(EXPERIMENT, artifact_location=FILES.resolve().as_uri())


class StageRecord:
    """The MLflow run of one stage while it runs; `environment` hands it on to the stage's processes."""

    def __init__(self, curriculum: CurriculumRecord, stage: str) -> None:
        from mlflow.entities import Param

        self._of = curriculum
        self.stage = stage
        run = curriculum.client.create_run(
            curriculum.experiment,
            run_name=f"{curriculum.profile}/{stage}",
            tags={"mlflow.parentRunId": curriculum.run_id, "birdrl.profile": curriculum.profile, "birdrl.stage": stage},
        )
        self.run_id: str = run.info.run_id
        self.environment = {"MLFLOW_TRACKING_URI": curriculum.uri, "MLFLOW_RUN_ID": self.run_id}
        values = curriculum.params.model_dump()
        shown = {"seed": values["seed"], **values[stage]}
        curriculum.client.log_batch(self.run_id, params=[Param(key, str(value)) for key, value in shown.items()])
        self._log_inputs()

    def finish(self, out: Path) -> None:
        """Log what the stage left: numbers as metrics, small files as artifacts, a checkpoint as a model."""
        from mlflow.entities import Metric

        client = self._of.client
        now = int((out / ".").stat().st_mtime * 1000)
        metrics = [Metric(key, value, now, 0) for key, value in stage_numbers(out).items()]
        if metrics:
            client.log_batch(self.run_id, metrics=metrics)
        for file in sorted(out.rglob("*")):
            inside = file.relative_to(out)
            small = file.is_file() and file.suffix in _SMALL_FILES and file.stat().st_size <= _SMALL_BYTES
            if small and inside.parts[0] not in ("model", "rollouts"):
                client.log_artifact(self.run_id, str(file), str(inside.parent) if len(inside.parts) > 1 else None)
        if (out / "model").is_dir() and self.stage in ALIASES:
            self._register(out / "model")
        if (out / "results.json").is_file():
            _crown(client, self._of.profile, read_json(out / "results.json"))

    def _log_inputs(self) -> None:
        """The input stages' outputs as dataset inputs, by DVC hash, and their checkpoints as model inputs."""
        from mlflow.entities import Dataset, DatasetInput, InputTag, LoggedModelInput

        hashes = output_hashes(self._of.profile)
        datasets, models = [], []
        for name in STAGES[self.stage].inputs:
            if name in hashes:
                source = f"artifacts/{self._of.profile}/{name}"
                dataset = Dataset(name=name, digest=hashes[name], source_type="local", source=f'{{"uri": "{source}"}}')
                datasets.append(DatasetInput(dataset, [InputTag("mlflow.data.context", self.stage)]))
            if name in ALIASES and (version := _version(self._of.client, self._of.profile, ALIASES[name])):
                models += [LoggedModelInput(version.model_id)] if version.model_id else []
        if datasets or models:
            self._of.client.log_inputs(self.run_id, datasets or None, models or None)

    def _register(self, model: Path) -> None:
        from mlflow.entities import LoggedModelOutput

        client, name = self._of.client, registered_name(self._of.profile)
        weights = {file.name: sha256_file(file) for file in sorted(model.glob("*.safetensors"))}
        tags = {"birdrl.stage": self.stage, "birdrl.path": str(model)}
        tags |= {f"birdrl.sha256.{file}": digest for file, digest in weights.items()}
        logged = client.create_logged_model(
            self._of.experiment, name=f"{self._of.profile}-{self.stage}", source_run_id=self.run_id, tags=tags
        )
        client.finalize_logged_model(logged.model_id, "READY")
        client.log_outputs(self.run_id, [LoggedModelOutput(logged.model_id, 0)])
        version = client.create_model_version(
            name, model.resolve().as_uri(), run_id=self.run_id, tags=tags, model_id=logged.model_id
        )
        client.set_registered_model_alias(name, ALIASES[self.stage], version.version)


class CurriculumRecord:
    """The MLflow run of one curriculum run, parent of its stages' runs."""

    def __init__(self, profile: str, params: Params, run_id: str | None = None, tags: dict[str, str] | None = None):
        self.client, self.experiment = open_client()
        self.uri = tracking_uri()
        self.profile = profile
        self.params = params
        _ensure_registered(self.client, registered_name(profile))
        if run_id is None:
            run = self.client.create_run(
                self.experiment, run_name=f"curriculum {profile}", tags={"birdrl.profile": profile, **(tags or {})}
            )
            run_id = run.info.run_id
        self.run_id: str = run_id

    @contextmanager
    def stage(self, stage: str) -> Iterator[StageRecord]:
        """Open the stage's run; it ends FINISHED, FAILED, or KILLED when somebody stops the process."""
        record = StageRecord(self, stage)
        status = "KILLED"
        try:
            yield record
            status = "FINISHED"
        except Exception:
            status = "FAILED"
            raise
        finally:
            self.client.set_terminated(record.run_id, status)

    def note(self, stage: str, state: str) -> None:
        """Say on the curriculum's run how a stage ended: Completed, Cached or Failed."""
        self.client.set_tag(self.run_id, f"birdrl.stage.{stage}", state)

    def finish(self, evaluation: Path) -> None:
        """The result table's numbers on the curriculum's run."""
        from mlflow.entities import Metric

        results = read_json(evaluation / "results.json")
        now = int((evaluation / "results.json").stat().st_mtime * 1000)
        metrics = [Metric(f"success.{row['policy']}", row["success"], now, 0) for row in results["policies"]]
        self.client.log_batch(self.run_id, metrics=metrics)


@contextmanager
def record_curriculum(active: Active, params: Params) -> Iterator[CurriculumRecord]:
    """A parent run for the stages within. Runs that a kill left RUNNING are closed first: the lock is ours."""
    record = CurriculumRecord(active.profile, params)
    close_killed(record.client, record.experiment, keep=record.run_id)
    record.client.set_tag(record.run_id, "birdrl.overrides", str(active.overrides))
    status = "KILLED"
    try:
        yield record
        status = "FINISHED"
    except Exception:
        status = "FAILED"
        raise
    finally:
        record.client.set_terminated(record.run_id, status)


@contextmanager
def record_by_hand(stage: str, active: Active) -> Iterator[StageRecord]:
    """The run of a stage that nobody but `birdrl run` or `dvc repro` has started; one parent per profile."""
    client, experiment = open_client()
    close_killed(client, experiment)
    tag = {"birdrl.by_hand": "true"}
    found = client.search_runs(
        [experiment], f"tags.`birdrl.by_hand` = 'true' and tags.`birdrl.profile` = '{active.profile}'", max_results=1
    )
    parent = CurriculumRecord(active.profile, active.params(), found[0].info.run_id if found else None, tag)
    if not found:
        client.update_run(parent.run_id, "FINISHED", f"stages by hand {active.profile}")
    with parent.stage(stage) as record:
        os.environ.update(record.environment)
        yield record


def close_killed(client: MlflowClient, experiment: str, keep: str | None = None) -> None:
    """Mark runs as KILLED that still say RUNNING although the process that kept them is gone."""
    for run in client.search_runs([experiment], "attributes.status = 'RUNNING'"):
        if run.info.run_id != keep:
            client.set_terminated(run.info.run_id, "KILLED")


def registered_name(profile: str) -> str:
    """Name of the registered model that collects the checkpoints of a profile."""
    return f"birdrl-{profile}"


def stage_numbers(out: Path) -> dict[str, float]:
    """Numbers of a stage's summary, nested keys joined by dots; long tables (per database) stay in the file."""
    found: dict[str, float] = {}
    for name in ("summary.json", "stats.json", "report.json"):
        if (out / name).is_file():
            _collect_numbers(read_json(out / name), "", found)
    return found


def _collect_numbers(value: Any, prefix: str, found: dict[str, float]) -> None:
    if isinstance(value, dict):
        for key, part in value.items() if "." not in prefix or len(value) <= _LONG_TABLE else ():
            _collect_numbers(part, f"{prefix}.{key}" if prefix else str(key), found)
    elif isinstance(value, int | float):
        found["".join(c if c.isalnum() or c in "_-. /" else "_" for c in prefix)] = float(value)


def _ensure_registered(client: MlflowClient, name: str) -> None:
    if not client.search_registered_models(f"name = '{name}'"):
        client.create_registered_model(name, description="Checkpoints of the curriculum, one alias per stage.")


def _version(client: MlflowClient, profile: str, alias: str) -> Any:
    """The version an alias points to, None when the stage has not been recorded yet."""
    model = client.get_registered_model(registered_name(profile))
    number = dict(model.aliases).get(alias)
    return client.get_model_version(model.name, number) if number else None


def _crown(client: MlflowClient, profile: str, results: dict[str, Any]) -> None:
    """Alias `champion`: the checkpoint with the highest success on the held-out databases, the earlier on a tie."""
    rows = [row for row in results["policies"] if row["policy"] in ALIASES]
    best = max(rows, key=lambda row: (row["success"], -list(ALIASES).index(row["policy"])))
    if version := _version(client, profile, ALIASES[best["policy"]]):
        client.set_registered_model_alias(registered_name(profile), "champion", version.version)
