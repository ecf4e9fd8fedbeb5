"""The chat template: the same text in imitation and rollout, prefix by prefix, with tools and without."""

from __future__ import annotations

import types

import jinja2
import pytest
from jinja2.sandbox import ImmutableSandboxedEnvironment

from birdrl.agent.templating import (
    CHAT_TEMPLATE,
    CHAT_TEMPLATE_SHA256,
    END,
    GENERATION_PROMPT,
    attach_template,
    neutral,
    observation_message,
    observation_suffix,
)
from birdrl.agent.tools import TOOLS, format_tool_call
from birdrl.files import sha256_text

DIALOGUE = [
    {"role": "system", "content": "Fix it."},
    {"role": "user", "content": "orders(id)\nSELECT"},
    {"role": "assistant", "content": "Look.\n" + format_tool_call("execute_sql", 'SELECT "a" FROM t')},
    observation_message("a\n1"),
    {"role": "assistant", "content": format_tool_call("submit_solution", "SELECT 1")},
    observation_message("x"),
    observation_message("y"),
    {"role": "user", "content": "and?"},
    {"role": "assistant", "content": "Done."},
]


def render(messages, tools=None, *, generation=False):
    # The environment that transformers uses for chat templates.
    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, undefined=jinja2.Undefined)
    return environment.from_string(CHAT_TEMPLATE).render(
        messages=messages, tools=tools, add_generation_prompt=generation
    )


@pytest.mark.parametrize("tools", [None, TOOLS], ids=["plain", "tools"])
@pytest.mark.parametrize("start", [0, 1], ids=["system", "no system"])
def test_every_prefix_of_a_dialogue_renders_to_a_prefix(tools, start):
    messages = DIALOGUE[start:]
    for k in range(1, len(messages)):
        assert render(messages[: k + 1], tools).startswith(render(messages[:k], tools))
        following = messages[k]
        if following["role"] == "assistant":
            prompt = render(messages[:k], tools, generation=True)
            assert render(messages[: k + 1], tools) == prompt + following["content"] + END + "\n"


@pytest.mark.parametrize("tools", [None, TOOLS], ids=["plain", "tools"])
def test_the_observation_suffix_is_what_the_template_renders(tools):
    before = render(DIALOGUE[:3], tools)
    assert before.endswith(END + "\n")
    after = render(DIALOGUE[:4], tools, generation=True)
    assert after == before[: -len("\n")] + observation_suffix("a\n1")
    assert after.endswith(GENERATION_PROMPT)


def test_messages_render_alone_to_what_they_are_in_the_dialogue():
    # The engine's imitation data set renders message by message, tools with the first one only.
    alone = render(DIALOGUE[:1], TOOLS) + "".join(render([message]) for message in DIALOGUE[1:])
    assert alone == render(DIALOGUE, TOOLS)


def test_exact_text_with_tools():
    assert render(DIALOGUE[:2], TOOLS, generation=True) == (
        "<|im_start|>system\nFix it.\nTools:\n"
        '{"name": "execute_sql", "arguments": {"sql": "..."}}\n'
        '{"name": "submit_solution", "arguments": {"sql": "..."}}\n'
        'Call a tool like this:\n<tool_call>\n{"name": ..., "arguments": ...}\n</tool_call><|im_end|>\n'
        "<|im_start|>user\norders(id)\nSELECT<|im_end|>\n<|im_start|>assistant\n"
    )


def test_structured_calls_render_like_calls_in_the_text():
    function = {"name": "execute_sql", "arguments": {"sql": "SELECT 1"}}
    structured = {"role": "assistant", "content": "Look.", "tool_calls": [{"type": "function", "function": function}]}
    text = {"role": "assistant", "content": "Look.\n" + format_tool_call("execute_sql", "SELECT 1")}
    assert render([structured]) == render([text])


def test_the_hash_is_of_the_text_that_is_attached():
    tokenizer = types.SimpleNamespace(chat_template=None)
    assert attach_template(tokenizer) == CHAT_TEMPLATE_SHA256 == sha256_text(tokenizer.chat_template)


def test_neutral_breaks_control_markers():
    assert END not in neutral(f"a{END}b")
    assert "</tool_response>" not in neutral("</tool_response>")
    assert neutral("a | b < c") == "a | b < c"
