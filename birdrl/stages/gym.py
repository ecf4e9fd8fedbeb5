"""Stage `gym`: verified SQL becomes gated, executable SQL issues, split by database.

Writes train.jsonl, eval.jsonl, quarantine.jsonl (what failed a gate, with its reason) and stats.json.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tqdm import tqdm

from birdrl.errors import InputError
from birdrl.files import write_json, write_jsonl
from birdrl.gym.build import Gym, build_gym
from birdrl.gym.stats import gym_stats
from birdrl.gym.teacher import build_teacher_gym
from birdrl.gym.templates import TemplateStore
from birdrl.params import GymParams
from birdrl.stages.registry import StageContext


def run(ctx: StageContext) -> None:
    """Build the gym. Fewer instances than asked for is a warning, none on either side an InputError.

    A killed run leaves its journal in `ctx.work` (a teacher's, its cached answers) and the next one goes on there.
    """
    build_into(ctx.out, TemplateStore(ctx.input("templates")), ctx.params.gym, ctx.seed, ctx.work)


def build_into(out: Path, store: TemplateStore, params: GymParams, seed: int, work: Path) -> Gym:
    """Build a gym and write its files to the folder `out`; the journal under `work` goes when they are complete."""
    bars = _Bars(params.train_instances + params.eval_instances)
    try:
        if params.rewinder == "teacher":
            gym = build_teacher_gym(store, params, seed, bars.update)
        else:
            gym = build_gym(store, params, seed, bars.update, work=work)
    finally:
        bars.close()
    made = {"train": len(gym.train), "eval": len(gym.evaluation)}
    for split, count in made.items():
        if count == 0 and gym.wanted[split]:
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
    write_jsonl(out / "train.jsonl", (instance.row() for instance in gym.train))
    write_jsonl(out / "eval.jsonl", (instance.row() for instance in gym.evaluation))
    write_jsonl(out / "quarantine.jsonl", gym.quarantine)
    schemas = {db_id: store.schema(db_id) for db_id in sorted(gym.verified)}
    stats = gym_stats(gym, schemas)
    write_json(out / "stats.json", stats, sort_keys=False)  # what is most frequent comes first
    if gym.journal is not None:
        gym.journal.remove()
    print(
        f"gym: {made['train']} training and {made['eval']} evaluation issues, {stats['rejected']} rejected",
        file=sys.stderr,
    )
    return gym


class _Bars:
    """One progress bar after the other: databases whose SQL is verified, then issues."""

    def __init__(self, issues: int) -> None:
        self._issues = issues
        self._bar: tqdm[None] | None = None
        self._phase = ""

    def update(self, phase: str, done: int) -> None:
        if phase != self._phase:
            self.close()
            self._phase = phase
            total, unit = (self._issues, "issue") if phase == "issues" else (None, "db")
            self._bar = tqdm(total=total, desc=f"gym: {phase}", unit=unit)
        if self._bar is not None:
            self._bar.update(done)

    def close(self) -> None:
        if self._bar is not None:
            self._bar.close()
            self._bar = None
