"""Algorithm 1: leases, lazy reset, registry, queue, deadlines; and workers that die or are killed."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from series import series

from birdrl.errors import InfraError, InputError
from birdrl.files import sha256_file
from birdrl.sql import Lease, PolicySqlError, PoolConfig, PoolCounters, ReplicaPool, replica_share

ENDLESS = "WITH RECURSIVE r(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM r) SELECT count(*) FROM r"
BOMB = "SELECT instr(hex(zeroblob(499000)), hex(zeroblob(240000)) || '1')"  # one opcode of many seconds
COUNT = "SELECT count(*) FROM item"


def count(lease: Lease) -> int:
    (result,) = lease.execute(COUNT)
    assert result.ok, result.message
    value: int = result.rows[0][0]
    return value


def worker_pid(pool: ReplicaPool, number: int = 0) -> int:
    return pool._replicas[number].process.result(10).pid


def wait_until(condition: Callable[[], bool], limit_s: float = 10.0) -> None:
    deadline = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_lease_is_registered_until_released(pool: ReplicaPool, template: Path) -> None:
    with pool.acquire("t1", template) as lease:
        assert pool.lookup("t1") is lease
        assert (lease.worker_id, lease.template) == (1, template)
        assert lease.replica.number in (1, 2)
        with pytest.raises(InputError, match="already holds"):
            pool.acquire("t1", template)
    with pytest.raises(InfraError, match="holds no replica"):
        pool.lookup("t1")
    with pytest.raises(InfraError, match="released"):
        lease.execute("SELECT 1")
    lease.release()  # a second time does nothing


@pytest.mark.parametrize("strategy", ["overlay", "copy"])
def test_reset_is_lazy_and_only_for_dirty_replicas(template: Path, strategy: Any) -> None:
    with ReplicaPool(PoolConfig(workers=1, strategy=strategy)) as pool:
        (replica,) = pool._replicas
        with pool.acquire("a", template) as lease:
            assert not replica.is_available
            assert count(lease) == 4
            assert not lease.dirty
        assert (replica.is_available, replica.need_reset, pool.counters.resets) == (True, False, 0)
        with pool.acquire("b", template) as lease:
            lease.execute("DELETE FROM item; CREATE TEMP TABLE sale (x); BEGIN; DELETE FROM sale")
            assert lease.dirty
        assert (replica.need_reset, pool.counters.resets) == (True, 0)
        with pool.acquire("c", template) as lease:
            assert (replica.need_reset, pool.counters.resets) == (False, 1)
            assert count(lease) == 4
            assert lease.execute("SELECT count(*) FROM sale")[0].rows == ((3,),)
            assert not lease.dirty
        assert (pool.counters.leases, pool.counters.waits, pool.counters.wait_s) == (3, 0, 0.0)
        assert pool.counters.overlay_bytes > 0


@pytest.mark.parametrize("strategy", ["overlay", "copy"])
def test_reset_always_resets_every_replica_but_a_new_one(template: Path, strategy: Any) -> None:
    with ReplicaPool(PoolConfig(workers=1, strategy=strategy, reset="always")) as pool:
        for number in range(4):
            with pool.acquire(f"t{number}", template) as lease:
                assert count(lease) == 4
        assert (pool.counters.leases, pool.counters.resets) == (4, 3)
        written = 4 * template.stat().st_size if strategy == "copy" else 0
        assert pool.counters.written_bytes == written


def test_a_release_counts_once(template: Path) -> None:
    with ReplicaPool(PoolConfig(workers=2, acquire_timeout_s=0.2)) as pool:
        a = pool.acquire("a", template)
        for _ in range(3):
            a.release()
        held = [pool.acquire(name, template) for name in ("b", "c")]
        with pytest.raises(InfraError, match="waited"):
            pool.acquire("d", template)
        for lease in held:
            lease.release()
        assert (pool.counters.leases, pool.counters.timeouts) == (3, 1)


def test_leasing_the_same_template_again_does_not_wait_for_the_worker(template: Path) -> None:
    """Not even for the reset: the worker does it while the trajectory goes on."""
    with ReplicaPool(PoolConfig(workers=1)) as pool:
        with pool.acquire("a", template) as lease:
            lease.execute("DELETE FROM item")
        os.kill(worker_pid(pool), signal.SIGSTOP)
        for name in ("b", "c"):
            with pool.acquire(name, template):
                pass
        lease = asyncio.run(pool.acquire_async("d", template))
        os.kill(worker_pid(pool), signal.SIGCONT)
        assert count(lease) == 4
        assert not lease.dirty
        assert (pool.counters.leases, pool.counters.resets) == (4, 1)


def test_one_worker_serves_any_template(pool: ReplicaPool, make_template: Callable[..., Path]) -> None:
    for rows in (1, 2, 3, 2, 1):
        path = make_template(f"CREATE TABLE item AS SELECT value FROM {series(rows)}")
        with pool.acquire("t", path) as lease:
            assert count(lease) == rows


def test_a_bad_template_costs_no_replica(pool: ReplicaPool, tmp_path: Path, template: Path) -> None:
    for _ in range(5):
        with pytest.raises(InputError, match=r"absent\.sqlite"):
            pool.acquire("t", tmp_path / "absent.sqlite")
    with pool.acquire("t", template) as lease:
        assert count(lease) == 4


def test_waiting_is_first_come_first_served_and_ends_in_an_infra_error(template: Path) -> None:
    with ReplicaPool(PoolConfig(workers=1, acquire_timeout_s=0.3)) as pool:
        first = pool.acquire("first", template)
        with pytest.raises(InfraError, match=r"waited 0\.3 s for one of 1 replicas \(held by MainThread\)"):
            pool.acquire("late", template)
        order: list[str] = []

        def wait(name: str) -> None:
            with pool.acquire(name, template):
                order.append(name)

        threads = [threading.Thread(target=wait, args=(name,)) for name in ("x", "y")]
        for queued, thread in enumerate(threads, 1):
            thread.start()
            while len(pool._waiting) < queued:
                time.sleep(0.001)
        first.release()
        for thread in threads:
            thread.join()
        assert order == ["x", "y"]
        counters = pool.counters
        assert (counters.waits, counters.timeouts) == (3, 1)
        assert counters.wait_s > 0.3


def test_the_event_loop_never_blocks(template: Path) -> None:
    async def main() -> tuple[list[int], float]:
        longest = 0.0
        done = asyncio.Event()

        async def watch() -> None:
            nonlocal longest
            while not done.is_set():
                start = time.monotonic()
                await asyncio.sleep(0.005)
                longest = max(longest, time.monotonic() - start)

        async def trajectory(number: int) -> int:
            lease = await pool.acquire_async(f"t{number}", template)
            with lease:
                (result,) = await lease.execute_async(ENDLESS, timeout_s=0.8)
                assert result.status == "timeout"
                await lease.execute_async(f"DELETE FROM item WHERE id <= {number % 3}")
                rows = (await lease.execute_async(COUNT))[0].rows
                return int(rows[0][0])

        watcher = asyncio.create_task(watch())
        counts = await asyncio.gather(*(trajectory(number) for number in range(4)))
        done.set()
        await watcher
        return counts, longest

    with ReplicaPool(PoolConfig(workers=2)) as pool:
        counts, longest = asyncio.run(main())
    assert counts == [4 - number % 3 for number in range(4)]
    assert longest < 0.6  # less than one statement: nothing waited for SQL inside the loop


def test_cancelled_waiting_loses_no_replica(template: Path) -> None:
    async def main() -> None:
        lease = await pool.acquire_async("holder", template)
        tasks = [asyncio.create_task(pool.acquire_async(f"w{number}", template)) for number in range(5)]
        await asyncio.sleep(0.05)
        for task in tasks[:4]:
            task.cancel()
        lease.release()
        (await tasks[4]).release()
        for delay in (0.0, 0.0005, 0.001, 0.002):  # cancelled at different points of the acquisition
            task = asyncio.create_task(pool.acquire_async("brief", template))
            await asyncio.sleep(delay)
            task.cancel()
            outcome = (await asyncio.gather(task, return_exceptions=True))[0]
            if isinstance(outcome, Lease):
                outcome.release()
        with await pool.acquire_async("last", template) as last:
            assert (await last.execute_async(COUNT))[0].ok

    with ReplicaPool(PoolConfig(workers=1, acquire_timeout_s=10)) as pool:
        asyncio.run(main())


def test_an_abandoned_lease_is_reclaimed(template: Path, caplog: pytest.LogCaptureFixture) -> None:
    with ReplicaPool(PoolConfig(workers=1, lease_timeout_s=0.2, acquire_timeout_s=10)) as pool:
        abandoned = pool.acquire("abandoned", template, owner="loop 7")
        assert 0 < abandoned.deadline - time.monotonic() <= 0.2
        abandoned.execute("DELETE FROM item")
        with pool.acquire("next", template) as lease:
            assert count(lease) == 4
            with pytest.raises(InfraError, match="reclaimed"):
                abandoned.execute("DELETE FROM item")
            abandoned.release()
            assert count(lease) == 4
        assert pool.counters.reclaims == 1
        assert "'abandoned', owner loop 7" in caplog.text


def test_the_owner_is_the_thread_or_the_task(template: Path) -> None:
    async def main() -> str:
        with await pool.acquire_async("a", template) as lease:
            return lease.owner

    async def named() -> str:
        return await asyncio.create_task(main(), name="trajectory 3")

    with ReplicaPool(PoolConfig(workers=1)) as pool:
        assert asyncio.run(named()) == "trajectory 3"
        with pool.acquire("b", template) as lease:
            assert lease.owner == threading.current_thread().name


def test_a_lease_beyond_its_deadline_is_reclaimed_in_the_middle_of_a_statement(template: Path) -> None:
    with ReplicaPool(PoolConfig(workers=1, lease_timeout_s=0.3, acquire_timeout_s=10)) as pool:
        busy = pool.acquire("busy", template)
        start = time.monotonic()
        with pytest.raises(InfraError, match="reclaimed"):
            busy.execute(ENDLESS, timeout_s=60)
        assert time.monotonic() - start < 5
        with pool.acquire("next", template) as lease:
            assert count(lease) == 4


def test_a_kill_and_a_reclaim_at_the_same_time_cost_no_replica(template: Path) -> None:
    for lease_timeout_s in (0.1, 0.35, 0.45):
        config = PoolConfig(workers=1, statement_timeout_s=0.1, lease_timeout_s=lease_timeout_s, acquire_timeout_s=20)
        with ReplicaPool(config) as pool:
            lease = pool.acquire("bomber", template)
            with contextlib.suppress(InfraError):  # which of the two comes first is left to the clock
                assert lease.execute(BOMB)[-1].status == "killed"
            lease.release()
            with pool.acquire("next", template) as lease:
                assert count(lease) == 4


@pytest.mark.parametrize("strategy", ["overlay", "copy"])
def test_a_statement_that_cannot_be_interrupted_is_killed_in_time(template: Path, strategy: Any) -> None:
    with ReplicaPool(PoolConfig(workers=1, statement_timeout_s=0.3, strategy=strategy)) as pool:
        lease = pool.acquire("bomber", template)
        before = worker_pid(pool)
        start = time.monotonic()
        results = lease.execute(f"UPDATE item SET stock = 0; {BOMB}; SELECT 1")
        elapsed = time.monotonic() - start
        assert [result.status for result in results] == ["ok", "killed"]
        assert results[1].sql == f"{BOMB};"
        assert elapsed < 0.3 + 0.25 + 2.0  # slack for a busy machine; left alone it takes far longer
        wait_until(lambda: not alive(before))
        (again,) = lease.execute(COUNT)
        assert (again.status, again.message) == ("killed", "an earlier statement was killed and the session is lost")
        lease.reopen()
        with pytest.raises(PolicySqlError):
            lease.features("SELECT 1")
        lease.release()
        with pool.acquire("next", template) as lease:
            assert count(lease) == 4
        assert (pool.counters.kills, pool.counters.deaths) == (1, 0)


def test_a_worker_that_dies_on_its_own_is_an_infra_error(template: Path) -> None:
    with ReplicaPool(PoolConfig(workers=1)) as pool:
        lease = pool.acquire("a", template)
        os.kill(worker_pid(pool), signal.SIGKILL)
        for _ in range(2):
            with pytest.raises(InfraError, match="'a'"):
                lease.execute("SELECT 1")
        lease.release()
        with pool.acquire("b", template) as lease:
            assert count(lease) == 4
        idle = worker_pid(pool)
        os.kill(idle, signal.SIGKILL)  # between two leases: nobody notices
        wait_until(lambda: not alive(idle))
        with pool.acquire("c", template) as lease:
            assert count(lease) == 4
        assert pool.counters.deaths == 2


def test_a_worker_that_fails_says_why(template: Path) -> None:
    with ReplicaPool(PoolConfig(workers=1)) as pool:
        worker = pool._replicas[0].process.result(10)
        worker.send("nonsense")
        with pytest.raises(InfraError, match="failed: KeyError: 'nonsense'"):
            worker.receive(60)
        with pool.acquire("a", template) as lease:
            assert count(lease) == 4
            pool._replicas[0].process.result(10).send("nonsense")
            with pytest.raises(InfraError, match=r"trajectory 'a': .* failed: KeyError"):
                lease.execute(COUNT)


def test_big_scripts_and_big_results_do_not_deadlock(pool: ReplicaPool, template: Path) -> None:
    with pool.acquire("big", template) as lease:
        values = ", ".join(f"({number}, '{'v' * 30}', 1, 1)" for number in range(100, 8100))
        (result,) = lease.execute(f"INSERT INTO item VALUES {values}")
        assert (result.status, result.rows_changed) == ("ok", 8000)
        (result,) = lease.execute("SELECT id, name || hex(zeroblob(500)) FROM item")
        assert (len(result.rows), result.truncated) == (8004, False)


def test_memory_hunger_ends_as_an_error_of_the_statement(template: Path) -> None:
    with (
        ReplicaPool(PoolConfig(workers=1, memory_mb=64, statement_timeout_s=20)) as pool,
        pool.acquire("a", template) as a,
    ):
        (result,) = a.execute(f"CREATE TEMP TABLE t AS SELECT hex(randomblob(400000)) FROM {series(1000)}")
        assert result.status == "error"
        assert count(a) == 4


TRAINER = f"""
import sys, threading, time
from pathlib import Path
from birdrl.sql import PoolConfig, ReplicaPool
template, folder = Path(sys.argv[1]), Path(sys.argv[2])
config = PoolConfig(workers=4, statement_timeout_s=60, strategy=sys.argv[3], folder=folder, memory_mb=128)
pool = ReplicaPool(config)
busy = [
    {BOMB!r},
    {ENDLESS!r},
    "CREATE TABLE big (x); WITH RECURSIVE r(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM r) INSERT INTO big SELECT 'x'",
    "BEGIN; DELETE FROM item; SELECT 1",
]
for number, script in enumerate(busy):
    lease = pool.acquire(str(number), template)
    threading.Thread(target=lease.execute, args=(script,), daemon=True).start()
