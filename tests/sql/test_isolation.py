"""Proof of isolation: thousands of interleaved rollouts scratch their marks, and each finds only its own.

BIRDRL_ISOLATION_ROLLOUTS sets their number, BIRDRL_ISOLATION_SESSIONS how many run at the same time.
"""

from __future__ import annotations

import asyncio
import gc
import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest
from series import series

from birdrl.errors import InfraError
from birdrl.files import sha256_file
from birdrl.sql import Lease, PoolConfig, ReplicaPool

ROLLOUTS = int(os.environ.get("BIRDRL_ISOLATION_ROLLOUTS", "10000"))
SESSIONS = int(os.environ.get("BIRDRL_ISOLATION_SESSIONS", "64"))
DATABASES = 5
WARM_UP = 0.3  # share of the rollouts after which memory may not grow
GROWTH = 1.10
# Everything that a rollout can leave behind, in one row: rows, tables, temporary objects, numbers in the header,
# what the connection remembers, an open transaction (which total_changes and the mark show).
STATE = """
SELECT (SELECT group_concat(who) FROM mark), (SELECT count(*) FROM base), (SELECT total(v) FROM base),
  (SELECT group_concat(name) FROM sqlite_schema WHERE name LIKE 'mark_%'), (SELECT count(*) FROM temp.sqlite_schema),
  (SELECT user_version FROM pragma_user_version), (SELECT foreign_keys FROM pragma_foreign_keys),
  last_insert_rowid(), changes(), total_changes()
"""


def mark(me: int, rng: random.Random) -> tuple[str, str]:
    """A script that writes the mark `me` in some way, and a query that shows who marked."""
    return rng.choice(
        [
            (f"INSERT INTO mark VALUES ({me})", "SELECT group_concat(who) FROM mark"),
            (f"BEGIN; INSERT INTO mark VALUES ({me})", "SELECT group_concat(who) FROM mark"),
            (f"CREATE TABLE mark_{me} AS SELECT {me} AS who", f"SELECT group_concat(who) FROM mark_{me}"),
            (f"CREATE TEMP TABLE mark AS SELECT {me} AS who", "SELECT group_concat(who) FROM mark"),
            (f"PRAGMA user_version = {me}", "SELECT user_version FROM pragma_user_version"),
            (f"UPDATE base SET v = {me}; PRAGMA foreign_keys = ON", "SELECT DISTINCT v FROM base"),
            (f"DELETE FROM base WHERE id > 1; UPDATE base SET v = {me}; VACUUM", "SELECT group_concat(v) FROM base"),
        ]
    )


async def rollout(pool: ReplicaPool, number: int, template: Path, pristine: tuple[object, ...]) -> list[str]:
    """What went wrong, nothing if the rollout saw the template and then its own mark alone."""
    rng = random.Random(number)
    wrong = []
    lease = await pool.acquire_async(f"rollout {number}", template)
    with lease:
        if await show(lease, STATE) != [pristine]:
            wrong.append(f"rollout {number} on replica {lease.replica.number} found {await show(lease, STATE)}")
        if rng.random() < 0.5:
            me = number + 1
            script, query = mark(me, rng)
            await lease.execute_async(script)
            await asyncio.sleep(0)
            if (seen := await show(lease, query)) != [(me,)] and seen != [(str(me),)]:
                wrong.append(f"rollout {number} marked itself with {script!r} and found {seen}")
            if pool.lookup(f"rollout {number}") is not lease:
                wrong.append(f"rollout {number} is not itself in the registry")
    return wrong


async def show(lease: Lease, query: str) -> list[tuple[object, ...]]:
    (result,) = await lease.execute_async(query)
    assert result.ok, result.message
    return list(result.rows)


def private_bytes(pool: ReplicaPool) -> int:
    """Memory of this process and of all workers that is not shared, in bytes."""
    gc.collect()
    total = 0
    for pid in [os.getpid(), *(replica.process.result(60).pid for replica in pool._replicas)]:
        rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
        total += sum(int(line.split()[1]) << 10 for line in rollup.splitlines() if line.startswith("Private_Dirty:"))
    return total


async def run_all(pool: ReplicaPool, templates: list[Path], pristine: dict[Path, tuple[object, ...]]) -> list[int]:
    """Run every rollout, half as many again at a time as there are sessions; returns memory over the run."""
    numbers = iter(range(ROLLOUTS))
    wrong: list[str] = []
    memory: list[int] = []

    async def walk() -> None:
        for number in numbers:
            template = templates[number * 7919 % len(templates)]
            wrong.extend(await rollout(pool, number, template, pristine[template]))
            assert not wrong, f"{len(wrong)} leaks: {wrong[:3]}"
            if number % (ROLLOUTS // 10) == ROLLOUTS // 10 - 1:
                memory.append(await asyncio.to_thread(private_bytes, pool))

    await asyncio.gather(*(walk() for _ in range(SESSIONS * 3 // 2)))
    return memory


def test_no_rollout_sees_another_one(make_template: Callable[..., Path]) -> None:
    scripts = [
        f"CREATE TABLE mark (who); CREATE TABLE base AS SELECT value AS id, value * {n} AS v FROM {series(40 * n)};"
        f"PRAGMA user_version = {100_000 + n}"
        for n in range(1, DATABASES + 1)
    ]
    templates = [make_template(script) for script in scripts]
    before = [sha256_file(template) for template in templates]
    config = PoolConfig(workers=SESSIONS, memory_mb=128, overlay_mb=8, acquire_timeout_s=300.0)
    with ReplicaPool(config) as pool:
        pristine = {}
        for n, template in enumerate(templates, 1):
            count = 40 * n
            pristine[template] = (None, count, n * count * (count + 1) / 2, None, 0, 100_000 + n, 0, 0, 0, 0)
        memory = asyncio.run(run_all(pool, templates, pristine))
        counters = pool.counters
        with pytest.raises(InfraError, match="holds no replica"):
            pool.lookup("rollout 0")
    assert counters.leases == ROLLOUTS
    assert counters.waits > ROLLOUTS // 100, "rollouts did not have to queue"
    assert 0.3 * ROLLOUTS < counters.resets < 0.7 * ROLLOUTS, "dirty and pristine leases were to alternate"
    assert (counters.kills, counters.deaths, counters.reclaims, counters.written_bytes) == (0, 0, 0, 0)
    assert [sha256_file(template) for template in templates] == before
    start = max(memory[: max(1, int(len(memory) * WARM_UP))])
    assert max(memory) <= GROWTH * start, f"memory grew: {[n >> 20 for n in memory]} MiB"
