"""Which trajectories of a step are trained on (verl's `trainer.v1.sampler.custom_sampler`)."""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path
from typing import Any, cast

import transfer_queue as tq
from transfer_queue import KVBatchMeta
from verl.trainer.ppo.v1.replay_buffer import ReplayBuffer

import birdrl.training.advantage  # noqa: F401 - registers the estimators in the process that uses them
from birdrl.errors import InfraError
from birdrl.training.rollout_settings import POOL_METRICS, RolloutSettings, read_records

POLL_INTERVAL_S = 0.2


class GroupSampler(ReplayBuffer):  # type: ignore[misc]
    """verl's synchronous replay buffer, with failures counted and groups of one dropped.

    A trajectory that the machinery or its instance failed has left its group already. A group with one left is
    dropped as well, as a group-relative advantage (Eq. 4) has no meaning there. Above `max_failure_share` the run
    stops.
    """

    def __init__(self, *, sampler_kwargs: Any, **kwargs: Any) -> None:
        super().__init__(sampler_kwargs=sampler_kwargs, poll_interval=POLL_INTERVAL_S, **kwargs)
        self.settings = RolloutSettings.read(sampler_kwargs["settings"])
        self._log = Path(self.settings.log)
        self._log_start = self._log.stat().st_size if self._log.exists() else 0  # what an earlier run left

    def sample(self, global_steps: int, partition_id: str, batch_size: int) -> tuple[KVBatchMeta, dict[str, Any]]:
        """A step's trajectories in an order fixed by data, and figures about them.

        Raises InfraError above the failure cap and RuntimeError when a trajectory vanished without a trace. Validation
        is left to verl.
        """
        if partition_id != "train":
            return cast("tuple[KVBatchMeta, dict[str, Any]]", super().sample(global_steps, partition_id, batch_size))
        try:
            batch, metrics = super().sample(global_steps, partition_id, batch_size)
        except RuntimeError as error:
            self._check(global_steps, 0)
            raise error
        records = self._check(global_steps, len({_session(key) for key in batch.keys}))
        batch = self._drop_lone(self._sorted(batch))
        metrics.update(step_metrics(records))
        return batch, metrics

    def _check(self, step: int, arrived: int) -> list[dict[str, Any]]:
        records = [record for record in read_records(self._log, self._log_start) if record["step"] == step]
        return check_failures(records, arrived, self.settings)

    def _sorted(self, batch: KVBatchMeta) -> KVBatchMeta:
        # Keys are random; sums in another order would round differently from run to run.
        fields = tq.kv_batch_get(
            keys=batch.keys, partition_id=batch.partition_id, select_fields=["index", "session_id"]
        )
        places = list(zip([int(i) for i in fields["index"]], [int(s) for s in fields["session_id"]], strict=True))
        batch.reorder(sorted(range(len(batch.keys)), key=lambda i: places[i]))
        return batch

    def _drop_lone(self, batch: KVBatchMeta) -> KVBatchMeta:
        lone = lone_groups(batch.keys)
        if not lone or self.settings.reward.kind == "step_wise":  # which needs no group
            return batch
        dropped = [key for key in batch.keys if _group(key) in lone]
        kept = [(key, tag) for key, tag in zip(batch.keys, batch.tags, strict=True) if _group(key) not in lone]
        if not kept:
            raise InfraError("no group of this step has two trajectories left; nothing can be learnt from it")
        tq.kv_clear(keys=dropped, partition_id=batch.partition_id)
        keys, tags = zip(*kept, strict=True)
        return KVBatchMeta(partition_id=batch.partition_id, keys=list(keys), tags=list(tags))


def check_failures(records: list[dict[str, Any]], arrived: int, settings: RolloutSettings) -> list[dict[str, Any]]:
    """Return the records of a step after holding its failures against the cap.

    `arrived` trajectories reached the trainer. Raises InfraError when too many failed by fault of machinery or
    instances, RuntimeError when some neither arrived nor failed on record.
    """
    expected = settings.trajectories_per_step
    failures = [record for record in records if record["blame"] in ("infra", "gold")]
    if arrived + len(failures) < expected:
        raise RuntimeError(
            f"{expected - arrived - len(failures)} of {expected} trajectories vanished: a rollout process raised an "
            "error that is neither infra nor gold; its traceback is in the engine's log"
        )
    if len(failures) > settings.max_failure_share * expected:
        shown = "\n".join(f"  {r['blame']}, {r['instance_id']}: {r['reason']}" for r in failures[:5])
        raise InfraError(
            f"{len(failures)} of {expected} trajectories of this step failed by no fault of the policy; "
            f"max_failure_share allows {settings.max_failure_share:.0%}. First ones:\n{shown}\n"
            "Repair the cause and run the same command again: it continues from the last checkpoint."
        )
    return records


def step_metrics(records: list[dict[str, Any]]) -> dict[str, float]:
    """Figures of a step that verl does not know: failures, tool use, how trajectories ended."""
    done = [record for record in records if record["blame"] not in ("infra", "gold")]
    metrics = {
        f"rollout/failures/{blame}": float(sum(record["blame"] == blame for record in records))
        for blame in ("infra", "gold")
    }
    for name in ("turns", "tool_calls", "tool_errors"):
        metrics[f"rollout/{name}/mean"] = sum(record[name] for record in done) / len(done)
    if all(record["reward"] is not None for record in done):  # None: the engine's reward function scores
        metrics |= reward_metrics(done)
    for stop, count in sorted(Counter(record["stop"] for record in done).items()):
        metrics[f"rollout/stop/{stop}"] = count / len(done)
    return metrics | pool_metrics(records)


def reward_metrics(done: list[dict[str, Any]]) -> dict[str, float]:
    """Shares of outcomes, means of the reward's parts, and how many answers of a language model were of no use."""
    metrics = {
        "rollout/solved/mean": sum(record["solved"] for record in done) / len(done),
        "rollout/unparsable": float(sum(record["unparsable"] for record in done)),
    }
    for part in sorted({part for record in done for part in record["parts"]}):
        metrics[f"rollout/reward/{part}/mean"] = sum(record["parts"].get(part, 0.0) for record in done) / len(done)
    for outcome, count in sorted(Counter(record["outcome"] for record in done).items()):
        metrics[f"rollout/outcome/{outcome}"] = count / len(done)
    return metrics


def pool_metrics(records: list[dict[str, Any]]) -> dict[str, float]:
    """What the replica pools of all rollout processes counted during a step (see `PoolCounters`)."""
    sums: Counter[str] = Counter()
    for record in records:
        for pool, figures in record["pool"].items():
            sums.update({f"{POOL_METRICS}{pool}/{name}": value for name, value in figures.items()})
    return {name: float(value) for name, value in sorted(sums.items())}


def lone_groups(keys: list[str]) -> set[str]:
    """Groups of which only one trajectory is left. Keys are `<group>_<session>_<index>`."""
    sessions: dict[str, set[str]] = defaultdict(set)
    for key in keys:
        sessions[_group(key)].add(_session(key))
    return {group for group, members in sessions.items() if len(members) == 1}


def _group(key: str) -> str:
    return key.rsplit("_", 2)[0]


def _session(key: str) -> str:
    return key.rsplit("_", 1)[0]
