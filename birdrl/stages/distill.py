"""Stages `distill_reasoning` and `distill_trajectories`: imitation data from the embedded reference teacher."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from typing import Any

from tqdm import tqdm

from birdrl.agent.prompting import load_prompts
from birdrl.agent.templating import CHAT_TEMPLATE_SHA256
from birdrl.distill.reasoning import Rejected, build_pair
from birdrl.distill.trajectories import TrajectoryTeacher
from birdrl.errors import QualityError
from birdrl.files import write_json, write_jsonl
from birdrl.gym.instance import Instance, choose, read_instances
from birdrl.gym.templates import TemplateStore
from birdrl.params import DistillParams
from birdrl.rewards.execution import ExecutionScorer
from birdrl.sql.pool import PoolConfig, ReplicaPool
from birdrl.stages.registry import StageContext


def run_reasoning(ctx: StageContext) -> None:
    """Write `pairs.jsonl`, `rejected.jsonl` and `stats.json` from the audited training instances."""
    store = TemplateStore(ctx.input("templates"))
    prompts = load_prompts(ctx.params.agent.prompts)
    with _pool(ctx) as pool:
        scorer = ExecutionScorer(store, pool)
        _distill(
            ctx,
            ctx.params.distill_reasoning,
            lambda instance: build_pair(instance, store.schema(instance.db_id), prompts, scorer),
            "pairs.jsonl",
        )


def run_trajectories(ctx: StageContext) -> None:
    """Write `trajectories.jsonl`, `rejected.jsonl` and `stats.json` from the audited training instances."""
    store = TemplateStore(ctx.input("templates"))
    prompts = load_prompts(ctx.params.agent.prompts)
    with _pool(ctx) as pool:
        scorer = ExecutionScorer(store, pool)
        teacher = TrajectoryTeacher(store, pool, scorer, prompts, ctx.params.agent, ctx.seed)
        _distill(ctx, ctx.params.distill_trajectories, teacher.build, "trajectories.jsonl")


def _pool(ctx: StageContext) -> ReplicaPool:
    agent = ctx.params.agent
    return ReplicaPool(PoolConfig(workers=agent.workers, statement_timeout_s=agent.statement_timeout_s))


def _distill(
    ctx: StageContext,
    params: DistillParams,
    build: Callable[[Instance], dict[str, Any] | Rejected],
    file_name: str,
) -> None:
    """Build a sample from every chosen instance, in parallel; rows keep the order of the instances."""
    source = ctx.input("audit") / "train.jsonl"
    instances = choose(read_instances(source), params.limit, f"{ctx.seed}:{ctx.name}")
    with ThreadPoolExecutor(max_workers=ctx.params.agent.workers) as threads:
        built = list(tqdm(threads.map(build, instances), total=len(instances), desc=ctx.name, unit="issue"))
    rows = [row for row in built if not isinstance(row, Rejected)]
    rejected = [row for row in built if isinstance(row, Rejected)]
    if not rows:
        first = f"; the first: {rejected[0].instance_id}, {rejected[0].reason}" if rejected else ""
        raise QualityError(f"{source}: none of {len(instances)} instances gave an imitation sample{first}")
    write_jsonl(ctx.out / file_name, rows)
    write_jsonl(ctx.out / "rejected.jsonl", [asdict(row) for row in rejected])
    write_json(ctx.out / "stats.json", _stats(ctx, rows, rejected))


def _stats(ctx: StageContext, rows: list[dict[str, Any]], rejected: list[Rejected]) -> dict[str, Any]:
    prompts = [sum(len(message["content"]) for message in row["messages"][:2]) for row in rows]
    assistant = [[m["content"] for m in row["messages"] if m["role"] == "assistant"] for row in rows]
    return {
        "accepted": len(rows),
        "rejected": len(rejected),
        "rejected_by_gate": dict(sorted(Counter(row.gate for row in rejected).items())),
        "by_category": dict(sorted(Counter(row["category"] for row in rows).items())),
        "by_kind": dict(sorted(Counter(row["kind"] for row in rows).items())),
        "by_turns": {str(turns): count for turns, count in sorted(Counter(map(len, assistant)).items())},
        "mean_prompt_chars": round(sum(prompts) / len(rows), 1),
        "mean_assistant_chars": round(sum(sum(map(len, turns)) for turns in assistant) / len(rows), 1),
        "prompts": load_prompts(ctx.params.agent.prompts).hashes,
        "chat_template_sha256": CHAT_TEMPLATE_SHA256,
    }
