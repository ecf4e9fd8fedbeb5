"""`birdrl gym stats`: the numbers of a gym beside those that the paper publishes."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from birdrl.cli._gym_files import gym_instances, schemas_beside
from birdrl.cli._out import check_folder
from birdrl.errors import InputError
from birdrl.gym.paper import TABLE_7, TABLE_8
from birdrl.gym.stats import summary

HELP = "statistics of a gym beside the paper's Tables 7 and 8 and Figure 3"
EPILOG = """\
examples:
  birdrl gym stats mygym                      a folder written by `birdrl gym build`
  birdrl gym stats artifacts/demo/gym --plots plots
  birdrl gym stats issues.jsonl --json

GYM is a folder with train.jsonl, or a file of instances. Plots need matplotlib (extra `pipeline`).

exit status: 0 done, 1 a text gives its solution away, 2 wrong use or wrong input
"""

_PARTS = (("query", "user query"), ("issue_sql", "issue SQL"), ("sol_sql", "solution SQL"), ("tests", "test cases"))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("gym", metavar="GYM", type=Path, help="folder of a gym, or a file of instances")
    parser.add_argument("--split", default="train", help="which file of a folder: train, eval or all (default: train)")
    parser.add_argument("--json", action="store_true", help="print everything as JSON")
    parser.add_argument(
        "--plots", metavar="DIR", type=Path, help="write shape.png, lengths.png, features.png, domains.png"
    )


def run(arguments: argparse.Namespace) -> int:
    if arguments.plots:
        check_folder(arguments.plots, "--plots")
    instances = gym_instances(arguments.gym, arguments.split)
    if not instances:
        raise InputError(f"{arguments.gym}: holds no instance")
    stats = summary(instances, schemas_beside(arguments.gym))
    if arguments.json:
        print(json.dumps(stats, indent=2, ensure_ascii=False))
    else:
        _print(stats)
    if arguments.plots:
        try:
            from birdrl.report.gym_plots import write_plots  # matplotlib is not part of the core
        except ModuleNotFoundError as error:
            raise InputError(
                f"--plots: {error.name} is not installed; pip install 'birdrl[pipeline]', or leave --plots out"
            ) from error
        for path in write_plots(stats, arguments.plots):
            print(path)
    return 1 if stats["text"]["leaks"] else 0


def _print(stats: Mapping[str, Any]) -> None:
    print(f"{'':<28}{'this gym':>18}{'SIX-GYM-SQLite':>18}")
    _row("issues", stats["instances"], TABLE_7["instances"])
    for category, count in stats["by_category"].items():
        _row(f"  {category}", _share(count, stats["instances"]), _share(TABLE_7["by_category"][category], 5000))
    for key in ("distinct_test_cases", "preprocess_sql", "clean_up_sql", "multi_sql_instances", "domains"):
        _row(key.replace("_", " "), stats[key], TABLE_7[key])
    print("\ntokens, mean / maximum (ours count words, numbers and signs)")
    for group, parts in stats["lengths_by_category"].items():
        for key, label in _PARTS:
            ours, paper = parts[key], TABLE_8[group][key]
            _row(f"  {group}, {label}", f"{ours['mean']:.2f} / {ours['max']:.0f}", f"{paper[0]:.2f} / {paper[1]:,}")
    text = stats["text"]
    print("\nissue texts")
    print(f"  distinct {100 * text['distinct_texts']:.1f} %, distinct wordings {100 * text['distinct_wordings']:.1f} %")
    print(f"  hold {100 * text['solution_tokens']:.1f} % of the tokens and {100 * text['solution_runs']:.1f} % of the")
    print(f"  three-token runs that only the solution has; {text['leaks']} give the solution away")
    for name, why in text["leaking"].items():
        print(f"    {name}: {why}")
    for key, title in (("by_difficulty", "difficulty"), ("features", "SQL features"), ("by_database", "databases")):
        print(f"\n{title}: " + ", ".join(f"{name} {count}" for name, count in stats[key].items()))


def _row(label: str, ours: Any, paper: Any) -> None:
    shown = [f"{value:,}" if isinstance(value, int) else str(value) for value in (ours, paper)]
    print(f"{label:<28}{shown[0]:>18}{shown[1]:>18}")


def _share(count: int, total: int) -> str:
    return f"{count:,} ({100 * count / max(total, 1):.1f} %)"
