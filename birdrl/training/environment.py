"""Databases, replicas and rewarder of one rollout process."""

from __future__ import annotations

import asyncio
import functools
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from pathlib import Path
from typing import TypeVar

from birdrl.agent.episode import Episode
from birdrl.agent.prompting import load_prompts
from birdrl.errors import InfraError
from birdrl.gym.database_folder import open_databases
from birdrl.gym.instance import Instance
from birdrl.rewards.execution import ExecutionScorer
from birdrl.rewards.rewarder import Rewarder, TrajectoryReward
from birdrl.sql.lease import Lease
from birdrl.sql.pool import PoolConfig, PoolCounters, ReplicaPool
from birdrl.sql.pool_config import replica_share
from birdrl.training.rollout_settings import RolloutSettings

MAX_REPLICAS = 64  # of one process
SCORING_STATEMENTS = 100  # statement limits that a scoring lease may take before it counts as abandoned
T = TypeVar("T")


class RolloutEnvironment:
    """What the trajectories of one process share. With several processes each holds its share of the replicas."""

    def __init__(self, settings: RolloutSettings) -> None:
        """Raises InputError for a folder without databases, InfraError when this process cannot tell its number."""
        self.settings = settings
        agent, workers = settings.agent, settings.agent_workers
        self.store = open_databases(Path(settings.templates))
        limits = PoolConfig(
            statement_timeout_s=agent.statement_timeout_s,
            acquire_timeout_s=agent.trajectory_timeout_s,
            lease_timeout_s=2 * agent.trajectory_timeout_s,
            agent_workers=workers,
            agent_worker=agent_worker_number() if workers > 1 else 1,
        )
        # Every trajectory of a step holds a replica while the policy generates for all of them together: fewer
        # replicas than trajectories would make batches small. Scoring has a pool of its own, so that a trajectory
        # that waits for its score never waits for one that holds a replica.
        self.replicas: ReplicaPool | None = None
        if settings.tools:
            prompts = -(-settings.prompts_per_step // workers)  # of the process with most of them
            held = min(MAX_REPLICAS, prompts * settings.group_size)
            self.replicas = ReplicaPool(replace(limits, workers=workers * held))
        # Scoring has no limit on the whole: its leases' deadline must lie beyond everything that it may run on one.
        patience_s = limits.lease_timeout_s + SCORING_STATEMENTS * agent.statement_timeout_s
        scoring = replace(limits, workers=max(agent.workers, workers), lease_timeout_s=patience_s)
        self._pools = {"scoring": ReplicaPool(scoring)} | ({"tools": self.replicas} if self.replicas else {})
        scorer = ExecutionScorer(self.store, self._pools["scoring"])
        prompts_set = load_prompts(agent.prompts)
        self.rewarder = Rewarder(settings.reward, scorer, self.store, self._pools["scoring"], prompts_set)
        self._counted = {name: PoolCounters() for name in self._pools}
        # Threads of our own: the event loop's are few, and a trajectory that waits for one loses its time.
        self._threads = {name: ThreadPoolExecutor(_share(pool), f"birdrl-{name}") for name, pool in self._pools.items()}

    async def acquire(self, trajectory_id: str, instance: Instance) -> Lease | None:
        """A replica, if trajectories need one. Raises InfraError when none gets free in time."""
        if self.replicas is None:
            return None
        return await self.replicas.acquire_async(trajectory_id, self.store.path(instance.db_id))

    async def run(self, work: Callable[[], T]) -> T:
        """Run an episode's `work`, which may execute SQL, without blocking the event loop."""
        threads = self._threads.get("tools")
        return await asyncio.get_running_loop().run_in_executor(threads, work) if threads else work()

    async def reward(self, episode: Episode) -> TrajectoryReward | None:
        """The configured reward, or None where the engine's reward function scores. Raises GoldError, InfraError."""
        if self.settings.reward_by == "engine":
            return None
        work = functools.partial(self.rewarder.reward, episode.trajectory())
        return await asyncio.get_running_loop().run_in_executor(self._threads["scoring"], work)

    def take_counters(self) -> dict[str, dict[str, float]]:
        """Per pool, what it counted since the last call: every event is handed out once, so records add up."""
        now = {name: pool.counters for name, pool in self._pools.items()}
        taken = {name: asdict(now[name].since(self._counted[name])) for name in now}
        self._counted = now
        return taken

    def close(self) -> None:
        """End the workers."""
        for threads in self._threads.values():
            threads.shutdown(cancel_futures=True)
        for pool in self._pools.values():
            pool.close()


@functools.lru_cache(maxsize=1)
def rollout_environment(settings_path: str) -> RolloutEnvironment:
    """The environment of this process; made once."""
    return RolloutEnvironment(RolloutSettings.read(settings_path))


def agent_worker_number() -> int:
    """Which of the agent-loop processes this is, from 1: the engine says so in the name of the actor.

    Raises InfraError outside such an actor: a guess could give two processes the same replicas.
    """
    import ray

    name = ray.get_runtime_context().get_actor_name() or ""
    found = re.fullmatch(r"agent_loop_worker_(\d+)_\w+", name)
    if not found:
        raise InfraError(
            f"with more than one agent worker, each must be an actor of the engine's; this one is {name!r}"
        )
    return int(found[1]) + 1


def _share(pool: ReplicaPool) -> int:
    config = pool.config
    return len(replica_share(config.workers, config.agent_workers, config.agent_worker))
