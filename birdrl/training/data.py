"""Training data of the engine: Parquet files from distilled samples and from training instances."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from birdrl.agent.prompting import PromptSet
from birdrl.agent.tools import TOOLS
from birdrl.errors import InputError
from birdrl.files import read_jsonl
from birdrl.gym.instance import Instance
from birdrl.gym.schema import Schema
from birdrl.training.tokens import dialogue_ids, prompt_ids


@dataclass(frozen=True)
class DataStats:
    """What became of the rows: `rows` are in the file, `too_long` were left out; tokens of the rows kept."""

    rows: int
    too_long: int
    tokens: int
    trained_tokens: int

    def summary(self) -> dict[str, int]:
        return {
            "samples": self.rows,
            "samples_too_long": self.too_long,
            "sample_tokens": self.tokens,
            "trained_tokens": self.trained_tokens,
        }


@dataclass(frozen=True)
class Samples:
    """A JSON-lines file of dialogues with `messages`; `tools` says whether the prompt shows the tools.

    `share` limits how many are taken, as a share of the first file's number; None takes all.
    """

    path: Path
    tools: bool
    share: float | None = None


def write_imitation_data(
    sources: Sequence[Samples], target: Path, tokenizer: Any, *, max_length: int, seed: int
) -> DataStats:
    """Tokenise the dialogues of `sources` into `target`, in an order fixed by `seed`.

    Samples of more than `max_length` tokens are left out and counted. Raises InputError when a row has no usable
    `messages` or nothing is left.
    """
    rows: list[dict[str, Any]] = []
    too_long = first = 0
    for source in sources:
        samples, longer = _tokenised(source, tokenizer, max_length)
        if source.share is None:
            first = first or len(samples)
        else:
            random.Random(f"{seed}:{source.path.name}").shuffle(samples)
            samples = samples[: round(source.share * first)]
        rows += samples
        too_long += longer
    if not rows:
        raise InputError(
            f"{sources[0].path}: no sample of at most {max_length} tokens ({too_long} are longer); raise max_length"
        )
    random.Random(seed).shuffle(rows)
    _write(target, rows)
    tokens = sum(len(row["input_ids"]) for row in rows)
    return DataStats(len(rows), too_long, tokens, sum(sum(row["loss_mask"]) for row in rows))


def _tokenised(source: Samples, tokenizer: Any, max_length: int) -> tuple[list[dict[str, Any]], int]:
    """The rows of a file that fit, and how many do not."""
    rows, too_long = [], 0
    for number, sample in enumerate(read_jsonl(source.path), 1):
        try:
            ids, mask = dialogue_ids(tokenizer, sample["messages"], TOOLS if source.tools else None)
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(f"{source.path}, row {number}, field 'messages': {error}; rebuild the file") from error
        if len(ids) > max_length:
            too_long += 1
        else:
            rows.append({"instance_id": sample["instance_id"], "input_ids": ids, "loss_mask": mask})
    return rows, too_long


def write_rollout_data(
    instances: Sequence[Instance],
    schemas: dict[str, Schema],
    target: Path,
    tokenizer: Any,
    prompts: PromptSet,
    *,
    tools: bool,
    count: int,
    max_prompt_tokens: int,
    seed: int,
) -> DataStats:
    """Write `count` rows for rollouts: prompts of a seeded choice of instances, repeated when there are fewer.

    The row carries the whole instance as JSON text (Arrow would unify and null-pad its structures); the rollout
    file's `gts` is the instance's id. Instances whose prompt is longer than `max_prompt_tokens` are left out and
    counted. Raises InputError when none is left.
    """
    rows: list[dict[str, Any]] = []
    too_long = tokens = 0
    order = list(instances)
    random.Random(seed).shuffle(order)
    for instance in order:
        if len(rows) == count:
            break
        schema = schemas[instance.db_id]
        messages = prompts.agentic(instance, schema) if tools else prompts.reasoning(instance, schema)
        length = len(prompt_ids(tokenizer, messages, TOOLS if tools else None))
        if length > max_prompt_tokens:
            too_long += 1
            continue
        tokens += length
        rows.append(
            {
                "prompt": messages,
                "data_source": "birdrl",
                "reward_model": {"style": "rule", "ground_truth": instance.instance_id},
                "extra_info": {"index": len(rows), "instance": json.dumps(instance.row(), ensure_ascii=False)},
            }
        )
    if not rows:
        raise InputError(
            f"none of the {len(order)} training instances has a prompt of at most agent.max_prompt_tokens = "
            f"{max_prompt_tokens} tokens; raise it"
        )
    distinct = len(rows)
    rows = [rows[i % distinct] for i in range(count)]
    _write(target, rows)
    return DataStats(distinct, too_long, tokens, 0)


def _write(target: Path, rows: Iterable[dict[str, Any]]) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        pq.write_table(pa.Table.from_pylist(list(rows)), temporary)
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)
