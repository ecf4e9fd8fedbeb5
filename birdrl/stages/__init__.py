"""The stages of the curriculum: one name each, the same in dvc.yaml, params.yaml, tasks/, the CLI and MLflow."""

from birdrl.stages.registry import STAGES, Stage, StageContext, resolve

__all__ = ["STAGES", "Stage", "StageContext", "resolve"]
