"""How a trajectory's messages become tokens: with birdrl's own chat template, or with the model's.

Token in, token out either way: what the policy sampled is never tokenised again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from birdrl.agent.templating import CHAT_TEMPLATE
from birdrl.training.tokens import Message, prompt_ids, suffix_ids


@dataclass
class Tokens:
    """Tokens of a trajectory under way; `response`, `mask` and `log_probs` are equally long."""

    prompt: list[int]
    response: list[int] = field(default_factory=list)
    mask: list[int] = field(default_factory=list)
    log_probs: list[float] = field(default_factory=list)

    def add_sampled(self, ids: list[int], log_probs: list[float]) -> None:
        self.response += ids
        self.mask += [1] * len(ids)
        self.log_probs += log_probs

    def add_given(self, ids: list[int]) -> None:
        self.response += ids
        self.mask += [0] * len(ids)
        self.log_probs += [0.0] * len(ids)


class Dialogue(Protocol):
    """`closes_turns`: whether a turn that was cut short can be closed from outside, so that the dialogue goes on."""

    closes_turns: bool

    def start(self, messages: Sequence[Message]) -> list[int]:
        """Ids of the first prompt, up to and including the start of the first assistant turn."""

    def observe(self, tokens: Tokens, messages: Sequence[Message], *, ended: bool) -> Tokens:
        """`tokens` with the last of `messages`, an observation, and the start of the next assistant turn.

        `ended`: the assistant turn before it has the tokenizer's end mark.
        """


class OwnTemplate:
    """birdrl's template: the very pieces that imitation trains on (birdrl.training.tokens)."""

    closes_turns = True

    def __init__(self, tokenizer: Any, tools: list[dict[str, Any]] | None) -> None:
        self._tokenizer = tokenizer
        self._tools = tools

    def start(self, messages: Sequence[Message]) -> list[int]:
        return prompt_ids(self._tokenizer, messages, self._tools)

    def observe(self, tokens: Tokens, messages: Sequence[Message], *, ended: bool) -> Tokens:
        given = suffix_ids(self._tokenizer, messages[-1]["content"])
        after = Tokens(tokens.prompt, list(tokens.response), list(tokens.mask), list(tokens.log_probs))
        after.add_given(given if ended else [self._tokenizer.eos_token_id, *given])
        return after


class ModelTemplate:
    """The model's own template, through the engine's token builder for its family."""

    closes_turns = False

    def __init__(self, builder: Any, tools: list[dict[str, Any]] | None) -> None:
        self._builder = builder
        self._tools = tools

    def start(self, messages: Sequence[Message]) -> list[int]:
        return list(self._builder.build_initial_tokens(list(messages), tools=self._tools))

    def observe(self, tokens: Tokens, messages: Sequence[Message], *, ended: bool) -> Tokens:
        merged = self._builder.merge_context_tokens(
            list(messages[:-1]), list(messages), tokens.prompt + tokens.response, tools=self._tools
        )
        mask, log_probs = self._builder.align_response_metadata(merged, tokens.mask, tokens.log_probs)
        return Tokens(tokens.prompt, list(merged.token_ids[len(tokens.prompt) :]), mask, log_probs)


def dialogue_for(tokenizer: Any, builder: Any, tools: list[dict[str, Any]] | None) -> Dialogue:
    """birdrl's template where the tokenizer has it, else the model's."""
    if tokenizer.chat_template == CHAT_TEMPLATE:
        return OwnTemplate(tokenizer, tools)
    return ModelTemplate(builder, tools)
