"""The two tools for a tool loop that is not ours: verl's own `tool_agent`, or anybody's that runs its tool files.

    tools:
      - class_name: birdrl.training.verl_tools.ExecuteSql
        config: {type: native, settings: /data/run/birdrl.yaml}
      - class_name: birdrl.training.verl_tools.SubmitSolution
        config: {type: native, settings: /data/run/birdrl.yaml}

verl makes and releases a tool at every call. What lasts is tied to the trajectory's `agent_data`: the replica is leased
at the first call and released when `agent_data` is gone. What the reward function needs is in the trajectory's
`extra_fields`: `final_sql`, `stop`, `tool_calls`, `tool_errors`.
"""

from __future__ import annotations

import asyncio
import functools
import uuid
import weakref
from typing import Any, ClassVar

from verl.tools.base_tool import BaseTool
from verl.tools.schemas import OpenAIFunctionToolSchema, ToolResponse

from birdrl.agent.episode import Episode
from birdrl.agent.tools import EXECUTE, SUBMIT, TOOLS, check_call
from birdrl.errors import GoldError, InfraError
from birdrl.training.environment import RolloutEnvironment, rollout_environment
from birdrl.training.rows import instance_of


class TrajectoryLost(BaseException):
    """The machinery or the instance failed. No Exception, because verl shows every Exception to the policy as an
    observation; this one ends the trajectory, and the sample leaves its group instead of scoring zero."""


class Sessions:
    """The episodes of this process, by their trajectories."""

    def __init__(self) -> None:
        self._episodes: weakref.WeakKeyDictionary[Any, Episode] = weakref.WeakKeyDictionary()
        self._turns: weakref.WeakKeyDictionary[Any, asyncio.Lock] = weakref.WeakKeyDictionary()

    def turn(self, trajectory: Any) -> asyncio.Lock:
        """First come, first served: calls of one turn run in their order."""
        return self._turns.setdefault(trajectory, asyncio.Lock())

    async def episode(self, trajectory: Any, environment: RolloutEnvironment, row: dict[str, Any]) -> Episode:
        """The trajectory's episode, begun at its first call."""
        episode = self._episodes.get(trajectory)
        if episode is None:
            instance = instance_of(row, scored=False)
            lease = await environment.acquire(f"{instance.instance_id}/{uuid.uuid4().hex}", instance)
            if lease is not None:
                weakref.finalize(trajectory, lease.release)
            begin = functools.partial(Episode, instance, lease, environment.settings.agent, tools=True)
            episode = self._episodes[trajectory] = await environment.run(begin)
        return episode


_sessions = Sessions()


class SqlTool(BaseTool):  # type: ignore[misc]
    """`config.settings` names a file of RolloutSettings. The row's `tools_kwargs.<tool>.create_kwargs` says which
    database: `instance`, or `db_id` and optionally `preprocess_sql`, as in `extra_info` of a row for the agent loop."""

    tool: ClassVar[str]

    def __init__(self, config: dict[str, Any], tool_schema: OpenAIFunctionToolSchema | None = None) -> None:
        self.environment = rollout_environment(config["settings"])
        ours = next(tool for tool in TOOLS if tool["function"]["name"] == self.tool)
        super().__init__(config, tool_schema or OpenAIFunctionToolSchema.model_validate(ours))
        self._created: dict[str, dict[str, Any]] = {}

    async def create(
        self, instance_id: str | None = None, create_kwargs: dict[str, Any] | None = None, **kwargs: Any
    ) -> tuple[str, ToolResponse]:
        instance_id = instance_id or uuid.uuid4().hex
        self._created[instance_id] = create_kwargs or {}
        return instance_id, ToolResponse()

    async def execute(
        self, instance_id: str, parameters: dict[str, Any], **kwargs: Any
    ) -> tuple[ToolResponse, float, dict[str, Any]]:
        """Run the call in its trajectory's session. Raises TrajectoryLost when that is nobody's policy's fault."""
        trajectory = kwargs["agent_data"]
        async with _sessions.turn(trajectory):
            try:
                row = {"extra_info": self._created[instance_id]}
                episode = await _sessions.episode(trajectory, self.environment, row)
                text = ""
                if episode.stop is None:
                    call = check_call(self.tool, parameters)
                    text = await self.environment.run(functools.partial(episode.call, call))
            except (InfraError, GoldError) as error:
                raise TrajectoryLost(str(error)) from error
        trajectory.extra_fields |= {
            "final_sql": episode.final_sql,
            "stop": str(episode.stop or ""),
            "tool_calls": episode.tool_calls,
            "tool_errors": episode.tool_errors,
        }
        return ToolResponse(text=text or f"The task has ended: {episode.stop}."), 0.0, {}

    async def release(self, instance_id: str, **kwargs: Any) -> None:
        self._created.pop(instance_id, None)


class ExecuteSql(SqlTool):
    """Run SQL on the trajectory's private replica."""

    tool = EXECUTE


class SubmitSolution(SqlTool):
    """Hand in the SQL to score."""

    tool = SUBMIT
