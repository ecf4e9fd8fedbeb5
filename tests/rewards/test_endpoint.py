"""The chat endpoint against a real local server: forms, retries, budget, cache."""

from __future__ import annotations

import asyncio
import json
import time
import traceback
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from chat_server import ChatServer, Reply, ServerFactory

from birdrl.endpoint import Endpoint
from birdrl.errors import InfraError, InputError
from birdrl.params import EndpointParams
from birdrl.rewards.judge import Grades

pytest.importorskip("openai")
QUESTION = [{"role": "user", "content": "Grade this."}]
GRADES = json.dumps({"trajectory": 3, "solution": 6, "reason": "close"})


@pytest.fixture
def serve() -> Iterator[ServerFactory]:
    with ExitStack() as stack:
        yield lambda *script, **more: stack.enter_context(ChatServer(*script, **more))


def endpoint(server: ChatServer, folder: Path, **values: Any) -> Endpoint:
    given = {"url": server.url, "model": "judge-1", "cache": str(folder / "cache"), "retries": 2, "timeout_s": 5.0}
    return Endpoint(EndpointParams.model_validate(given | values))


def test_a_structured_answer(serve: ServerFactory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JUDGE_KEY", "secret")
    server = serve(GRADES)
    asked = endpoint(server, tmp_path, key_variable="JUDGE_KEY")
    assert asked.ask(QUESTION, Grades) == Grades(trajectory=3, solution=6, reason="close")
    sent = server.requests[0]
    assert (sent["model"], sent["temperature"], sent["messages"]) == ("judge-1", 0.0, QUESTION)
    schema = sent["response_format"]["json_schema"]
    assert schema["strict"]
    assert schema["schema"]["additionalProperties"] is False
    assert sorted(schema["schema"]["required"]) == ["reason", "solution", "trajectory"]
    assert server.headers[0]["authorization"] == "Bearer secret"
    assert (asked.requests, asked.spent_tokens, asked.unparsable) == (1, 10, 0)


@pytest.mark.parametrize(("structured", "sent"), [("json_object", {"type": "json_object"}), ("text", None)])
def test_endpoints_without_schemas(serve: ServerFactory, tmp_path: Path, structured: str, sent: Any) -> None:
    server = serve(f"Here you are:\n```json\n{GRADES}\n```")
    assert endpoint(server, tmp_path, structured=structured).ask(QUESTION, Grades) is not None
    assert server.requests[0].get("response_format") == sent


@pytest.mark.parametrize(
    "text",
    [
        "", None, "I give it full marks.", "{", "[]", "{}", '{"trajectory": 5, "solution": 10}',
        '{"trajectory": 6, "solution": 1, "reason": ""}', '{"trajectory": 1, "solution": -1, "reason": ""}',
        '{"trajectory": "five", "solution": 1, "reason": ""}', '{"trajectory": NaN, "solution": 1, "reason": ""}',
        '{"trajectory": 1, "solution": 1, "reason": "", "bonus": 9}',
        '{"trajectory": 5, "solution": "9", "reason": ""}', '{"trajectory": true, "solution": 9, "reason": ""}',
        '{"trajectory": 5, "solution": [9], "reason": ""}', '{"trajectory": 5, "solution": null, "reason": ""}',
        '{"trajectory": 5, "solution": 9, "reason": 1}',
    ],
)  # fmt: skip
def test_an_unusable_answer_is_none_and_counted(serve: ServerFactory, tmp_path: Path, text: str | None) -> None:
    asked = endpoint(serve(text), tmp_path)
    assert asked.ask(QUESTION, Grades) is None
    assert asked.unparsable == 1
    assert asked.spent_tokens == 10


def test_a_question_is_paid_for_once(serve: ServerFactory, tmp_path: Path) -> None:
    server = serve(GRADES)
    first = endpoint(server, tmp_path)
    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(lambda _: first.ask(QUESTION, Grades), range(16)))
    assert answers == [Grades(trajectory=3, solution=6, reason="close")] * 16
    later = endpoint(server, tmp_path)  # another process, or the same run continued
    assert later.ask(QUESTION, Grades) == answers[0]
    assert len(server.requests) == 1
    assert later.spent_tokens == 10
    assert later.ask([{"role": "user", "content": "Another."}], Grades) is not None
    assert endpoint(server, tmp_path, temperature=0.5).ask(QUESTION, Grades) is not None
    assert len(server.requests) == 3