time.sleep(0.3)
print(*(replica.process.result(10).pid for replica in pool._replicas), flush=True)
time.sleep(60)
"""


@pytest.mark.parametrize("strategy", ["overlay", "copy"])
def test_a_killed_trainer_leaves_nothing_behind(template: Path, tmp_path: Path, strategy: str) -> None:
    """SIGKILL of the owner in the middle of everything: no process, no file, no changed byte."""
    before, folder = template.read_bytes(), tmp_path / "replicas"
    folder.mkdir()
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    command = [sys.executable, "-c", TRAINER, str(template), str(folder), strategy]
    trainer = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    assert trainer.stdout is not None
    pids = [int(word) for word in trainer.stdout.readline().split()]
    assert len(pids) == 4
    assert all(alive(pid) for pid in pids)
    trainer.kill()
    trainer.wait()
    trainer.stdout.close()
    wait_until(lambda: not any(alive(pid) for pid in pids))
    assert template.read_bytes() == before
    assert [path for path in tmp_path.rglob("*") if path != folder] == []


def test_closing_ends_every_worker_and_every_wait(template: Path) -> None:
    pool = ReplicaPool(PoolConfig(workers=1))
    lease = pool.acquire("a", template)
    pid = worker_pid(pool)
    with ThreadPoolExecutor(1) as thread:
        waiting = thread.submit(pool.acquire, "b", template)
        while not pool._waiting:
            time.sleep(0.001)
        pool.close()
        with pytest.raises(InfraError, match="closed"):
            waiting.result()
    assert not alive(pid)
    with pytest.raises(InfraError, match="closed"):
        lease.execute("SELECT 1")
    with pytest.raises(InfraError, match="closed"):
        pool.acquire("c", template)
    pool.close()


@pytest.mark.parametrize("strategy", ["overlay", "copy"])
def test_interleaved_trajectories_never_see_each_other(template: Path, strategy: Any) -> None:
    """Random reading and changing from many threads; each lease starts from the template."""
    before = sha256_file(template)
    state = "SELECT * FROM item; SELECT sql FROM sqlite_schema; SELECT * FROM temp.sqlite_schema; PRAGMA user_version"
    changes = [
        "DELETE FROM item WHERE id = 1",
        "CREATE TEMP VIEW item AS SELECT 1 AS id",
        "PRAGMA user_version = 3",
        "BEGIN; UPDATE item SET stock = 0",
        "DROP TABLE sale; VACUUM",
        "SELECT 1",
        "SELECT name FROM item",
        "PRAGMA foreign_keys = ON; ALTER TABLE item RENAME TO thing",
    ]
    with ReplicaPool(PoolConfig(workers=3, strategy=strategy)) as pool:
        with pool.acquire("reference", template) as lease:
            expected = [(result.status, result.rows) for result in lease.execute(state)]

        def trajectory(number: int) -> bool:
            with pool.acquire(f"t{number}", template) as lease:
                same = [(result.status, result.rows) for result in lease.execute(state)] == expected
                lease.execute(changes[number % len(changes)])
                lease.execute(changes[(number * 5 + 3) % len(changes)])
                return same

        with ThreadPoolExecutor(6) as threads:
            assert all(threads.map(trajectory, range(300)))
        assert 0 < pool.counters.resets < 300
    assert sha256_file(template) == before


def test_features_come_from_the_worker(pool: ReplicaPool, template: Path) -> None:
    with pool.acquire("f", template) as lease:
        assert "join" in lease.features("SELECT * FROM item JOIN sale ON item.id = item_id").names
        with pytest.raises(PolicySqlError, match="does not parse"):
            lease.features("SELECT FROM WHERE (")
        with pytest.raises(PolicySqlError):
            lease.features("SELECT " + "(" * 3000 + "1" + ")" * 3000)
        assert count(lease) == 4


def test_a_pool_needs_a_worker() -> None:
    with pytest.raises(InputError, match="at least one"):
        ReplicaPool(PoolConfig(workers=0))
    with pytest.raises(InputError, match="number 1 would have no replica"):
        ReplicaPool(PoolConfig(workers=2, agent_workers=3, agent_worker=1))


def test_the_replicas_of_several_processes_are_disjoint(template: Path) -> None:
    """Appendix B.5, with its examples."""
    assert [(share[0], share[-1]) for share in (replica_share(128, 4, w) for w in (1, 2, 3, 4))] == [
        (1, 32), (33, 64), (65, 96), (97, 128),
    ]  # fmt: skip
    assert [list(replica_share(10, 3, w)) for w in (1, 2, 3)] == [[1, 2, 3], [4, 5, 6], [7, 8, 9, 10]]
    for replicas in range(40):
        for workers in range(1, 12):
            shares = [replica_share(replicas, workers, w) for w in range(1, workers + 1)]
            assert [j for share in shares for j in share] == list(range(1, replicas + 1))
            assert max(map(len, shares)) - min(map(len, shares)) <= 1
    for worker in (0, 5):
        with pytest.raises(InputError, match="numbered from 1 to 4"):
            replica_share(128, 4, worker)
    with ReplicaPool(PoolConfig(workers=3, agent_workers=2, agent_worker=2)) as pool:
        leases = [pool.acquire(name, template) for name in "ab"]
        assert {(lease.worker_id, lease.replica.number) for lease in leases} == {(2, 2), (2, 3)}


def test_counters_between_two_snapshots() -> None:
    assert PoolCounters(leases=5, wait_s=1.5).since(PoolCounters(leases=2, wait_s=1.0)) == PoolCounters(3, wait_s=0.5)
