"""Arguments and parsing shared by the commands that take a profile and overrides."""

from __future__ import annotations

import argparse
from typing import Any

import yaml

from birdrl.errors import InputError


def add_overrides(parser: argparse.ArgumentParser) -> None:
    """The repeatable option `--set section.key=value`."""
    parser.add_argument(
        "--set", dest="overrides", action="append", default=[], metavar="KEY=VALUE",
        help="change one parameter, for example sft_tools.learning_rate=2e-4; may be repeated",
    )  # fmt: skip


def parse_overrides(pairs: list[str]) -> dict[str, Any]:
    """`["gym.train_instances=50"]` as `{"gym.train_instances": 50}`; values are read as YAML."""
    overrides: dict[str, Any] = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not equals or not key:
            raise InputError(f"--set {pair}: expected KEY=VALUE, for example --set gym.train_instances=50")
        try:
            overrides[key.strip()] = yaml.safe_load(text)
        except yaml.YAMLError as error:
            raise InputError(f"--set {pair}: the value is not valid YAML ({error})") from error
    return overrides
