"""Batched sampling with one random stream per request, for rollouts on CPU."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch


@dataclass(frozen=True)
class Request:
    """What to continue, and how. `seed` fixes this request's samples whatever it is batched with."""

    prompt_ids: tuple[int, ...]
    max_tokens: int
    temperature: float  # 0: greedy
    seed: int


@dataclass(frozen=True)
class Sampled:
    """Sampled ids, the end mark included, and their log-probabilities under logits / temperature."""

    token_ids: list[int]
    log_probs: list[float]
    stopped: bool  # by the end mark rather than by max_tokens


@torch.inference_mode()
def sample(model: Any, requests: Sequence[Request], *, stop_ids: frozenset[int], pad_id: int) -> list[Sampled]:
    """Continue all requests together: left-padded, one forward pass a token, finished rows dropped on the way.

    A token is drawn by inversion of the cumulative distribution, with one uniform number from a generator of the
    request's own: the draw does not depend on the batch, only the rounding of the logits (about 1e-6) does.
    Log-probabilities are those that the trainer recomputes: log_softmax(logits / temperature), with temperature 1
    for greedy requests.
    """
    from transformers import DynamicCache

    if not requests:
        return []
    width = max(len(request.prompt_ids) for request in requests)
    rows = [[pad_id] * (width - len(r.prompt_ids)) + list(r.prompt_ids) for r in requests]
    input_ids = torch.tensor(rows)
    attention = torch.tensor([[0] * (width - len(r.prompt_ids)) + [1] * len(r.prompt_ids) for r in requests])
    positions = (attention.cumsum(-1) - 1).clamp(min=0)
    generators = [torch.Generator().manual_seed(request.seed) for request in requests]
    ids: list[list[int]] = [[] for _ in requests]
    log_probs: list[list[float]] = [[] for _ in requests]
    active = list(range(len(requests)))  # request number of each row of the running batch
    cache = DynamicCache(config=model.config)
    while active:
        output = model(
            input_ids=input_ids,
            attention_mask=attention,
            position_ids=positions,
            past_key_values=cache,
            use_cache=True,
            logits_to_keep=1,
        )
        logits = output.logits[:, -1].float()
        drawn, drawn_log_probs = _draw(
            logits, [requests[n].temperature for n in active], [generators[n] for n in active]
        )
        for number, token, log_prob in zip(active, drawn, drawn_log_probs, strict=True):
            ids[number].append(token)
            log_probs[number].append(log_prob)
        keep = [
            row
            for row, number in enumerate(active)
            if drawn[row] not in stop_ids and len(ids[number]) < requests[number].max_tokens
        ]
        if not keep:
            break
        attention = torch.cat([attention, attention.new_ones(len(active), 1)], dim=1)
        input_ids, positions = torch.tensor(drawn).unsqueeze(1), positions[:, -1:] + 1
        if len(keep) < len(active):
            chosen = torch.tensor(keep)
            attention, input_ids, positions = attention[chosen], input_ids[chosen], positions[chosen]
            cache.batch_select_indices(chosen)
            active = [active[row] for row in keep]
    return [Sampled(i, lp, bool(i) and i[-1] in stop_ids) for i, lp in zip(ids, log_probs, strict=True)]


def _draw(
    logits: torch.Tensor, temperatures: list[float], generators: list[torch.Generator]
) -> tuple[list[int], list[float]]:
    """One token a row of `logits` (rows, vocabulary), and its log-probability."""
    scale = torch.tensor([t if t > 0 else 1.0 for t in temperatures]).unsqueeze(1)
    scores = torch.log_softmax(logits / scale, dim=-1)
    tokens = scores.argmax(-1)
    sampled = [row for row, temperature in enumerate(temperatures) if temperature > 0]
    if sampled:
        cumulative = scores[sampled].double().exp().cumsum(-1)
        uniform = torch.stack([torch.rand(1, generator=generators[row], dtype=torch.float64) for row in sampled])
        # Below the total, so that rounding in the sum cannot point past the last token.
        tokens[sampled] = torch.searchsorted(cumulative, uniform * cumulative[:, -1:], right=True).squeeze(1)
    return tokens.tolist(), scores.gather(1, tokens.unsqueeze(1)).squeeze(1).tolist()
