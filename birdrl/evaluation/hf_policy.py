"""A model folder in Hugging Face form as a greedy policy on this machine.

Padding is done here, by hand: asking a tokenizer for it leaves padding switched on in its shared backend, which
has ruined trainings that used the tokenizer later.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from birdrl.agent.prompting import Messages
from birdrl.agent.templating import END, attach_template, observation_suffix
from birdrl.errors import InputError
from birdrl.evaluation.policy import Generation


class HfPolicy:
    """Greedy decoding in fp32 on the CPU. Sequences that have ended leave the batch, so one that babbles on does
    not hold up the others' share of the work."""

    def __init__(self, folder: Path, threads: int) -> None:
        if not (folder / "config.json").is_file():
            raise InputError(f"{folder}: not a model folder (no config.json)")
        torch.set_num_threads(threads)
        self.tokenizer: Any = AutoTokenizer.from_pretrained(folder)
        attach_template(self.tokenizer)
        # from_pretrained leaves the model in evaluation mode
        self.model: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
        end = self.tokenizer.convert_tokens_to_ids(END)
        if not isinstance(end, int) or end == self.tokenizer.unk_token_id:
            raise InputError(f"{folder}: its tokenizer has no token {END}, which the chat template needs")
        self._end = end
        configured = self.model.generation_config.eos_token_id
        configured = configured if isinstance(configured, list) else [configured]
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
            self._decode(sequences, limits, alive, written, finished)
        texts = [self.tokenizer.decode(ids, skip_special_tokens=True) for ids in written]
        return [Generation(ids, text, done) for ids, text, done in zip(written, texts, finished, strict=True)]

    def _decode(
        self,
        sequences: Sequence[Sequence[int]],
        limits: Sequence[int],
        alive: list[int],
        written: list[list[int]],
        finished: list[bool],
    ) -> None:
        width = max(len(sequences[index]) for index in alive)
        ids = torch.zeros((len(alive), width), dtype=torch.long)  # the padding's value is never attended to
        mask = torch.zeros((len(alive), width), dtype=torch.long)
        for row, index in enumerate(alive):
            ids[row, width - len(sequences[index]) :] = torch.tensor(sequences[index])
            mask[row, width - len(sequences[index]) :] = 1
        positions = (mask.cumsum(-1) - 1).clamp(min=0)
        cache = None
        while alive:
            out = self.model(
                input_ids=ids, attention_mask=mask, position_ids=positions, past_key_values=cache, use_cache=True,
                logits_to_keep=1,
            )  # fmt: skip
            cache, chosen = out.past_key_values, out.logits[:, -1].argmax(-1)
            keep = []
            for row, (index, token) in enumerate(zip(alive, chosen.tolist(), strict=True)):
                if token in self._stops:
                    finished[index] = True
                    continue
                written[index].append(token)
                if len(written[index]) < limits[index]:
                    keep.append(row)
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
