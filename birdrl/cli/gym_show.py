"""`birdrl gym show`: one instance, as a person reads it."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from birdrl.active import read_active
from birdrl.cli._gym_files import gym_instances
from birdrl.errors import InputError
from birdrl.gym.instance import Instance
from birdrl.gym.text_measures import text_leaks
from birdrl.stages.execute import output_folder

HELP = "show one instance: text, SQL, bug record and tests"
EPILOG = """\
examples:
  birdrl gym show gym_airline_3                        in the gym of the active profile
  birdrl gym show gym_shop_17 --gym mygym
  birdrl gym show TRAIN_8 --gym six_gym.jsonl --json

exit status: 0 shown, 2 no such instance or wrong input
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", metavar="ID", help="instance_id")
    parser.add_argument("--gym", metavar="GYM", type=Path, help="folder of a gym, or a file of instances")
    parser.add_argument("--json", action="store_true", help="print the row as JSON")


def run(arguments: argparse.Namespace) -> int:
    gym = arguments.gym or output_folder("gym", read_active().profile)
    instances = gym_instances(gym)
    found = next((instance for instance in instances if instance.instance_id == arguments.id), None)
    if found is None:
        near = [i.instance_id for i in instances if arguments.id.lower() in i.instance_id.lower()][:5]
        hint = f"ids like it: {', '.join(near)}" if near else f"it holds {len(instances)} others"
        raise InputError(f"{gym}: no instance {arguments.id!r}; {hint}")
    print(json.dumps(found.row(), indent=2, ensure_ascii=False) if arguments.json else _text(found))
    return 0


def _text(instance: Instance) -> str:
    kind = f", {instance.bug.family}/{instance.bug.kind}" if instance.bug else ""
    lines = [f"{instance.instance_id}  {instance.db_id}, {instance.category}{kind}, {instance.difficulty or 'unrated'}"]
    lines += ["", instance.query]
    for title, statements in (
        ("preprocess", instance.preprocess_sql),
        ("issue", instance.issue_sql),
        ("solution", instance.sol_sql),
        ("clean-up", instance.clean_up_sql),
    ):
        if statements:
            lines += ["", f"-- {title}", *(f"{sql.rstrip(';')};" for sql in statements)]
    if instance.bug:
        lines += ["", f"cause:  {instance.bug.cause}", f"intent: {instance.bug.intent}"]
    tests = (json.dumps(test.model_dump(), ensure_ascii=False) for test in instance.test_cases)
    lines += ["", *(f"test {number}: {test}" for number, test in enumerate(tests))]
    return "\n".join([*lines, *(f"leak: {why}" for why in text_leaks(instance))])
