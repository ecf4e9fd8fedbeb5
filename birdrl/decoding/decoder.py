"""Continuous batching: a request joins the running batch when it comes and leaves it when it ends."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

import torch

from birdrl.decoding.linear import prepare
from birdrl.decoding.slots import Past, SlotCache
from birdrl.errors import InputError

PREFILL_ROWS = 8  # prompts read in one pass; neighbours in length, so that little of it is padding
SAVED_TOKENS = 32  # a shared beginning is read once for all if that spares at least so many
PAST_BYTES = 3 << 30  # keys and values kept of ended requests


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


@dataclass
class _Row:
    """A running request; row i of the batch lives in slot i."""

    ticket: int
    request: Request
    ids: list[int]  # prompt and what was sampled; the last one has not been read by the model yet
    generator: torch.Generator
    log_probs: list[float] = field(default_factory=list)

    @property
    def sampled(self) -> list[int]:
        return self.ids[len(self.request.prompt_ids) :]


class Decoder:
    """Samples from a causal language model (fp32, CPU; its own, `prepare` changes it) for many requests at once.

    A token is drawn by inversion of the cumulative distribution, with one uniform number from a generator of the
    request's own: the draw does not depend on the batch, only the rounding of the logits (about 1e-6) does.
    Log-probabilities are those that the trainer recomputes: log_softmax(logits / temperature), with temperature 1
    for greedy requests.

    Keys and values outlive their request for a while, so that the next turn of a dialogue computes only what is
    new to it; so do beginnings that several prompts share, and equal prompts are read once. Not thread-safe.
    """

    def __init__(self, model: Any, stop_ids: frozenset[int], batch_limit: int = 64) -> None:
        """`batch_limit`: rows decoded together. Raises InputError for models that attention over a full past does
        not describe."""
        self.model, self.stop_ids, self.batch_limit = model, stop_ids, batch_limit
        config = model.config.get_text_config()
        kinds = set(getattr(config, "layer_types", None) or ["full_attention"])
        if unknown := sorted(kinds - {"full_attention", "sliding_attention"}):
            raise InputError(f"{config.model_type}: layers of type {', '.join(unknown)} cannot be decoded on CPU here")
        # Within the window a sliding layer attends to everything.
        self._longest = config.sliding_window if "sliding_attention" in kinds else None
        prepare(model)
        self._cache = SlotCache(config.num_hidden_layers)
        self._waiting: deque[_Row] = deque()
        self._rows: list[_Row] = []
        self._tickets = 0
        self._pasts: OrderedDict[tuple[int, ...], Past] = OrderedDict()  # the latest last
        self._past_bytes = 0
        self.peak_rows = 0

    @property
    def idle(self) -> bool:
        return not self._rows and not self._waiting

    def submit(self, request: Request) -> int:
        """Queue a request; `step` reports its result under the number returned. Raises InputError."""
        if not request.prompt_ids or request.max_tokens < 1:
            raise InputError("a request needs at least one prompt token and room for one more")
        if self._longest and len(request.prompt_ids) + request.max_tokens > self._longest:
            raise InputError(
                f"{len(request.prompt_ids)} + {request.max_tokens} tokens exceed the model's sliding window"
            )
        self._tickets += 1
        generator = torch.Generator().manual_seed(request.seed)
        self._waiting.append(_Row(self._tickets, request, list(request.prompt_ids), generator))
        return self._tickets

    def run(self, requests: Sequence[Request], on_ended: Callable[[int], object] = int) -> list[Sampled]:
        """Continue all requests; results in their order. `on_ended` gets the number of requests that a step ended."""
        tickets = [self.submit(request) for request in requests]
        done: dict[int, Sampled] = {}
        while not self.idle:
            ended = self.step()
            done.update(ended)
            on_ended(len(ended))
        return [done[ticket] for ticket in tickets]

    @torch.inference_mode()
    def step(self) -> list[tuple[int, Sampled]]:
        """Read the prompts that have come, then give every running request one token; returns what has ended."""
        room = self.batch_limit - len(self._rows)
        new = [self._waiting.popleft() for _ in range(min(room, len(self._waiting)))]
        logits = [self._read_last(self._rows)] if self._rows else []
        if new:
            logits.append(self._read_prompts(new))
        self.peak_rows = max(self.peak_rows, len(self._rows))
        return self._advance(torch.cat(logits)) if logits else []

    def forget(self) -> None:
        """Drop all pasts: the weights have changed. Raises RuntimeError while requests are running."""
        if not self.idle:
            raise RuntimeError("weights cannot change under running requests")
        self._pasts.clear()
        self._past_bytes = 0

    # --- reading

    def _forward(
        self, start: int, ids: torch.Tensor, positions: torch.Tensor, keep: int | torch.Tensor
    ) -> torch.Tensor:
        """Logits (rows, kept tokens, vocabulary) of the rows from `start` on."""
        logits: torch.Tensor = self.model(
            input_ids=ids,
            attention_mask=self._cache.window(start, positions),
            position_ids=positions,
            past_key_values=self._cache,
            use_cache=True,
            logits_to_keep=keep,
        ).logits
        return logits.float()

    def _read_last(self, rows: list[_Row]) -> torch.Tensor:
        """Read each row's latest token; logits (rows, vocabulary)."""
        ids = torch.tensor([row.ids[-1:] for row in rows])
        positions = torch.tensor([[len(row.ids) - 1] for row in rows])
        return self._forward(0, ids, positions, 1)[:, -1]

    def _read_prompts(self, new: list[_Row]) -> torch.Tensor:
        """Give new rows their slots and read their prompts; logits (new rows, vocabulary)."""
        room = max(len(row.request.prompt_ids) + row.request.max_tokens for row in new)
        self._cache.reserve(len(self._rows) + len(new), room)
        groups: dict[tuple[int, ...], list[_Row]] = {}
        for row in new:
            groups.setdefault(row.request.prompt_ids, []).append(row)
        self._read_shared_beginnings(sorted(groups))
        pasts = {prompt: self._past(prompt) for prompt in groups}
        leaders = sorted(groups, key=lambda prompt: len(prompt) - len(pasts[prompt]))
        first = len(self._rows)
        logits = []
        for start in range(0, len(leaders), PREFILL_ROWS):
            chunk = leaders[start : start + PREFILL_ROWS]
            logits.append(self._prefill(first + start, chunk, [len(pasts[prompt]) for prompt in chunk], pasts))
        self._rows += [groups[prompt][0] for prompt in leaders]
        order = list(range(len(leaders)))
        for number, prompt in enumerate(leaders):
            for row in groups[prompt][1:]:
                self._cache.copy(first + number, len(self._rows), len(prompt))
                self._rows.append(row)
                order.append(number)
        return torch.cat(logits)[order]

    def _prefill(
        self,
        start: int,
        prompts: list[tuple[int, ...]],
        known: list[int],
        pasts: dict[tuple[int, ...], tuple[int, ...]],
    ) -> torch.Tensor:
        """Read what is new of each prompt, from slot `start` on; logits of the last tokens (prompts, vocabulary)."""
        for slot, prompt in enumerate(prompts, start):
            if pasts[prompt]:
                self._pasts.move_to_end(pasts[prompt])
                self._cache.write(slot, self._pasts[pasts[prompt]])
        news = [prompt[length:] for prompt, length in zip(prompts, known, strict=True)]
        width = max(map(len, news))
        ids = torch.tensor([[*tokens, *[0] * (width - len(tokens))] for tokens in news])
        # What padding writes behind a row's end is never seen: the next tokens overwrite it.
        positions = torch.tensor(known)[:, None] + torch.arange(width)
        lasts, which = torch.tensor([len(tokens) - 1 for tokens in news]).unique(return_inverse=True)  # type: ignore[no-untyped-call]
        return self._forward(start, ids, positions, lasts)[torch.arange(len(news)), which]

    def _read_shared_beginnings(self, prompts: list[tuple[int, ...]]) -> None:
        """Read what several of these sorted, distinct prompts begin with, once, and keep it as a past."""
        if len(prompts) < 2:
            return
        first, last = prompts[0], prompts[-1]
        shared = next((i for i, (x, y) in enumerate(zip(first, last, strict=False)) if x != y), len(first))
        beginning = first[: min(shared, len(first) - 1)]  # of every prompt at least one token is left to read
        past = self._past(beginning)
        lacking = sum(len(self._past(prompt)) < len(beginning) for prompt in prompts)
        if (len(beginning) - len(past)) * (lacking - 1) >= SAVED_TOKENS:
            slot = len(self._rows)
            self._prefill(slot, [beginning], [len(past)], {beginning: past})
            self._keep(beginning, slot)
        for _, branch in groupby(prompts, key=lambda prompt: prompt[shared : shared + 1]):
            self._read_shared_beginnings(list(branch))

    def _past(self, prompt: tuple[int, ...]) -> tuple[int, ...]:
        """The longest known past that the prompt continues; empty if there is none."""
        known = [past for past in self._pasts if len(past) < len(prompt) and prompt[: len(past)] == past]
        return max(known, key=len, default=())

    def _keep(self, ids: tuple[int, ...], slot: int) -> None:
        if ids in self._pasts:
            self._pasts.move_to_end(ids)
            return
        self._pasts[ids] = past = self._cache.read(slot, len(ids))
        self._past_bytes += _size(past)
        while self._past_bytes > PAST_BYTES:
            _, oldest = self._pasts.popitem(last=False)
            self._past_bytes -= _size(oldest)

    # --- sampling

    def _advance(self, logits: torch.Tensor) -> list[tuple[int, Sampled]]:
        rows = self._rows
        drawn = _draw(logits, [row.request.temperature for row in rows], [row.generator for row in rows])
        for row, token, log_prob in zip(rows, *drawn, strict=True):
            row.ids.append(token)
            row.log_probs.append(log_prob)
        ended = []
        for slot in reversed(range(len(rows))):  # a freed slot takes the last row, which has been looked at
            row = rows[slot]
            stopped = row.ids[-1] in self.stop_ids
            if stopped or len(row.log_probs) == row.request.max_tokens:
                ended.append((row.ticket, Sampled(row.sampled, row.log_probs, stopped)))
                self._keep(tuple(row.ids[:-1]), slot)
                last = rows.pop()
                if last is not row:
                    self._cache.copy(len(rows), slot, len(last.ids) - 1)
                    rows[slot] = last
        return ended


def _size(past: Past) -> int:
    return sum(keys.nbytes + values.nbytes for keys, values in past)


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
