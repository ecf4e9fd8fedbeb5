"""Imitated tokens are tokens that a rollout could have sampled."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from birdrl.agent.tools import TOOLS, format_tool_call
from birdrl.errors import InputError
from birdrl.files import write_jsonl
from birdrl.training.data import Samples, write_imitation_data
from birdrl.training.sft_dataset import TokenisedSamples
from birdrl.training.tokens import dialogue_ids, prompt_ids, suffix_ids, turn_ids

PROMPT = [{"role": "system", "content": "Repair the SQL."}, {"role": "user", "content": "SELECT idd FROM orders"}]
DIALOGUE = [
    *PROMPT,
    {"role": "assistant", "content": f"Look.\n{format_tool_call('execute_sql', 'SELECT 1')}"},
    {"role": "tool", "content": "1\n1"},
    {"role": "assistant", "content": format_tool_call("submit_solution", "SELECT id FROM orders")},
]


def test_pieces_render_like_the_whole_dialogue(tokenizer: Any) -> None:
    ids, _ = dialogue_ids(tokenizer, DIALOGUE, TOOLS)
    whole = tokenizer.apply_chat_template(DIALOGUE, tools=TOOLS, tokenize=False)
    assert tokenizer.decode(ids) + "\n" == whole


def test_the_mask_marks_exactly_the_assistant_turns(tokenizer: Any) -> None:
    ids, mask = dialogue_ids(tokenizer, DIALOGUE, TOOLS)
    sampled = tokenizer.decode([i for i, m in zip(ids, mask, strict=True) if m])
    assert sampled == "".join(f"{m['content']}<|im_end|>" for m in DIALOGUE if m["role"] == "assistant")


def test_imitation_and_rollout_give_the_same_ids(tokenizer: Any) -> None:
    ids, _ = dialogue_ids(tokenizer, DIALOGUE, TOOLS)
    rollout = prompt_ids(tokenizer, PROMPT, TOOLS)
    rollout += turn_ids(tokenizer, DIALOGUE[2]["content"]) + suffix_ids(tokenizer, "1\n1")
    rollout += turn_ids(tokenizer, DIALOGUE[4]["content"])
    assert ids == rollout


@pytest.mark.parametrize("cut", [2, 4])
def test_a_dialogue_must_end_with_an_assistant_turn(tokenizer: Any, cut: int) -> None:
    with pytest.raises(ValueError, match="roles must alternate"):
        dialogue_ids(tokenizer, DIALOGUE[:cut], TOOLS)


def test_long_samples_are_left_out_and_counted(tokenizer: Any, tmp_path: Path) -> None:
    long = [*PROMPT, {"role": "assistant", "content": "SELECT 1 " * 100}]
    rows = [{"instance_id": "a", "messages": DIALOGUE}, {"instance_id": "b", "messages": long}]
    write_jsonl(tmp_path / "rows.jsonl", rows)
    length = len(dialogue_ids(tokenizer, DIALOGUE, None)[0])
    source = [Samples(tmp_path / "rows.jsonl", tools=False)]
    stats = write_imitation_data(source, tmp_path / "x.parquet", tokenizer, max_length=length, seed=0)
    assert (stats.rows, stats.too_long, stats.tokens) == (1, 1, length)
    item = TokenisedSamples(str(tmp_path / "x.parquet"), tokenizer, None)[0]
    assert item["input_ids"].tolist() == dialogue_ids(tokenizer, DIALOGUE, None)[0]
    assert item["position_ids"].tolist() == list(range(length))
    with pytest.raises(InputError, match="raise max_length"):
        write_imitation_data(source, tmp_path / "y", tokenizer, max_length=3, seed=0)


def test_the_order_follows_the_seed(tokenizer: Any, tmp_path: Path) -> None:
    write_jsonl(tmp_path / "rows.jsonl", [{"instance_id": f"i{n}", "messages": DIALOGUE} for n in range(20)])
    orders = []
    for seed in (1, 1, 2):
        target = tmp_path / "x.parquet"
        source = [Samples(tmp_path / "rows.jsonl", tools=True)]
        write_imitation_data(source, target, tokenizer, max_length=9999, seed=seed)
        orders.append(pq.read_table(target)["instance_id"].to_pylist())
    assert orders[0] == orders[1] != orders[2]


def test_a_bad_row_is_named(tokenizer: Any, tmp_path: Path) -> None:
    write_jsonl(tmp_path / "rows.jsonl", [{"instance_id": "a", "messages": DIALOGUE}, {"instance_id": "b"}])
    source = [Samples(tmp_path / "rows.jsonl", tools=True)]
    with pytest.raises(InputError, match=r"rows.jsonl, row 2, field 'messages'"):
        write_imitation_data(source, tmp_path / "x", tokenizer, max_length=999, seed=0)


@pytest.mark.parametrize(("share", "replayed"), [(0.0, 0), (0.5, 5), (4.0, 12)])
def test_a_share_of_other_samples_is_mixed_in(tokenizer: Any, tmp_path: Path, share: float, replayed: int) -> None:
    write_jsonl(tmp_path / "tools.jsonl", [{"instance_id": f"t{n}", "messages": DIALOGUE} for n in range(10)])
    answer = {"role": "assistant", "content": "Done."}
    write_jsonl(tmp_path / "pairs.jsonl", [{"instance_id": f"p{n}", "messages": [*PROMPT, answer]} for n in range(12)])
    sources = [
        Samples(tmp_path / "tools.jsonl", tools=True),
        Samples(tmp_path / "pairs.jsonl", tools=False, share=share),
    ]
    target = tmp_path / "x.parquet"
    stats = write_imitation_data(sources, target, tokenizer, max_length=9999, seed=1)
    names = pq.read_table(target)["instance_id"].to_pylist()
    assert stats.rows == len(names)
    assert sum(name.startswith("t") for name in names) == 10
    assert sum(name.startswith("p") for name in names) == replayed
    assert names[:10] != sorted(names[:10]), "the two kinds are shuffled together"
