"""Made-up training and evaluation files with planted near copies, for comparisons at any size."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

WORDS = [f"word{n}" for n in range(3000)]
ASKING = ("which", "how", "many", "list", "show", "average", "total", "orders", "customers", "price", "wrong", "rows")


def issue(identifier: str, rng: random.Random, db_id: str) -> dict[str, Any]:
    """One issue of random words; the vocabulary's first words are much more frequent than its last."""
    text = " ".join(_word(rng, ASKING) for _ in range(rng.randint(15, 60)))
    columns = ", ".join(_word(rng, ASKING) for _ in range(rng.randint(1, 6)))
    conditions = " AND ".join(f"{_word(rng, ASKING)} > {rng.randint(1, 99)}" for _ in range(rng.randint(1, 8)))
    sql = f"SELECT {columns} FROM {_word(rng, ASKING)} WHERE {conditions} ORDER BY {rng.randint(1, 3)}"
    return {"instance_id": identifier, "db_id": db_id, "query": text, "issue_sql": [sql], "sol_sql": [sql + " DESC"]}


def near_copy(row: dict[str, Any], identifier: str, rng: random.Random, changed: float) -> dict[str, Any]:
    """The row with about `changed` of its words replaced."""

    def swap(text: str) -> str:
        return " ".join(rng.choice(WORDS) if rng.random() < changed else word for word in text.split(" "))

    return row | {
        "instance_id": identifier,
        "db_id": "copied",
        "query": swap(row["query"]),
        "issue_sql": [swap(sql) for sql in row["issue_sql"]],
    }


def write_corpus(folder: Path, train: int, evaluation: int, *, copies: int = 0, seed: int = 0) -> tuple[Path, Path]:
    """(training, evaluation) files. Every place of `copies` spread over the training file is a copy of an evaluation
    row with up to a third of its words changed."""
    rng = random.Random(seed)
    kept = [issue(f"e{n}", rng, f"eval{n % 7}") for n in range(evaluation)]
    places = set(rng.sample(range(train), copies))
    with (folder / "train.jsonl").open("w") as out:
        for n in range(train):
            copied = n in places
            row = (
                near_copy(rng.choice(kept), f"t{n}", rng, rng.random() ** 2 / 3)
                if copied
                else issue(f"t{n}", rng, f"train{n % 23}")
            )
            out.write(json.dumps(row) + "\n")
    (folder / "eval.jsonl").write_text("".join(json.dumps(row) + "\n" for row in kept))
    return folder / "train.jsonl", folder / "eval.jsonl"


def _word(rng: random.Random, common: tuple[str, ...]) -> str:
    return rng.choice(common) if rng.random() < 0.4 else WORDS[int(len(WORDS) * rng.random() ** 3)]
