"""Stage `gym`: verified SQL becomes gated, executable SQL issues, split by database.

Writes train.jsonl, eval.jsonl, quarantine.jsonl (what failed a gate, with its reason) and stats.json.
"""

from __future__ import annotations

import sys

from tqdm import tqdm

from birdrl.errors import InputError
from birdrl.files import write_json, write_jsonl
from birdrl.gym.build import build_gym
from birdrl.gym.stats import gym_stats
from birdrl.gym.teacher import build_teacher_gym
from birdrl.gym.templates import TemplateStore
from birdrl.stages.registry import StageContext


def run(ctx: StageContext) -> None:
    """Build the gym. Fewer instances than asked for is a warning, none on either side an InputError."""
    params = ctx.params.gym
    store = TemplateStore(ctx.input("templates"))
    with tqdm(total=params.train_instances + params.eval_instances, desc="gym", unit="issue") as bar:
        build = build_teacher_gym if params.rewinder == "teacher" else build_gym
        gym = build(store, params, ctx.seed, bar.update)
    made = {"train": len(gym.train), "eval": len(gym.evaluation)}
    for split, count in made.items():
        if count == 0:
            why = (
                "; ".join(f"{reason} ({n})" for reason, n in gym.reasons.most_common(3)) or "no draft could be written"
            )
            raise InputError(f"gym: not one {split} instance passed the gates: {why}; add databases or verified SQL")
        if count < gym.wanted[split]:
            print(
                f"WARN gym.{split}_instances: {gym.wanted[split]} wanted, {count} possible on these databases; "
                "add databases or verified SQL, or ask for fewer",
                file=sys.stderr,
            )
    write_jsonl(ctx.out / "train.jsonl", (instance.row() for instance in gym.train))
    write_jsonl(ctx.out / "eval.jsonl", (instance.row() for instance in gym.evaluation))
    write_jsonl(ctx.out / "quarantine.jsonl", gym.quarantine)
    schemas = {db_id: store.schema(db_id) for db_id in sorted(gym.verified)}
    stats = gym_stats(
        gym.train, gym.evaluation, schemas=schemas, wanted=gym.wanted, reasons=gym.reasons, verified=gym.verified
    )
    write_json(ctx.out / "stats.json", stats)
    print(
        f"gym: {made['train']} training and {made['eval']} evaluation issues, {stats['rejected']} rejected",
        file=sys.stderr,
    )
