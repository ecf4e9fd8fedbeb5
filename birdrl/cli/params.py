"""`birdrl params`: every parameter with its meaning, type, default and value."""

from __future__ import annotations

import argparse
import json
from types import NoneType, UnionType
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from birdrl.active import Active, read_active
from birdrl.cli._settings import add_overrides, parse_overrides
from birdrl.errors import InputError
from birdrl.params import Params

EPILOG = """\
examples:
  birdrl params                        all sections
  birdrl params rl_agentic gym         two sections
  birdrl params --profile smoke --json
  birdrl params --set rl_agentic.steps=10     check an override without storing it
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("sections", nargs="*", metavar="SECTION", help="only these sections, for example gym")
    parser.add_argument("--profile", help="instead of the active profile")
    parser.add_argument("--json", action="store_true", help="the resolved values as JSON")
    add_overrides(parser)


def run(arguments: argparse.Namespace) -> int:
    active = read_active()
    if arguments.profile and arguments.profile != active.profile:
        active = Active(arguments.profile)
    active = Active(active.profile, {**active.overrides, **parse_overrides(arguments.overrides)})
    params = active.params()
    unknown = [section for section in arguments.sections if section not in Params.model_fields]
    if unknown:
        raise InputError(f"no section {unknown[0]!r}; sections are: {', '.join(Params.model_fields)}")
    chosen = [name for name in Params.model_fields if not arguments.sections or name in arguments.sections]
    if arguments.json:
        print(json.dumps(params.model_dump(include=set(chosen)), indent=2, ensure_ascii=False))
        return 0
    print(f"profile {active.profile}; values of params.yaml and active.yaml, with the defaults of birdrl/params.py")
    for name in chosen:
        value = getattr(params, name)
        if isinstance(value, BaseModel):
            print(f"\n{name}")
            _show_section(value, "  ")
        else:
            print()
            _show(name, Params.model_fields[name], value)
    return 0


def _show_section(section: BaseModel, indent: str) -> None:
    for field, info in type(section).model_fields.items():
        value = getattr(section, field)
        if isinstance(value, BaseModel):
            print(f"{indent}{field}: {info.description}")
            _show_section(value, f"{indent}  ")
        else:
            _show(f"{indent}{field}", info, value)


def _show(label: str, info: FieldInfo, value: Any) -> None:
    default = "required" if info.is_required() else f"default {_text(info.get_default(call_default_factory=True))}"
    print(f"{label} = {_text(value)}\n      {info.description}  [{_type(info.annotation)}; {default}]")


def _text(value: Any) -> str:
    return "none" if value is None or value is PydanticUndefined else json.dumps(value, ensure_ascii=False)


def _type(annotation: Any) -> str:
    """A type in words: `int`, `nano | smollm2`, `int or none`."""
    if get_origin(annotation) is Literal:
        return " | ".join(str(choice) for choice in get_args(annotation))
    if get_origin(annotation) is UnionType:
        return " or ".join(_type(part) for part in get_args(annotation))
    if annotation is NoneType:
        return "none"
    if get_origin(annotation) in (list, dict):
        return f"{get_origin(annotation).__name__} of {', '.join(_type(part) for part in get_args(annotation))}"
    return getattr(annotation, "__name__", str(annotation))
