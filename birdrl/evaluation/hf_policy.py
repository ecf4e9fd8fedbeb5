"""A model folder in Hugging Face form as a greedy policy on this machine.

Padding is done here, by hand: asking a tokenizer for it leaves padding switched on in its shared backend, which
has ruined trainings that used the tokenizer later.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, DynamicCache

from birdrl.agent.prompting import Messages
from birdrl.agent.templating import END, attach_template, observation_suffix
from birdrl.errors import InputError
from birdrl.evaluation.attention import register
from birdrl.evaluation.policy import Generation


@dataclass(frozen=True)
class _Past:
    """Keys and values of a sequence, per layer (heads, tokens, width), so that its next turn starts from them."""

    ids: list[int]
    layers: list[tuple[torch.Tensor, torch.Tensor]]

    def continued_by(self, sequence: list[int]) -> bool:
        return len(self.ids) < len(sequence) and sequence[: len(self.ids)] == self.ids


class HfPolicy:
    """Greedy decoding in fp32 on the CPU.

    Sequences that have ended leave the batch, so one that babbles on does not hold up the others' share of the
    work; the keys and values of the latest batch stay, so a next turn computes only what is new to it.
    """

    def __init__(self, folder: Path, threads: int) -> None:
        if not (folder / "config.json").is_file():
            raise InputError(f"{folder}: not a model folder (no config.json)")
        torch.set_num_threads(threads)
        self.tokenizer: Any = AutoTokenizer.from_pretrained(folder)
        attach_template(self.tokenizer)
        # from_pretrained leaves the model in evaluation mode
        self.model: Any = AutoModelForCausalLM.from_pretrained(
            folder, dtype=torch.float32, attn_implementation=register()
        )
        end = self.tokenizer.convert_tokens_to_ids(END)
        if not isinstance(end, int) or end == self.tokenizer.unk_token_id:
            raise InputError(f"{folder}: its tokenizer has no token {END}, which the chat template needs")
        self._end = end
        configured = self.model.generation_config.eos_token_id
        configured = configured if isinstance(configured, list) else [configured]
        self._pasts: list[_Past] = []
        self._stops = {end, self.tokenizer.eos_token_id, *configured} - {None}

    def prompt(self, messages: Messages, tools: list[dict[str, Any]] | None) -> list[int]:
        text = self.tokenizer.apply_chat_template(messages, tools=tools, tokenize=False, add_generation_prompt=True)
        return self._ids(text)

    def continuation(self, observation: str) -> list[int]:
        return [self._end, *self._ids(observation_suffix(observation))]

    @torch.inference_mode()
    def generate(self, sequences: Sequence[Sequence[int]], limits: Sequence[int]) -> list[Generation]:
        written: list[list[int]] = [[] for _ in sequences]
        finished = [False] * len(sequences)
        alive = [index for index, limit in enumerate(limits) if limit > 0]
        if alive:
            self._share_beginning([list(sequences[index]) for index in alive])
            self._decode([list(sequence) for sequence in sequences], limits, alive, written, finished)
        texts = [self.tokenizer.decode(ids, skip_special_tokens=True) for ids in written]
        return [Generation(ids, text, done) for ids, text, done in zip(written, texts, finished, strict=True)]

    def _share_beginning(self, sequences: list[list[int]]) -> None:
        """Compute what all sequences begin with (system prompt, tools) once, unless their pasts are known."""
        if any(self._past(sequence) for sequence in sequences):
            return
        first, last = min(sequences), max(sequences)
        length = next((i for i, (x, y) in enumerate(zip(first, last, strict=False)) if x != y), len(first))
        length = min(length, min(map(len, sequences)) - 1)
        if len(sequences) > 1 and length >= 8:
            cache = self.model(
                input_ids=torch.tensor([first[:length]]), use_cache=True, logits_to_keep=1
            ).past_key_values
            self._pasts = _keep(first[:length], cache, 0, torch.ones(length, dtype=torch.bool))

    def _past(self, sequence: list[int]) -> _Past | None:
        """The longest known past that the sequence continues."""
        known = [past for past in self._pasts if past.continued_by(sequence)]
        return max(known, key=lambda past: len(past.ids), default=None)

    def _decode(
        self,
        sequences: list[list[int]],
        limits: Sequence[int],
        alive: list[int],
        written: list[list[int]],
        finished: list[bool],
    ) -> None:
        pasts = [self._past(sequences[index]) for index in alive]
        news = [sequences[index][len(past.ids) if past else 0 :] for index, past in zip(alive, pasts, strict=True)]
        cache, past_mask = _stack(pasts)
        ids, new_mask = _left_padded(news)
        mask = torch.cat([past_mask, new_mask], dim=1)
        positions = (mask.cumsum(-1) - 1).clamp(min=0)[:, past_mask.shape[1] :]
        self._pasts = []
        while alive:
            out = self.model(
                input_ids=ids, attention_mask=mask, position_ids=positions, past_key_values=cache, use_cache=True,
                logits_to_keep=1,
            )  # fmt: skip
            cache, chosen = out.past_key_values, out.logits[:, -1].argmax(-1)
            keep = []
            for row, (index, token) in enumerate(zip(alive, chosen.tolist(), strict=True)):
                seen = sequences[index] + written[index]
                finished[index] = token in self._stops
                if not finished[index]:
                    written[index].append(token)
                    if len(written[index]) < limits[index]:
                        keep.append(row)
                        continue
                self._pasts += _keep(seen, cache, row, mask[row].bool())
            if len(keep) < len(alive):
                rows = torch.tensor(keep, dtype=torch.long)
                alive = [alive[row] for row in keep]
                chosen, mask, positions = chosen[rows], mask[rows], positions[rows]
                if alive:
                    cache.batch_select_indices(rows)
            ids = chosen[:, None]
            mask = torch.cat([mask, torch.ones_like(ids)], dim=1)
            positions = positions[:, -1:] + 1

    def _ids(self, text: str) -> list[int]:
        ids: list[int] = self.tokenizer(text, add_special_tokens=False)["input_ids"]
        return ids


def _keep(ids: list[int], cache: Any, row: int, mask: torch.Tensor) -> list[_Past]:
    """The past of one row of a batch, without its padding; none for models whose cache drops old tokens."""
    if any(layer.keys.shape[-2] != mask.shape[0] for layer in cache.layers):
        return []
    return [_Past(ids, [(layer.keys[row][:, mask], layer.values[row][:, mask]) for layer in cache.layers])]


def _stack(pasts: Sequence[_Past | None]) -> tuple[DynamicCache | None, torch.Tensor]:
    """One cache for a batch, padded on the left, and its mask (batch, tokens)."""
    width = max(len(past.ids) if past else 0 for past in pasts)
    mask = torch.zeros((len(pasts), width), dtype=torch.long)
    known = [(row, past) for row, past in enumerate(pasts) if past]
    if not known:
        return None, mask
    cache = DynamicCache()
    for number, (key, value) in enumerate(known[0][1].layers):
        keys = key.new_zeros((len(pasts), key.shape[0], width, key.shape[2]))
        values = value.new_zeros((len(pasts), value.shape[0], width, value.shape[2]))
        for row, past in known:
            start = width - len(past.ids)
            keys[row, :, start:], values[row, :, start:] = past.layers[number]
            mask[row, start:] = 1
        cache.update(keys, values, number)
    return cache, mask


def _left_padded(rows: Sequence[Sequence[int]]) -> tuple[torch.Tensor, torch.Tensor]:
    """Ids and mask, both (batch, longest); the padding's value is never attended to."""
    width = max(map(len, rows))
    ids = torch.zeros((len(rows), width), dtype=torch.long)
    mask = torch.zeros((len(rows), width), dtype=torch.long)
    for row, tokens in enumerate(rows):
        ids[row, width - len(tokens) :] = torch.tensor(tokens)
        mask[row, width - len(tokens) :] = 1
    return ids, mask
