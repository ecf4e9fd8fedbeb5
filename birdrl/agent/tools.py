"""The two tools of the SQL-Act scaffold and the parser of tool calls (BIRD-RL, section 3.2).

Calls are read from the assistant's own text only, in Hermes form:

    <tool_call>
    {"name": "execute_sql", "arguments": {"sql": "SELECT 1"}}
    </tool_call>

A policy can write anything, so parsing never raises: what is not a call comes back as a `MalformedCall`
whose `reason` is the observation that the policy gets.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

EXECUTE = "execute_sql"
SUBMIT = "submit_solution"


def _schema(name: str, description: str) -> dict[str, Any]:
    sql = {"type": "string", "description": "One or more SQLite statements."}
    parameters = {"type": "object", "properties": {"sql": sql}, "required": ["sql"]}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


TOOLS: list[dict[str, Any]] = [
    _schema(EXECUTE, "Run SQL on a private copy of the database and see the result."),
    _schema(SUBMIT, "Hand in the corrected SQL; this ends the task."),
]

_BLOCK = re.compile(r"<tool_call>(.*?)(</tool_call>|(?=<tool_call>)|\Z)", re.DOTALL)


@dataclass(frozen=True)
class ToolCall:
    """A well-formed call of `execute_sql` or `submit_solution`."""

    name: str
    sql: str


@dataclass(frozen=True)
class MalformedCall:
    """Something that was meant as a call; `reason` tells the policy what is wrong with it."""

    reason: str


def parse_tool_calls(text: str) -> list[ToolCall | MalformedCall]:
    """The tool calls of one assistant turn, in order; empty when the text holds none. Never raises."""
    return [_parse(block.group(1), closed=block.group(2) != "") for block in _BLOCK.finditer(text)]


def format_tool_call(name: str, sql: str) -> str:
    """A call as the assistant writes it; the inverse of `parse_tool_calls`."""
    body = json.dumps({"name": name, "arguments": {"sql": sql}}, ensure_ascii=False)
    return f"<tool_call>\n{body}\n</tool_call>"


def _parse(body: str, *, closed: bool) -> ToolCall | MalformedCall:
    if not closed:
        return MalformedCall("the tool call has no closing </tool_call>.")
    try:
        # strict=False: models write raw line breaks inside the SQL string.
        call = json.loads(body, strict=False)
        arguments = call.get("arguments") if isinstance(call, dict) else None
        if isinstance(arguments, str):
            arguments = json.loads(arguments, strict=False)
    except (ValueError, RecursionError):
        return MalformedCall('the tool call is not valid JSON; write {"name": ..., "arguments": {"sql": ...}}.')
    if not isinstance(call, dict) or not isinstance(call.get("name"), str) or not isinstance(arguments, dict):
        return MalformedCall('a tool call needs "name" and "arguments": {"name": ..., "arguments": {"sql": ...}}.')
    return check_call(call["name"], arguments)


def check_call(name: str, arguments: Any) -> ToolCall | MalformedCall:
    """A call whose JSON has been read already. Never raises."""
    if name not in (EXECUTE, SUBMIT):
        return MalformedCall(f"there is no tool {name[:40]!r}; the tools are {EXECUTE} and {SUBMIT}.")
    sql = arguments.get("sql") if isinstance(arguments, dict) else None
    if not isinstance(sql, str):
        return MalformedCall(f'{name} needs the argument "sql", a string.')
    if not sql.strip():
        return MalformedCall(f"{name} got empty SQL.")
    if "\0" in sql or not _encodable(sql):
        return MalformedCall("the SQL holds characters that are not text.")
    return ToolCall(name, sql)


def _encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:  # lone surrogates from \ud800-like escapes
        return False
    return True
