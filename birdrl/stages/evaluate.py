"""Stage `evaluate`: every checkpoint, greedily, on the held-out databases, through the same agent loop."""

from __future__ import annotations

import gc
from collections import Counter

from tqdm import tqdm

from birdrl.agent.prompting import load_prompts
from birdrl.agent.templating import CHAT_TEMPLATE_SHA256
from birdrl.errors import InfraError
from birdrl.evaluation.hf_policy import HfPolicy
from birdrl.evaluation.results import summarise
from birdrl.evaluation.runner import EpisodeRunner, Record
from birdrl.files import write_json, write_jsonl
from birdrl.gym.instance import choose, read_instances
from birdrl.gym.templates import TemplateStore
from birdrl.rewards.execution import ExecutionScorer
from birdrl.sql.pool import PoolConfig, ReplicaPool
from birdrl.stages.registry import StageContext


def run(ctx: StageContext) -> None:
    """Write `results.json` and `trajectories/<policy>.jsonl`. Raises InfraError when a policy has nothing scored."""
    agent, params = ctx.params.agent, ctx.params.evaluate
    store = TemplateStore(ctx.input("templates"))
    instances = choose(read_instances(ctx.input("gym") / "eval.jsonl"), params.limit, f"{ctx.seed}:{ctx.name}")
    prompts = load_prompts(agent.prompts)
    limit_s = agent.statement_timeout_s
    # Trajectories are generated together, so one may hold its replica while all others think.
    held = PoolConfig(params.batch_size, limit_s, lease_timeout_s=agent.trajectory_timeout_s * params.batch_size)
    entries = []
    with (
        ReplicaPool(held) as replicas,
        ReplicaPool(PoolConfig(agent.workers, limit_s)) as scoring,
        tqdm(total=len(instances) * len(params.protocols), unit="issue") as progress,
    ):
        runner = EpisodeRunner(store, replicas, ExecutionScorer(store, scoring), prompts, agent, params.batch_size)
        for name, protocol in params.protocols.items():
            progress.set_description(f"evaluate {name}")
            policy = HfPolicy(ctx.input(name) / "model", ctx.params.engine.threads, params.batch_size)
            records = runner.run(policy, instances, protocol, progress.update)
            # One model at a time in memory.
            del policy
            gc.collect()
            _check(name, records)
            entries.append(summarise(name, protocol, records))
            write_jsonl(ctx.out / "trajectories" / f"{name}.jsonl", [record.row() for record in records])
    results = {
        "policies": entries,
        "chosen_instances": len(instances),
        "prompts": prompts.hashes,
        "chat_template_sha256": CHAT_TEMPLATE_SHA256,
        "decoding": "greedy",
    }
    write_json(ctx.out / "results.json", results)


def _check(name: str, records: list[Record]) -> None:
    if any(not record.excluded for record in records):
        return
    counts = dict(Counter(record.excluded for record in records))
    first = records[0].reason if records else "gym/eval.jsonl is empty"
    raise InfraError(f"evaluate {name}: none of {len(records)} instances could be scored {counts}; the first: {first}")
