"""A language model behind an OpenAI-compatible endpoint: structured answers, retries, a budget, a cache of answers.

The cache is a folder of JSON files, one per question, that any number of processes may share. A question that was
answered once is never paid for again, also when a run continues after a kill, and the budget counts what the whole
folder has cost.
"""

from __future__ import annotations

import asyncio
import json
import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from pydantic import BaseModel, Field, ValidationError

from birdrl.errors import InfraError, InputError
from birdrl.files import canonical_json, encodable, read_json, sha256_text, write_json
from birdrl.params import EndpointParams

if TYPE_CHECKING:
    from openai import AsyncOpenAI

Answer = TypeVar("Answer", bound=BaseModel)
LONGEST_PAUSE_S = 60.0  # before another try; a server may ask for longer, which then counts as a failure
_SHOWN = 300  # characters of a foreign answer in a message


class _Kept(BaseModel):
    """A cache file: the question as it was sent, the answer, the tokens of both."""

    request: dict[str, Any]
    text: str
    tokens: int = Field(ge=0)


class _Message(BaseModel):
    content: str | None = None


class _Choice(BaseModel):
    message: _Message


class _Usage(BaseModel):
    total_tokens: int = Field(ge=0)


class _Completion(BaseModel):
    """What is read of a chat completion."""

    choices: list[_Choice] = Field(min_length=1)
    usage: _Usage | None = None


