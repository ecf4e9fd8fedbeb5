"""Gate columns of trajectories (see tasks.gate_columns)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from birdrl.agent.tools import SUBMIT, MalformedCall, parse_tool_calls
from birdrl.distill.trajectories import find_leak
from birdrl.gym.instance import Instance
from birdrl.gym.templates import TemplateStore
from birdrl.rewards.execution import ExecutionScorer
from birdrl.sql.pool import PoolConfig, ReplicaPool
from tasks.gate_columns import PASSES, Column, short, solution_gate, some, spread


def trajectory_gates(
    rows: Sequence[Mapping[str, Any]],
    instances: Mapping[str, Instance],
    store: TemplateStore,
    *,
    sample: int | None,
    seed: str,
    workers: int,
) -> dict[str, Column]:
    """Columns `dialogue_gate`, `leak_gate` and, executed for `sample` rows, `submission_gate`; `instances` by id.

    Trajectories of unknown instances have nothing in the last two. Raises InfraError when SQL workers fail.
    """
    dialogue = [dialogue_gate(row) for row in rows]
    able = {
        number: instances[str(row["instance_id"])]
        for number, row in enumerate(rows)
        if dialogue[number] == PASSES and row.get("instance_id") in instances
    }
    leaks = [find_leak(instance, rows[number]["messages"]) or PASSES for number, instance in able.items()]
    tried = some(able, sample, seed)
    with ReplicaPool(PoolConfig(workers=workers)) as pool, ThreadPoolExecutor(workers) as threads:
        scorer = ExecutionScorer(store, pool)
        verdicts = threads.map(lambda number: solution_gate(able[number], scorer, rows[number]["final_sql"]), tried)
        submitted = spread(len(rows), tried, verdicts)
    return {
        "dialogue_gate": list(dialogue),
        "leak_gate": spread(len(rows), list(able), leaks),
        "submission_gate": submitted,
    }


def dialogue_gate(row: Mapping[str, Any]) -> str:
    """Whether the messages are a prompt and then turns, with well-formed calls, that end in the submission."""
    messages = row.get("messages")
    if not isinstance(messages, list) or not all(
        isinstance(m, dict) and isinstance(m.get("content"), str) for m in messages
    ):
        return "messages is not a list of messages with text"
    roles = [message.get("role") for message in messages]
    turns = roles[2:]
    if roles[:2] != ["system", "user"] or turns != [("assistant", "tool")[n % 2] for n in range(len(turns))]:
        return f"roles are {', '.join(map(str, roles))}"
    if len(turns) % 2 == 0:
        return "the last message is not the assistant's"
    calls = [parse_tool_calls(message["content"]) for message in messages[2::2]]
    for number, found in enumerate(calls, 1):
        broken = next((call.reason for call in found if isinstance(call, MalformedCall)), "")
        if broken or not found:
            return short(f"turn {number}: {broken or 'no tool call'}")
    names = [[call.name for call in found if not isinstance(call, MalformedCall)] for found in calls]
    if names[-1][-1] != SUBMIT or sum(name == SUBMIT for turn in names for name in turn) != 1:
        return f"calls are {', '.join(name for turn in names for name in turn)}; one submission at the end is wanted"
    final = row.get("final_sql")
    if not isinstance(final, list) or not any(isinstance(sql, str) and sql.strip() for sql in final):
        return "final_sql is empty"
    return PASSES
