"""The batched greedy decoder against transformers' own generate, on a random tiny model."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from birdrl.agent.templating import CHAT_TEMPLATE
from birdrl.agent.tools import TOOLS
from birdrl.errors import InputError
from birdrl.evaluation.hf_policy import HfPolicy
from birdrl.evaluation.policy import Generation

TEXTS = ["SELECT a FROM t", "fix: SELECT count(*) FROM orders WHERE price > 20", "x", "UPDATE t SET a = 1"]


@pytest.fixture(scope="module")
def policy(folder: Path) -> HfPolicy:
    return HfPolicy(folder, threads=1)


def generate(policy: HfPolicy, sequences: list[list[int]], limits: list[int]) -> list[Generation]:
    tickets = [policy.submit(ids, limit) for ids, limit in zip(sequences, limits, strict=True)]
    ended: dict[int, Generation] = {}
    while len(ended) < len(tickets):
        ended.update(policy.advance())
    return [ended[ticket] for ticket in tickets]


def test_a_batch_equals_one_by_one_generation(policy: HfPolicy):
    sequences = [policy._ids(text) for text in TEXTS]
    limits = [30, 12, 30, 1]
    batch = generate(policy, sequences, limits)
    for ids, limit, generation in zip(sequences, limits, batch, strict=True):
        whole = policy.model.generate(torch.tensor([ids]), max_new_tokens=limit, do_sample=False)[
            0, len(ids) :
        ].tolist()
        ended = whole[-1] == policy._end
        assert generation.finished == ended
        assert generation.ids == (whole[:-1] if ended else whole)
    assert {generation.finished for generation in batch} == {True, False}


def test_the_order_of_a_batch_does_not_matter(policy: HfPolicy):
    sequences = [policy._ids(text) for text in TEXTS]
    forwards = generate(policy, sequences, [20] * 4)
    assert generate(policy, sequences[::-1], [20] * 4)[::-1] == forwards


def whole(policy: HfPolicy, ids: list[int], limit: int) -> list[int]:
    generated = policy.model.generate(torch.tensor([ids]), max_new_tokens=limit, do_sample=False)
    return generated[0, len(ids) :].tolist()


def test_later_turns_start_from_the_kept_past_and_give_the_same(policy: HfPolicy):
    shared = policy._ids("<|im_start|>system\nfix the SQL with tools, please")
    sequences = [shared + policy._ids(text) for text in TEXTS]
    computed = []
    handle = policy.model.register_forward_pre_hook(
        lambda module, args, kwargs: computed.append(kwargs["input_ids"].numel()), with_kwargs=True
    )
    for turn in range(3):
        limits = [9, 30, 5, 14][: len(sequences)]
        computed.clear()
        batch = generate(policy, sequences, limits)
        first_pass = computed[0]
        if turn == 0:
            assert first_pass >= len(shared)  # once for all
            assert sum(computed[:2]) < len(sequences) * len(shared)
        else:  # only the end token, the observation and at most one token that was not yet read
            assert first_pass <= len(sequences) * (len(policy.continuation(f"row {turn}")) + 1)
        for ids, limit, generation in zip(sequences, limits, batch, strict=True):
            assert generation.ids == [token for token in whole(policy, ids, limit) if token != policy._end]
        sequences = [
            ids + generation.ids + policy.continuation(f"row {turn + 1}")
            for ids, generation in zip(sequences, batch, strict=True)
        ][: 3 - turn]
    handle.remove()


def test_generation_leaves_the_tokenizer_without_padding(policy: HfPolicy):
    generate(policy, [[5], [5, 6, 7]], [2, 2])
    assert policy.tokenizer.backend_tokenizer.padding is None


def test_prompt_and_continuation_follow_the_template(policy: HfPolicy):
    messages = [{"role": "system", "content": "Fix."}, {"role": "user", "content": "SELECT a"}]
    prompt = policy.prompt(messages, TOOLS)
    assert policy.tokenizer.chat_template == CHAT_TEMPLATE
    turn = [*policy._ids("look"), *policy.continuation("a\n1")]
    dialogue = [*messages, {"role": "assistant", "content": "look"}, {"role": "tool", "content": "a\n1"}]
    assert prompt + turn == policy.prompt(dialogue, TOOLS)


def test_nothing_to_advance_is_an_error(policy: HfPolicy):
    with pytest.raises(ValueError, match="no turn was asked for"):
        policy.advance()


def test_a_folder_that_is_no_model_is_named(tmp_path: Path):
    with pytest.raises(InputError, match=r"no config\.json"):
        HfPolicy(tmp_path, threads=1)