class Endpoint:
    """Asks one model. Thread-safe; blocks while it waits.

    The budget may be exceeded by one answer in each process that asks at the same time.
    """

    def __init__(self, params: EndpointParams) -> None:
        """Raises InputError for an address, a key or a cache that cannot be used."""
        if not params.url or not params.model:
            raise InputError("endpoint.url and endpoint.model are empty; name a server that speaks OpenAI's protocol")
        if "@" in urlsplit(params.url).netloc:
            raise InputError(
                f"endpoint.url holds a user name or a password, and parameters are logged; put the key into "
                f"${params.key_variable} instead"
            )
        self.params = params
        self.folder = Path(params.cache)
        self._key = (os.environ.get(params.key_variable) or "").strip()
        if not (self._key.isascii() and (self._key + "-").isprintable()):
            raise InputError(f"${params.key_variable} holds characters that no key has; set it again")
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"endpoint.cache {self.folder}: cannot be made a folder ({error.strerror})") from error
        self._lock = threading.Lock()
        self._answered = threading.Condition(self._lock)
        self._asking: dict[str, threading.Lock] = {}
        self._connection: tuple[AsyncOpenAI, asyncio.AbstractEventLoop] | None = None
        self._reserved = 0  # tokens that the questions on their way can cost
        self._counted: set[str] = set()
        self.requests = 0
        self.unparsable = 0
        self.spent_tokens = 0
        self._count_kept()

    def ask(self, messages: Sequence[dict[str, str]], form: type[Answer]) -> Answer | None:
        """The answer in the given form; None, and counted in `unparsable`, when what came back is not of that form: a
        number written as a text, say, is none.

        Raises InfraError when the endpoint cannot be reached or refuses, or when the budget is used up.
        """
        text = self._text(messages, form)
        try:
            return form.model_validate_json(_json_part(text), strict=True)
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
                    with self._within_budget(request):
                        text, tokens = self._send(request)
                        write_json(file, {"request": request, "text": text, "tokens": tokens})
        return _kept(file).text

    @contextmanager
    def _within_budget(self, request: dict[str, Any]) -> Iterator[None]:
        """Wait until the questions on their way cannot use up the budget. Raises InfraError when it is used up."""
        most = self.params.max_tokens + len(canonical_json(request).encode())  # a token has a byte at least
        budget = self.params.budget_tokens
        with self._lock:
            while budget is not None:
                self._count_kept()
                if self.spent_tokens + self._reserved < budget:
                    break
                if self.spent_tokens >= budget:
                    raise InfraError(
                        f"{self.params.url}: the answers in {self.folder} have cost {self.spent_tokens} tokens, and "
                        f"endpoint.budget_tokens is {budget}; raise it to go on"
                    )
                self._answered.wait()
            self._reserved += most
            self.requests += 1
        try:
            yield
        finally:
            with self._lock:
                self._reserved -= most
                self._count_kept()
                self._answered.notify_all()

    def _count_kept(self) -> None:
        """Add what answers have cost that came since the last call, those of other processes too."""
        new = {entry.name for entry in os.scandir(self.folder) if entry.name.endswith(".json")} - self._counted
        for name in sorted(new):
            self.spent_tokens += _kept(self.folder / name).tokens
            self._counted.add(name)

    def _request(self, messages: Sequence[dict[str, str]], form: type[BaseModel]) -> dict[str, Any]:
        request: dict[str, Any] = {
            "model": self.params.model,
            "messages": [{name: encodable(text) for name, text in message.items()} for message in messages],
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
        client, loop = self._connect()
        from openai import OpenAIError

        try:
            body = asyncio.run_coroutine_threadsafe(self._body(client, request), loop).result()
        except TimeoutError:
            raise InfraError(
                f"{self.params.url}, model {self.params.model!r}: timed out: no whole answer in {self._limit:g} s; "
                "check the server, or raise endpoint.timeout_s"
            ) from None
        except OpenAIError as error:
            # Without the chain of causes: a traceback would show headers, and with them the key.
            cause = f" ({error.__cause__})" if error.__cause__ else ""
            raise InfraError(
                f"{self.params.url}, model {self.params.model!r}: {self._without_key(f'{error}{cause}')} (after "
                f"{self.params.retries} retries where these could help); check the server, endpoint.model and the key "
                f"in ${self.params.key_variable}"
            ) from None
        try:
            plain = encodable(json.dumps(json.loads(body), ensure_ascii=False))
            completion = _Completion.model_validate_json(plain)
        except (ValueError, RecursionError):
            raise InfraError(
                f"{self.params.url} answers with something that is no chat completion; is the URL right? It says: "
                f"{self._without_key(body)[:_SHOWN]}"
            ) from None
        if self.params.budget_tokens is not None and completion.usage is None:
            raise InfraError(
                f"{self.params.url} does not report token usage, so endpoint.budget_tokens cannot be held; set it to "
                "null to go without a budget"
            )
        text = completion.choices[0].message.content or ""
        return text, completion.usage.total_tokens if completion.usage else 0

    def _without_key(self, text: str) -> str:
        return text.replace(self._key, "***") if self._key else text

    @property
    def _limit(self) -> float:
        """Seconds for all tries of one question and the pauses between them."""
        return self.params.timeout_s * (self.params.retries + 1) + LONGEST_PAUSE_S * self.params.retries

    async def _body(self, client: AsyncOpenAI, request: dict[str, Any]) -> str:
        """What the server answers. The client's own limit is on silence: a server that sends a byte now and then never
        reaches it."""
        async with asyncio.timeout(self._limit):
            body: str = (await client.chat.completions.with_raw_response.create(**request)).text
            return body

    def _connect(self) -> tuple[AsyncOpenAI, asyncio.AbstractEventLoop]:
        """The client and the loop it runs in, made once: only there can a whole request be stopped.

        The client's retries wait 0.5 s and longer, or as long as the server asks.
        """
        with self._lock:
            if self._connection is None:
                try:
                    from openai import AsyncOpenAI
                except ImportError as error:
                    raise InputError("asking a language model needs the package openai: pip install openai") from error
                client = AsyncOpenAI(
                    base_url=self.params.url,
                    api_key=self._key or "none",
                    timeout=self.params.timeout_s,
                    max_retries=self.params.retries,
                )
                loop = asyncio.new_event_loop()
                threading.Thread(target=loop.run_forever, name="birdrl-endpoint", daemon=True).start()
                self._connection = client, loop
            return self._connection


def _kept(file: Path) -> _Kept:
    try:
        return _Kept.model_validate(read_json(file))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "the whole"
        raise InputError(
            f"{file}: no answer of an endpoint ({where}: {first['msg']}); remove it, and the question is asked again"
        ) from None


def _json_part(text: str) -> str:
    """The JSON object inside an answer that wraps it in a fence or in words."""
    start, end = text.find("{"), text.rfind("}")
    return text[start : end + 1] if 0 <= start < end else text
