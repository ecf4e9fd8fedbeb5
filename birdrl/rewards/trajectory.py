"""A finished trajectory as rewards see it: what the policy wrote, which SQL it put forward, how it ended.

Plain data, made by `birdrl.agent.episode.Episode.trajectory`. Only what the policy itself wrote is in here: SQL
in an observation, a stored value or an issue text never becomes a query of the policy.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from birdrl.gym.instance import Instance
from birdrl.rewards.execution import Blame

# Looking at the database rather than answering: pragmas, plans, the catalogue, or some rows of one table.
_PROBE = re.compile(
    r"pragma\b|explain\b|select\b.*\bsqlite_(master|schema)\b|select\s[^()]*\sfrom\s+[^\s(),;]+\s+limit\s+\d+\Z",
    re.IGNORECASE | re.DOTALL,
)
_TOOL_CALL = re.compile(r"<tool_call>.*?(</tool_call>|\Z)", re.DOTALL)
_FENCED = re.compile(r"```.*?(```|\Z)", re.DOTALL)


@dataclass(frozen=True)
class Query:
    """SQL that the policy ran or handed in. `ok`: no statement of it failed (unknown, so True, if handed in)."""

    sql: str
    ok: bool = True
    submitted: bool = False


@dataclass(frozen=True)
class Turn:
    """One assistant turn: its text, its queries in order, and how many tool calls in it were malformed."""

    text: str
    queries: tuple[Query, ...] = ()
    malformed: int = 0

    @property
    def thought(self) -> str:
        """The text outside of tool calls and fenced blocks."""
        return _FENCED.sub("", _TOOL_CALL.sub("", self.text)).strip()


@dataclass(frozen=True)
class Trajectory:
    """`final_sql` is what counts as the solution, None for nothing. `stop` and `blame` are the episode's."""

    instance: Instance
    turns: tuple[Turn, ...]
    final_sql: tuple[str, ...] | None
    tools: bool
    max_turns: int
    stop: str = ""
    blame: Blame = Blame.NONE
    messages: Sequence[dict[str, str]] = field(default=(), repr=False)

    @property
    def submitted(self) -> bool:
        """Whether the solution was handed in, not merely the last query run."""
        return self.final_sql is not None and any(query.submitted for turn in self.turns for query in turn.queries)

    @property
    def formatted(self) -> bool:
        """Whether the protocol was followed: every call well-formed and the solution handed in once (ours: what the
        peers ask of their own tags, said for this project's protocol)."""
        handed_in = sum(query.submitted for turn in self.turns for query in turn.queries)
        return handed_in == 1 and self.final_sql is not None and not any(turn.malformed for turn in self.turns)

    @property
    def reasoning(self) -> str:
        """The thoughts of all turns, one paragraph each."""
        return "\n\n".join(turn.thought for turn in self.turns if turn.thought)


@dataclass(frozen=True)
class State:
    """One state of the trajectory: the SQL that the policy stands by after a turn. `sql` None: nothing."""

    turn: int  # place in `Trajectory.turns`
    sql: str | None
    ok: bool


def states(trajectory: Trajectory, *, answer_like: bool = False) -> list[State]:
    """The states whose scores are aggregated (SQL-ASTRA 2.3), at most one a turn.

    A turn's state is its last query. Handing in the query of the state before adds none, handing in another one
    does; a policy that ends without a solution after having run queries ends in an empty state. With `answer_like`,
    queries that only look at the database make no state, unless they are the solution.
    """
    found: list[State] = []
    for number, turn in enumerate(trajectory.turns):
        if not turn.queries:
            continue
        query = turn.queries[-1]
        if query.submitted and found and found[-1].sql == query.sql:
            continue
        if query.submitted and len(turn.queries) > 1 and turn.queries[-2].sql == query.sql:
            query = turn.queries[-2]
        if answer_like and not query.submitted and is_probe(query.sql):
            continue
        found.append(State(number, query.sql, query.ok))
    final = trajectory.final_sql
    last = len(trajectory.turns) - 1
    if final is None:
        return [*found, State(last, None, False)] if found else []
    # Only a solution that no query of the trajectory was (one that was written without a tool call) is not there yet.
    if not found or "\n".join(final) != found[-1].sql:
        found.append(State(last, "\n".join(final), True))
    return found


def is_probe(sql: str) -> bool:
    """Whether SQL only looks at the database: a pragma, a plan, the catalogue, or some rows of one table (ours)."""
    return _PROBE.match(sql.strip().rstrip("; \t\r\n")) is not None
