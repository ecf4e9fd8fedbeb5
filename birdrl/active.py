"""`active.yaml`: the profile this checkout works on, single values changed for it, and the state of outside files.

The file is git-ignored and read by dvc.yaml. Every parameter section stands in it, empty where nothing is
changed, because DVC reports a key it cannot find as a change. `external` holds, for each stage that reads files from
outside the checkout's outputs (databases, gold SQL, a model), a hash of their names, sizes and times of change.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel

from birdrl.errors import InputError
from birdrl.files import sha256_text, write_text
from birdrl.params import Params, load_params

ACTIVE = Path("active.yaml")
PARAMS = Path("params.yaml")
DEFAULT_PROFILE = "demo"
_HEADER = "# Written by `birdrl activate` and by the flow: the profile of this checkout and what is changed in it.\n"


@dataclass(frozen=True)
class Active:
    """A profile and its overrides, dotted keys to values: `{"sft_tools.learning_rate": 2e-4}`."""

    profile: str = DEFAULT_PROFILE
    overrides: dict[str, Any] = field(default_factory=dict)

    def params(self, root: Path = Path()) -> Params:
        """The resolved parameters. Raises InputError for an unknown profile or key, or a wrong value."""
        return load_params(self.profile, self.overrides, root / PARAMS)


def read_active(root: Path = Path()) -> Active:
    """The active profile of the checkout `root`; without the file, profile `demo` as it stands."""
    path = root / ACTIVE
    try:
        values = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return Active()
    except yaml.YAMLError as error:
        raise InputError(f"{path}: not valid YAML ({error}); write it anew with `birdrl activate`") from error
    if not isinstance(values, dict) or not isinstance(values.get("profile"), str):
        raise InputError(f"{path}: no profile named; write it anew with `birdrl activate --profile demo`")
    overrides: dict[str, Any] = {}
    for section, changed in (values.get("overrides") or {}).items():
        if isinstance(changed, dict):
            overrides.update({f"{section}.{key}": value for key, value in changed.items()})
        elif changed is not None:
            overrides[section] = changed
    return Active(values["profile"], overrides)


def write_active(active: Active, root: Path = Path()) -> Params:
    """Check `active` against params.yaml and write it. Raises InputError before anything is written."""
    params = active.params(root)
    sections: dict[str, Any] = {
        name: {} if isinstance(getattr(params, name), BaseModel) else None for name in Params.model_fields
    }
    for key, value in active.overrides.items():
        section, _, rest = key.partition(".")
        if rest:
            sections[section][rest] = value
        elif isinstance(sections[section], dict):
            if not isinstance(value, dict):
                raise InputError(f"override {key!r}: a section takes a mapping of its fields, got {value!r}")
            sections[section].update(value)
        else:
            sections[section] = value
    external = {
        "templates": _state([params.templates.directory] if params.templates.source == "directory" else []),
        "gym": _state([*params.gym.gold_sql, *params.gym.posts, *filter(None, [params.gym.exclude_posts])]),
        "policy_init": _state([params.policy_init.path] if params.policy_init.source == "huggingface" else []),
    }
    values = {"profile": active.profile, "overrides": sections, "external": external}
    body = yaml.safe_dump(values, sort_keys=True)
    text = _HEADER + body
    path = root / ACTIVE
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        write_text(path, text)
    return params


def _state(paths: list[str]) -> str | None:
    """Hash of what lies at `paths`, None where nothing is asked for. Missing paths are the stage's own to report."""
    if not paths:
        return None
    lines = []
    for start in map(Path, paths):
        files = sorted(start.rglob("*")) if start.is_dir() else [start]
        for file in files:
            if file.is_file():
                stat = file.stat()
                lines.append(f"{file} {stat.st_size} {stat.st_mtime_ns}")
    return sha256_text("\n".join(lines))
