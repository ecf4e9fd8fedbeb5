"""The one chat template, used alike by imitation, rollouts and evaluation.

Prompts of imitation and of rollouts must be equal to the token: a policy imitated without the tools in view
answers garbage when the rollout shows them. So the template is a file with a hash that runs record, and the
text around an observation, which rollouts append without rendering the whole dialogue again, is defined here
and tested against the template.
"""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from birdrl.files import sha256_text

END = "<|im_end|>"
GENERATION_PROMPT = "<|im_start|>assistant\n"

CHAT_TEMPLATE: str = Path(__file__).with_name("chat_template.jinja").read_text(encoding="utf-8").rstrip("\n")
CHAT_TEMPLATE_SHA256: str = sha256_text(CHAT_TEMPLATE)


class HasChatTemplate(Protocol):
    chat_template: str | None


def attach_template(tokenizer: HasChatTemplate) -> str:
    """Set the template on a tokenizer; returns its SHA-256, to be recorded with the run."""
    tokenizer.chat_template = CHAT_TEMPLATE
    return CHAT_TEMPLATE_SHA256


def neutral(text: str) -> str:
    """Text from outside (database values, issue texts) with the template's control markers broken.

    A stored value such as `<|im_end|>` would otherwise end the turn, and `</tool_response>` the observation.
    """
    return text.replace("<|", "< |").replace("<tool_", "< tool_").replace("</tool_", "</ tool_")


def observation_message(observation: str) -> dict[str, str]:
    """What the environment answers to all tool calls of one turn, as one message."""
    return {"role": "tool", "content": observation}


def observation_suffix(observation: str) -> str:
    """The exact text between the `<|im_end|>` of an assistant turn and the start of its next turn."""
    return f"\n<|im_start|>user\n<tool_response>\n{observation}\n</tool_response>{END}\n{GENERATION_PROMPT}"
