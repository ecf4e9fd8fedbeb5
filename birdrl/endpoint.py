"""A language model behind an OpenAI-compatible endpoint: structured answers, retries, a budget, a cache of answers.

The cache is a folder of JSON files, one per question, that any number of processes may share. A question that was
answered once is never paid for again, also when a run continues after a kill, and the budget counts what the whole
folder has cost.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import BaseModel, ValidationError

from birdrl.errors import InfraError, InputError
from birdrl.files import canonical_json, read_json, sha256_text, write_json
from birdrl.params import EndpointParams

if TYPE_CHECKING:
    from openai import OpenAI

Answer = TypeVar("Answer", bound=BaseModel)


class Endpoint:
    """Asks one model. Thread-safe; blocks while it waits."""

    def __init__(self, params: EndpointParams) -> None:
        if not params.url or not params.model:
            raise InputError("endpoint.url and endpoint.model are empty; name a server that speaks OpenAI's protocol")
        self.params = params
        self.folder = Path(params.cache)
        self._lock = threading.Lock()
        self._asking: dict[str, threading.Lock] = {}
        self._client: OpenAI | None = None
        self.requests = 0
        self.unparsable = 0
        self.spent_tokens = sum(int(read_json(file)["tokens"]) for file in sorted(self.folder.glob("*.json")))

    def ask(self, messages: Sequence[dict[str, str]], form: type[Answer]) -> Answer | None:
        """The answer in the given form; None, and counted in `unparsable`, when what came back is not of that form.

        Raises InfraError when the endpoint cannot be reached or refuses, or when the budget is used up.
        """
        text = self._text(messages, form)
        try:
            return form.model_validate_json(_json_part(text))
        except ValidationError:
            with self._lock:
                self.unparsable += 1
            return None

    def _text(self, messages: Sequence[dict[str, str]], form: type[BaseModel]) -> str:
        request = self._request(messages, form)
        key = sha256_text(canonical_json(request))
        file = self.folder / f"{key}.json"
        if not file.is_file():
            with self._lock:
                mine = self._asking.setdefault(key, threading.Lock())
            with mine:  # the same question of two threads is asked once
                if not file.is_file():
                    text, tokens = self._send(request)
                    write_json(file, {"request": request, "text": text, "tokens": tokens})
                    with self._lock:
                        self.spent_tokens += tokens
        return str(read_json(file)["text"])

    def _request(self, messages: Sequence[dict[str, str]], form: type[BaseModel]) -> dict[str, Any]:
        request: dict[str, Any] = {
            "model": self.params.model,
            "messages": list(messages),
            "temperature": self.params.temperature,
            "max_tokens": self.params.max_tokens,
        }
        if self.params.structured == "json_schema":
            schema = {"name": form.__name__, "schema": form.model_json_schema(), "strict": True}
            request["response_format"] = {"type": "json_schema", "json_schema": schema}
        elif self.params.structured == "json_object":
            request["response_format"] = {"type": "json_object"}
        return request

    def _send(self, request: dict[str, Any]) -> tuple[str, int]:
        """(answer, tokens of question and answer)"""
        budget = self.params.budget_tokens
        with self._lock:
            if budget is not None and self.spent_tokens >= budget:
                raise InfraError(
                    f"{self.params.url}: the answers in {self.folder} have cost {self.spent_tokens} tokens, and "
                    f"endpoint.budget_tokens is {budget}; raise it to go on"
                )
            self.requests += 1
        client = self._connect()
        from openai import OpenAIError
        from openai.types.chat import ChatCompletion

        try:
            completion = client.chat.completions.create(**request)
        except OpenAIError as error:
            raise InfraError(
                f"{self.params.url}, model {self.params.model!r}: {error} (after {self.params.retries} retries where "
                f"these could help); check the server, endpoint.model and the key in ${self.params.key_variable}"
            ) from error
        if not isinstance(completion, ChatCompletion):
            raise InfraError(f"{self.params.url} answers with something that is no chat completion; is the URL right?")
        if budget is not None and completion.usage is None:
            raise InfraError(
                f"{self.params.url} does not report token usage, so endpoint.budget_tokens cannot be held; set it to "
                "null to go without a budget"
            )
        text = completion.choices[0].message.content if completion.choices else None
        return text or "", completion.usage.total_tokens if completion.usage else 0

    def _connect(self) -> OpenAI:
        """The client, made once; its retries wait 0.5 s and longer, or as long as the server asks."""
        with self._lock:
            if self._client is None:
                try:
                    from openai import OpenAI
                except ImportError as error:
                    raise InputError("asking a language model needs the package openai: pip install openai") from error
                self._client = OpenAI(
                    base_url=self.params.url,
                    api_key=os.environ.get(self.params.key_variable) or "none",
                    timeout=self.params.timeout_s,
                    max_retries=self.params.retries,
                )
            return self._client


def _json_part(text: str) -> str:
    """The JSON object inside an answer that wraps it in a fence or in words."""
    start, end = text.find("{"), text.rfind("}")
    return text[start : end + 1] if 0 <= start < end else text
