"""Batched sampling: the draw of a request does not depend on what it is batched with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from birdrl.decoding import Decoder, Request

STOP = frozenset({2})


@pytest.fixture(scope="module")
def model(nano_folder: Path) -> Any:
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(nano_folder, dtype=torch.float32).eval()


def run(model: Any, *requests: Request) -> list[Any]:
    return Decoder(model, STOP).run(requests)


REQUESTS = [
    Request((5, 6, 7), 12, 1.0, 1),
    Request(tuple(range(10, 40)), 5, 0.7, 2),
    Request((9,), 20, 0.0, 3),
    Request((5, 6, 7), 12, 1.0, 4),
]


def test_alone_and_together_give_the_same(model: Any) -> None:
    together = run(model, *REQUESTS)
    for request, got in zip(REQUESTS, together, strict=True):
        alone = run(model, request)[0]
        assert got.token_ids == alone.token_ids
        assert got.log_probs == pytest.approx(alone.log_probs, abs=1e-4)


def test_limits_and_seeds_are_per_request(model: Any) -> None:
    first, second, greedy, other_seed = run(model, *REQUESTS)
    assert [len(x.token_ids) for x in (first, second, greedy)] == [12, 5, 20]
    assert first.token_ids != other_seed.token_ids
    assert run(model, REQUESTS[0])[0].token_ids == first.token_ids


def test_log_probs_are_those_of_the_scaled_logits(model: Any) -> None:
    request = REQUESTS[1]
    got = run(model, request)[0]
    ids = torch.tensor([[*request.prompt_ids, *got.token_ids]])
    with torch.no_grad():
        scores = torch.log_softmax(model(ids).logits[0] / request.temperature, -1)
    start = len(request.prompt_ids) - 1
    expected = [scores[start + i, token].item() for i, token in enumerate(got.token_ids)]
    assert got.log_probs == pytest.approx(expected, abs=1e-5)


def test_greedy_matches_transformers(model: Any) -> None:
    prompt = torch.tensor([REQUESTS[2].prompt_ids])
    expected = model.generate(prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=20, do_sample=False)
    assert run(model, REQUESTS[2])[0].token_ids == expected[0, 1:].tolist()


def test_a_finished_row_leaves_the_batch(model: Any) -> None:
    stop_at = run(model, REQUESTS[2])[0].token_ids[3]
    first, short = Decoder(model, frozenset({stop_at})).run([REQUESTS[1], REQUESTS[2]])
    assert short.token_ids[-1] == stop_at
    assert short.stopped
    assert len(short.token_ids) <= 4
    assert first.token_ids == run(model, REQUESTS[1])[0].token_ids[: len(first.token_ids)]


def test_samples_follow_the_distribution(model: Any) -> None:
    with torch.no_grad():
        probabilities = torch.softmax(model(torch.tensor([[5, 6, 7]])).logits[0, -1] / 0.05, -1)
    likely = int(probabilities.argmax())
    draws = run(model, *[Request((5, 6, 7), 1, 0.05, seed) for seed in range(300)])
    share = sum(draw.token_ids == [likely] for draw in draws) / 300
    assert share == pytest.approx(float(probabilities[likely]), abs=0.1)


def test_shared_beginnings_are_read_once_and_change_nothing(model: Any) -> None:
    """Two databases under one system prompt, several issues each; then a second turn of each dialogue."""
    system = tuple(range(10, 50))
    schemas = [tuple(range(50, 90)), tuple(range(90, 130))]
    prompts = [(*system, *schemas[i % 2], 140 + i, *range(5, 5 + i)) for i in range(8)]
    prompts.append((*system, *schemas[0]))  # one is the beginning of others
    decoder = Decoder(model, STOP)
    read = []
    handle = model.register_forward_pre_hook(
        lambda module, args, kwargs: read.append(kwargs["input_ids"].shape), with_kwargs=True
    )
    try:
        first = decoder.run([Request(prompt, 1, 0.0, 0) for prompt in prompts])
        assert [shape[1] for shape in read[:3]] == [len(system), len(schemas[0]) - 1, len(schemas[1])]
        assert sum(rows * width for rows, width in read) < len(system) + 80 + len(prompts) * 10
        read.clear()
        turns = [(*prompt, *sampled.token_ids, 4) for prompt, sampled in zip(prompts, first, strict=True)]
        second = decoder.run([Request(turn, 3, 0.0, 0) for turn in turns])
        assert max(width for _, width in read) == 2  # what was sampled last and what came after it
    finally:
        handle.remove()
    for prompt, got in [*zip(prompts, first, strict=True), *zip(turns, second, strict=True)]:
        alone = run(model, Request(prompt, len(got.token_ids), 0.0, 0))[0]
        assert got.token_ids == alone.token_ids
        assert got.log_probs == pytest.approx(alone.log_probs, abs=1e-4)
