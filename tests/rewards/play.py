"""Plays a script through a real episode on a real replica."""

from __future__ import annotations

from collections.abc import Sequence

from shop import OneTemplate

from birdrl.agent.episode import Episode
from birdrl.agent.tools import EXECUTE, SUBMIT, format_tool_call
from birdrl.gym.instance import Instance
from birdrl.params import AgentParams
from birdrl.rewards.trajectory import Trajectory
from birdrl.sql.pool import ReplicaPool, unique_trajectory_id

AGENT = AgentParams.model_validate({"max_turns": 3, "statement_timeout_s": 0.5})


def run(sql: str) -> str:
    return format_tool_call(EXECUTE, sql)


def submit(sql: str) -> str:
    return format_tool_call(SUBMIT, sql)


def play(
    instance: Instance, turns: Sequence[str], templates: OneTemplate, pool: ReplicaPool, agent: AgentParams = AGENT
) -> Trajectory:
    """The trajectory of a policy that says `turns`, until it ends or has nothing more to say."""
    with pool.acquire(unique_trajectory_id("play"), templates.path(instance.db_id)) as lease:
        episode = Episode(instance, lease, agent, tools=True)
        for text in turns:
            if episode.stop is not None:
                break
            episode.step(text)
        return episode.trajectory()


def answer(instance: Instance, text: str) -> Trajectory:
    """The trajectory of a single-turn answer."""
    episode = Episode(instance, None, AGENT, tools=False)
    episode.step(text)
    return episode.trajectory()
