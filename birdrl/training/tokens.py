"""Dialogues as tokens: the one place where imitation and rollouts turn text into ids.

A trajectory is tokenised in pieces, exactly as a rollout produces it: the first prompt, then alternating what the
policy samples (its text and the end mark) and what the environment appends. So an imitated token sequence is one
that the rollout could have sampled, and masks follow from the pieces.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from birdrl.agent.templating import observation_suffix

Message = dict[str, str]


def prompt_ids(tokenizer: Any, messages: Sequence[Message], tools: Sequence[dict[str, Any]] | None) -> list[int]:
    """Ids of the first prompt, up to and including the start of the first assistant turn."""
    text = tokenizer.apply_chat_template(
        list(messages), tools=list(tools) if tools else None, add_generation_prompt=True, tokenize=False
    )
    return list(tokenizer.encode(text, add_special_tokens=False))


def turn_ids(tokenizer: Any, text: str) -> list[int]:
    """Ids of an assistant turn as the policy would sample it: its text, then the end mark."""
    return [*tokenizer.encode(text, add_special_tokens=False), tokenizer.eos_token_id]


def suffix_ids(tokenizer: Any, observation: str) -> list[int]:
    """Ids between the end mark of an assistant turn and the start of its next turn."""
    return list(tokenizer.encode(observation_suffix(observation), add_special_tokens=False))


def dialogue_ids(
    tokenizer: Any, messages: Sequence[Message], tools: Sequence[dict[str, Any]] | None
) -> tuple[list[int], list[int]]:
    """(input_ids, loss_mask), equally long; the mask is 1 exactly on the tokens of assistant turns.

    Raises ValueError unless the messages are a prompt followed by assistant turns with one tool message between
    any two of them.
    """
    first = next((i for i, message in enumerate(messages) if message["role"] == "assistant"), len(messages))
    turns = messages[first:]
    roles = [message["role"] for message in turns]
    if not turns or roles != ["assistant" if i % 2 == 0 else "tool" for i in range(len(turns))] or len(turns) % 2 == 0:
        raise ValueError(f"after the prompt, roles must alternate assistant, tool, ..., assistant; got {roles}")
    ids = prompt_ids(tokenizer, messages[:first], tools)
    mask = [0] * len(ids)
    for message in turns:
        sampled = message["role"] == "assistant"
        piece = turn_ids(tokenizer, message["content"]) if sampled else suffix_ids(tokenizer, message["content"])
        ids += piece
        mask += [int(sampled)] * len(piece)
    return ids, mask
