"""A transcript read back as a trajectory, so that rewards and diagnostics work on any set of transcripts."""

from __future__ import annotations

from collections.abc import Sequence

from birdrl.agent.answers import parse_answer
from birdrl.agent.tools import SUBMIT, MalformedCall, parse_tool_calls
from birdrl.gym.instance import Instance
from birdrl.rewards.trajectory import Query, Trajectory, Turn


def trajectory_of(messages: Sequence[dict[str, str]], instance: Instance) -> Trajectory:
    """The trajectory that a transcript shows, from its assistant messages alone.

    The last query stands in for a submission that is missing. Whether a query ran is not known here: scoring runs it.
    """
    said = [message["content"] for message in messages if message["role"] == "assistant"]
    tools = any(message["role"] == "tool" for message in messages) or any(parse_tool_calls(text) for text in said)
    turns = tuple(_tool_turn(text) if tools else _answer_turn(text) for text in said)
    queries = [query for turn in turns for query in turn.queries]
    submitted = [query for query in queries if query.submitted]
    final = submitted[0].sql if submitted else queries[-1].sql if queries else None
    written = parse_answer(said[-1]) if tools and not submitted and said and not parse_tool_calls(said[-1]) else None
    if written:  # a last turn without a call may still write the solution down
        final = written[0]
    return Trajectory(
        instance=instance,
        turns=turns,
        final_sql=None if final is None else (final,),
        tools=tools,
        max_turns=len(turns),
        messages=list(messages),
    )


def _tool_turn(text: str) -> Turn:
    calls = parse_tool_calls(text)
    queries = [Query(c.sql, submitted=c.name == SUBMIT) for c in calls if not isinstance(c, MalformedCall)]
    return Turn(text, tuple(queries), sum(isinstance(call, MalformedCall) for call in calls))


def _answer_turn(text: str) -> Turn:
    return Turn(text, tuple(Query(sql, submitted=True) for sql in parse_answer(text) or ()))