@pytest.mark.parametrize("failures", [[500], [503, 500], [429], [408, 429]])
def test_a_passing_failure_is_tried_again(serve: ServerFactory, tmp_path: Path, failures: list[Reply]) -> None:
    server = serve(*failures, GRADES)
    assert endpoint(server, tmp_path).ask(QUESTION, Grades) is not None
    assert len(server.requests) == len(failures) + 1


@pytest.mark.parametrize(
    ("reply", "tries"),
    [
        (500, 3), (401, 1), (400, 1), (404, 1), ((200, "<html>a login page</html>"), 1),
        ((200, '{"error": {"message": "overloaded", "code": 503}}'), 1),
        ((200, '{"choices": [], "usage": {"total_tokens": 5}}'), 1),
        ((200, '{"choices": [{"message": null}], "usage": {"total_tokens": 5}}'), 1),
        ((200, '{"choices": [{"message": {"content": "{}"}}], "usage": {"total_tokens": -5}}'), 1),
        ((200, '{"choices": [{"mess'), 1),
    ],
)  # fmt: skip
def test_a_lasting_failure_is_infra_and_leaves_no_answer(
    serve: ServerFactory, tmp_path: Path, reply: Reply, tries: int
) -> None:
    server = serve(reply)
    with pytest.raises(InfraError, match=r"127.0.0.1:\d+/v1"):
        endpoint(server, tmp_path).ask(QUESTION, Grades)
    assert len(server.requests) == tries
    assert not list(tmp_path.rglob("*.json"))


def test_a_server_that_hangs_or_is_gone_is_infra(serve: ServerFactory, tmp_path: Path) -> None:
    server = serve(1.0)
    with pytest.raises(InfraError, match="timed out"):
        endpoint(server, tmp_path, timeout_s=0.1, retries=0).ask(QUESTION, Grades)
    gone = endpoint(server, tmp_path, url="http://127.0.0.1:1/v1", retries=0)
    with pytest.raises(InfraError, match="check the server"):
        gone.ask(QUESTION, Grades)


@pytest.mark.parametrize("slow_from", ["head", "content"])
def test_a_server_that_sends_a_byte_now_and_then_is_infra(serve: ServerFactory, tmp_path: Path, slow_from: str) -> None:
    """It is never silent for as long as `timeout_s`, and would take ten seconds for its answer."""
    server = serve(GRADES + " " * 1_000, pause=0.01, from_byte=slow_from)
    start = time.monotonic()
    with pytest.raises(InfraError, match=r"timed out: no whole answer in 0\.3 s"):
        endpoint(server, tmp_path, timeout_s=0.3, retries=0).ask(QUESTION, Grades)
    assert time.monotonic() - start < 5
    assert not list(tmp_path.rglob("*.json"))


def test_a_slow_answer_in_time_counts(serve: ServerFactory, tmp_path: Path) -> None:
    server = serve(GRADES, pause=0.001)
    assert endpoint(server, tmp_path).ask(QUESTION, Grades) is not None


def test_it_may_be_asked_where_an_event_loop_runs(serve: ServerFactory, tmp_path: Path) -> None:
    """As in a notebook."""

    async def cell() -> Grades | None:
        return endpoint(serve(GRADES), tmp_path).ask(QUESTION, Grades)

    assert asyncio.run(cell()) is not None


def test_the_budget_ends_the_questions_not_the_known_answers(serve: ServerFactory, tmp_path: Path) -> None:
    server = serve(GRADES, usage=60)
    asked = endpoint(server, tmp_path, budget_tokens=100)
    questions = [[{"role": "user", "content": str(number)}] for number in range(3)]
    for question in questions[:2]:
        assert asked.ask(question, Grades) is not None
    with pytest.raises(InfraError, match=r"have cost 120 tokens, and endpoint.budget_tokens is 100"):
        asked.ask(questions[2], Grades)
    assert asked.ask(questions[0], Grades) is not None
    again = endpoint(server, tmp_path, budget_tokens=100)
    with pytest.raises(InfraError, match="raise it to go on"):
        again.ask(questions[2], Grades)
    assert len(server.requests) == 2


