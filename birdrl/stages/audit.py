"""Stage `audit`: how much training and evaluation issues overlap; flagged training issues are left out."""

from __future__ import annotations

from contextlib import ExitStack

from tqdm import tqdm

from birdrl.audit.contamination import audit
from birdrl.audit.databases import databases_by_id
from birdrl.audit.output import write_audit
from birdrl.gym.templates import TemplateStore
from birdrl.sql.pool import PoolConfig, ReplicaPool
from birdrl.stages.registry import StageContext


def run(ctx: StageContext) -> None:
    """Write `train.jsonl` (kept rows, byte for byte, in order), `report.json` and `report.md`."""
    params, train = ctx.params.audit, ctx.input("gym") / "train.jsonl"
    store = TemplateStore(ctx.input("templates"))
    with ExitStack() as stack:
        pool = stack.enter_context(ReplicaPool(PoolConfig(workers=params.workers))) if params.results else None
        bar = stack.enter_context(tqdm(total=1.0, desc="audit", unit="", bar_format="{desc}: {percentage:3.0f}%"))
        result = audit(
            train,
            ctx.input("gym") / "eval.jsonl",
            params,
            databases=databases_by_id(store, store.db_ids),
            pool=pool,
            progress=bar.update,
        )
    write_audit(result, ctx.out, train)
