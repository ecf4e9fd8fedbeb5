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
from transformers.utils import logging as transformers_logging

from birdrl.agent.prompting import Messages
from birdrl.agent.templating import END, attach_template, observation_suffix
from birdrl.decoding import Decoder, Request, Sampled
from birdrl.decoding.attention import register
from birdrl.errors import InputError
from birdrl.evaluation.policy import Generation


class HfPolicy:
    """Greedy decoding in fp32 on the CPU, by the decoder of the training rollouts."""

    def __init__(self, folder: Path, threads: int, batch_limit: int = 64) -> None:
        if not (folder / "config.json").is_file():
            raise InputError(f"{folder}: not a model folder (no config.json)")
        torch.set_num_threads(threads)
        self.tokenizer: Any = AutoTokenizer.from_pretrained(folder)
        attach_template(self.tokenizer)
        transformers_logging.disable_progress_bar()  # it would break up the bar of the evaluation
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
        stops = frozenset({end, self.tokenizer.eos_token_id, *configured} - {None})
        self._decoder = Decoder(self.model, stops, batch_limit)

    def prompt(self, messages: Messages, tools: list[dict[str, Any]] | None) -> list[int]:
        text = self.tokenizer.apply_chat_template(messages, tools=tools, tokenize=False, add_generation_prompt=True)
        return self._ids(text)

    def continuation(self, observation: str) -> list[int]:
        return [self._end, *self._ids(observation_suffix(observation))]

    def submit(self, sequence: Sequence[int], limit: int) -> int:
        return self._decoder.submit(Request(tuple(sequence), limit, 0.0, 0))

    def advance(self) -> list[tuple[int, Generation]]:
        if self._decoder.idle:
            raise ValueError("no turn was asked for")
        return [(ticket, self._generation(sampled)) for ticket, sampled in self._decoder.step()]

    def _generation(self, sampled: Sampled) -> Generation:
        ids = sampled.token_ids[:-1] if sampled.stopped else sampled.token_ids
        return Generation(ids, self.tokenizer.decode(ids, skip_special_tokens=True), sampled.stopped)

    def _ids(self, text: str) -> list[int]:
        ids: list[int] = self.tokenizer(text, add_special_tokens=False)["input_ids"]
        return ids