def test_the_budget_holds_for_threads_and_for_others_on_the_same_folder(serve: ServerFactory, tmp_path: Path) -> None:
    server = serve(0.05, usage=100)
    sides = [endpoint(server, tmp_path, budget_tokens=500) for _ in range(2)]

    def ask(number: int) -> bool:
        try:
            sides[number % 2].ask([{"role": "user", "content": str(number)}], Grades)
        except InfraError:
            return False
        return True

    with ThreadPoolExecutor(12) as threads:
        answered = sum(threads.map(ask, range(24)))
    assert 5 <= answered == len(server.requests) <= 6, "each side may exceed it by the answer on its way"
    assert not endpoint(server, tmp_path, budget_tokens=500).spent_tokens < 500


def test_the_key_is_in_no_message_and_no_file(
    serve: ServerFactory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret\n")  # as a file read whole gives it
    server = serve((401, json.dumps({"error": {"message": "Incorrect API key: sk-secret"}})), GRADES)
    asked = endpoint(server, tmp_path)
    with pytest.raises(InfraError, match=r"Incorrect API key: \*\*\*") as caught:
        asked.ask(QUESTION, Grades)
    assert "sk-secret" not in "".join(traceback.format_exception(caught.value))
    assert asked.ask(QUESTION, Grades) is not None
    assert server.headers[-1]["authorization"] == "Bearer sk-secret"
    assert all("sk-secret" not in file.read_text() for file in tmp_path.rglob("*.json"))
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secr\u00e9t")
    with pytest.raises(InputError, match=r"\$OPENAI_API_KEY holds characters") as refused:
        endpoint(server, tmp_path)
    assert "sk-" not in str(refused.value)
    with pytest.raises(InputError, match="user name or a password") as refused:
        endpoint(server, tmp_path, url="http://me:hidden@127.0.0.1:1/v1")
    assert "hidden" not in str(refused.value)


@pytest.mark.parametrize("content", ["{}", "[]", '{"tex', "", '{"request": {}, "text": 5, "tokens": 1}'])
def test_a_broken_file_of_the_cache_is_named(serve: ServerFactory, tmp_path: Path, content: str) -> None:
    server = serve(GRADES)
    asked = endpoint(server, tmp_path)
    asked.ask(QUESTION, Grades)
    [file] = tmp_path.rglob("*.json")
    file.write_text(content)
    with pytest.raises(InputError, match=file.name):
        asked.ask(QUESTION, Grades)
    with pytest.raises(InputError, match=file.name):
        endpoint(server, tmp_path)


def test_a_cache_that_cannot_be_is_named(serve: ServerFactory, tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file")
    with pytest.raises(InputError, match=r"endpoint.cache .*/cache: cannot be made a folder"):
        endpoint(serve(GRADES), tmp_path)


def test_processes_that_ask_the_same_at_once_agree(serve: ServerFactory, tmp_path: Path) -> None:
    server = serve(GRADES)
    for number in range(5):
        question = [{"role": "user", "content": str(number)}]
        sides = [endpoint(server, tmp_path) for _ in range(8)]
        with ThreadPoolExecutor(8) as threads:
            answers = list(threads.map(lambda side, asked=question: side.ask(asked, Grades), sides))
        assert set(answers) == {Grades(trajectory=3, solution=6, reason="close")}


def test_half_characters_stop_nothing(serve: ServerFactory, tmp_path: Path) -> None:
    half = [{"role": "user", "content": "\ud800"}]
    reply = json.dumps({"trajectory": 3, "solution": 6, "reason": "\ud800"}, ensure_ascii=False)
    assert endpoint(serve(reply), tmp_path).ask(half, Grades) == Grades(trajectory=3, solution=6, reason="?")


def test_a_budget_needs_a_server_that_counts(serve: ServerFactory, tmp_path: Path) -> None:
    server = serve(GRADES, usage=None)
    with pytest.raises(InfraError, match="does not report token usage"):
        endpoint(server, tmp_path).ask(QUESTION, Grades)
    assert endpoint(server, tmp_path, budget_tokens=None).ask(QUESTION, Grades) is not None


def test_no_endpoint_named() -> None:
    with pytest.raises(InputError, match=r"endpoint.url and endpoint.model are empty"):
        Endpoint(EndpointParams.model_validate({}))
