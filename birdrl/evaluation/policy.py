"""What evaluation needs of a policy: token ids in, token ids out.

Tokens, not texts, pass between the turns: a trajectory is the tokens that the policy produced, as in training
rollouts, and is never tokenised a second time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from birdrl.agent.prompting import Messages


@dataclass(frozen=True)
class Generation:
    """One assistant turn, without the end-of-turn token; `finished` is False when the token limit cut it."""

    ids: list[int]
    text: str
    finished: bool


class Policy(Protocol):
    """A model that continues token sequences."""

    def prompt(self, messages: Messages, tools: list[dict[str, Any]] | None) -> list[int]:
        """Ids of a dialogue's beginning, up to and including the start of the assistant's turn."""
        ...

    def continuation(self, observation: str) -> list[int]:
        """Ids from the end of an assistant turn (its end token included) to the start of the next one."""
        ...

    def submit(self, sequence: Sequence[int], limit: int) -> int:
        """Ask for one assistant turn of at most `limit` tokens; `advance` reports it under the number returned."""
        ...

    def advance(self) -> list[tuple[int, Generation]]:
        """Take every turn asked for one step further; the turns that ended with it, perhaps none.

        Raises ValueError when none was asked for.
        """
        ...
