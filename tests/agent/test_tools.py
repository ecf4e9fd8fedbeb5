"""Tool calls come from the assistant's own text, in Hermes form, and nothing a policy writes raises."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from birdrl.agent.tools import EXECUTE, SUBMIT, TOOLS, MalformedCall, ToolCall, format_tool_call, parse_tool_calls


def call(body: str) -> str:
    return f"<tool_call>\n{body}\n</tool_call>"


def test_reads_a_call_after_a_thought():
    text = "The bound is wrong.\n" + call('{"name": "execute_sql", "arguments": {"sql": "SELECT 1"}}')
    assert parse_tool_calls(text) == [ToolCall(EXECUTE, "SELECT 1")]


def test_reads_several_calls_in_order_and_keeps_the_bad_one_between():
    text = format_tool_call(EXECUTE, "SELECT 1") + call("{oops") + format_tool_call(SUBMIT, "SELECT 2")
    first, second, third = parse_tool_calls(text)
    assert (first, third) == (ToolCall(EXECUTE, "SELECT 1"), ToolCall(SUBMIT, "SELECT 2"))
    assert isinstance(second, MalformedCall)
    assert "not valid JSON" in second.reason


def test_no_call_is_an_empty_list():
    assert parse_tool_calls('plain text with {"name": "execute_sql"}') == []


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("", "not valid JSON"),
        ("{'name': 'execute_sql'}", "not valid JSON"),
        ("[" * 100_000, "not valid JSON"),
        ("1" * 5000, "not valid JSON"),
        ('["execute_sql"]', 'needs "name" and "arguments"'),
        ('{"name": "execute_sql"}', 'needs "name" and "arguments"'),
        ('{"name": 3, "arguments": {}}', 'needs "name" and "arguments"'),
        ('{"name": "drop_all", "arguments": {"sql": "x"}}', "there is no tool 'drop_all'"),
        ('{"name": "execute_sql", "arguments": {"query": "SELECT 1"}}', 'needs the argument "sql"'),
        ('{"name": "execute_sql", "arguments": {"sql": ["SELECT 1"]}}', 'needs the argument "sql"'),
        ('{"name": "submit_solution", "arguments": {"sql": "  \\n"}}', "submit_solution got empty SQL"),
        ('{"name": "execute_sql", "arguments": {"sql": "SELECT \\ud800"}}', "not text"),
        ('{"name": "execute_sql", "arguments": {"sql": "SELECT \\u0000"}}', "not text"),
    ],
)
def test_a_bad_call_says_what_is_wrong(body: str, reason: str):
    (bad,) = parse_tool_calls(call(body))
    assert isinstance(bad, MalformedCall)
    assert reason in bad.reason


def test_a_call_that_is_not_closed_is_not_run():
    text = '<tool_call>\n{"name": "submit_solution", "arguments": {"sql": "SELECT 1"}}'
    (bad,) = parse_tool_calls(text)
    assert isinstance(bad, MalformedCall)
    assert "</tool_call>" in bad.reason
    first, second = parse_tool_calls(text + format_tool_call(EXECUTE, "SELECT 2"))
    assert isinstance(first, MalformedCall)
    assert second == ToolCall(EXECUTE, "SELECT 2")


def test_raw_line_breaks_and_arguments_as_text_are_accepted():
    assert parse_tool_calls(call('{"name": "execute_sql", "arguments": {"sql": "SELECT 1\nFROM t"}}')) == [
        ToolCall(EXECUTE, "SELECT 1\nFROM t")
    ]
    body = json.dumps({"name": SUBMIT, "arguments": json.dumps({"sql": "SELECT 1"})})
    assert parse_tool_calls(call(body)) == [ToolCall(SUBMIT, "SELECT 1")]


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1))
def test_what_is_formatted_is_parsed_back(sql: str):
    if sql.strip() and "tool_call>" not in sql:
        assert parse_tool_calls(format_tool_call(EXECUTE, sql)) == [ToolCall(EXECUTE, sql)]


@given(st.text())
def test_parsing_never_raises(text: str):
    for parsed in parse_tool_calls(f"<tool_call>{text}</tool_call>"):
        assert isinstance(parsed, ToolCall | MalformedCall)


def test_the_schemas_name_both_tools_with_one_sql_argument():
    assert [tool["function"]["name"] for tool in TOOLS] == [EXECUTE, SUBMIT]
    for tool in TOOLS:
        assert list(tool["function"]["parameters"]["properties"]) == ["sql"]
