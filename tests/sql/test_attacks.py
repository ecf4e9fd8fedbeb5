"""Attacks out of files: each ends as recorded, and nothing else is touched.

After every single one the template has the same bytes, no file was made or changed outside, the worker opened none, the
next lease is pristine, and no path of this machine stands in what the policy was shown.
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from databases import SCHEMA, build_database
from series import series

from birdrl.agent.templating import neutral
from birdrl.files import sha256_file
from birdrl.sql import PoolConfig, ReplicaPool, StatementResult
from birdrl.sql.observation import ObservationBudget, render

FOLDER = Path(__file__).with_name("attacks")
STATUSES = {
    "denied": {"denied"},
    "ignored": {"ok"},
    "bounded": {"error", "timeout"},
    "killed": {"killed"},
    "allowed": {"ok"},
}
BUDGET = ObservationBudget(rows=5, bytes=400)
STATE = (
    "SELECT * FROM item; SELECT * FROM sale; SELECT count(*), sum(id) FROM big; SELECT name, sql FROM sqlite_schema;"
    "SELECT count(*) FROM temp.sqlite_schema; PRAGMA database_list; PRAGMA user_version; PRAGMA foreign_keys;"
    "PRAGMA page_size; SELECT 'a' LIKE 'A', last_insert_rowid(), changes(), total_changes(); PRAGMA integrity_check"
)


def read(name: str) -> list[dict[str, Any]]:
    groups = yaml.safe_load((FOLDER / name).read_text(encoding="utf-8"))
    return [{"group": group, **record} for group, records in groups.items() for record in records]


PUBLISHED, MORE = read("published.yaml"), read("more.yaml")
ATTACKS = [*PUBLISHED, *MORE]


@dataclass
class World:
    """Where attacks happen: a template, a folder that nothing may touch, and the pool under attack."""

    template: Path
    outside: Path
    temporary: Path
    pool: ReplicaPool
    state: list[tuple[str, Any]]

    def files(self) -> dict[str, tuple[int, str]]:
        folders = (self.template.parent, self.outside, self.temporary, Path.cwd())
        paths = [path for folder in folders for path in folder.iterdir() if path.is_file()]
        return {str(path): (path.stat().st_mtime_ns, sha256_file(path)) for path in paths}

    def expand(self, sql: str) -> str:
        sql = re.sub(r"<<(.*?) \* (\d+)>>", lambda found: found[1] * int(found[2]), sql, flags=re.DOTALL)
        return sql.replace("{template}", str(self.template)).replace("{outside}", str(self.outside))

    def worker(self) -> int:
        return self.pool._replicas[0].process.result(10).pid


@pytest.fixture(scope="module", params=["overlay", "copy"])
def world(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    template = build_database(
        tmp_path_factory.mktemp("template") / "shop.sqlite",
        f"{SCHEMA} CREATE TABLE big (id INTEGER PRIMARY KEY, y TEXT);"
        f"INSERT INTO big SELECT value, hex(zeroblob(50)) || value FROM {series(2000)};",
    )
    outside, temporary = tmp_path_factory.mktemp("outside"), tmp_path_factory.mktemp("temporary")
    build_database(outside / "other.sqlite", "CREATE TABLE secret AS SELECT 'classified' AS word")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", str(temporary))
        with ReplicaPool(PoolConfig(workers=1, lease_timeout_s=600, strategy=request.param)) as pool:
            with pool.acquire("reference", template) as lease:
                state = [(result.status, result.rows) for result in lease.execute(STATE)]
            assert {status for status, _ in state} == {"ok"}
            yield World(template, outside, temporary, pool, state)


@pytest.mark.parametrize("attack", ATTACKS, ids=[attack["name"] for attack in ATTACKS])
def test_an_attack_ends_as_recorded_and_touches_nothing(
    attack: dict[str, Any], world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit = attack.get("limit", 10.0)
    if attack["outcome"] != "killed":  # a busy machine may be late, but what can be interrupted is not killed
        monkeypatch.setattr("birdrl.sql.lease.KILL_GRACE_S", 10.0)
    files, pid = world.files(), world.worker()
    with world.pool.acquire(attack["name"], world.template) as lease:
        opened = descriptors(pid, world.template)
        start = time.monotonic()
        results = lease.execute(world.expand(attack["sql"]), timeout_s=limit)
        elapsed = time.monotonic() - start
        check_outcome(attack, results)
        if attack["outcome"] == "killed":
            assert elapsed < limit * len(results) + 0.25 + 3.0  # slack for a busy machine
            assert [result.status for result in lease.execute("SELECT 1")] == ["killed"]
            until_gone(pid)
        else:
            assert lease.dirty == attack.get("dirty", lease.dirty)
            assert descriptors(pid, world.template) == opened
            check_worker(pid)
            sql, rows = attack.get("after", ("SELECT 1", [[1]]))
            assert [list(row) for row in lease.execute(sql)[-1].rows] == rows
    check_observation(attack, results, world)
    assert world.files() == files
    with world.pool.acquire("next", world.template) as lease:
        assert [(result.status, result.rows) for result in lease.execute(STATE)] == world.state
        assert not lease.dirty


def check_outcome(attack: dict[str, Any], results: list[StatementResult]) -> None:
    last = results[-1] if results else StatementResult("", "ok")
    assert last.status in ({attack["status"]} if "status" in attack else STATUSES[attack["outcome"]]), last.message
    assert all(result.ok for result in results[:-1])
    says = "is ignored" if attack["outcome"] == "ignored" else attack.get("says", "")
    assert says in last.message
    assert last.message == "" if last.ok and not says else last.message
    assert len(last.message) <= 1000
    assert sum(len(cell) for row in last.rows for cell in row if isinstance(cell, str | bytes)) < 18_000_000
    assert last.truncated == attack.get("truncated", False)
    if "rows" in attack:
        assert [list(row) for row in last.rows] == attack["rows"]
    if "row_count" in attack:
        assert len(last.rows) == attack["row_count"]
    if attack["outcome"] == "ignored":
        assert (last.columns, last.rows) == ((), ())


def until_gone(pid: int) -> None:
    """The killed worker ends and is reaped, at the latest when the machine has time for it."""
    deadline = time.monotonic() + 20
    while Path(f"/proc/{pid}").exists():
        assert time.monotonic() < deadline, f"the killed worker {pid} is still there"
        time.sleep(0.01)


def descriptors(pid: int, template: Path) -> dict[str, str]:
    """What a worker has open; the template only for reading."""
    opened = {path.name: os.readlink(path) for path in Path(f"/proc/{pid}/fd").iterdir()}
    for number, target in opened.items():
        if target == str(template):
            flags = re.search(r"flags:\s+(\d+)", Path(f"/proc/{pid}/fdinfo/{number}").read_text())
            assert flags is not None
            assert int(flags.group(1), 8) & os.O_ACCMODE == os.O_RDONLY
    return opened


def check_worker(pid: int) -> None:
    """It is within its limits, lies in no folder, and has no processes of its own."""
    assert os.readlink(f"/proc/{pid}/cwd").endswith("(deleted)")
    peak = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert peak is not None
    assert int(peak.group(1)) < (512 + 64 + 100) << 10
    children = Path(f"/proc/{pid}/task/{pid}/children")
    assert not children.exists() or children.read_text() == ""


def check_observation(attack: dict[str, Any], results: list[StatementResult], world: World) -> None:
    text = neutral(render(results, BUDGET))
    assert attack.get("shows", "") in text
    assert len(render(results, BUDGET).encode()) <= BUDGET.bytes
    assert not re.search("[\0-\t\x0b-\x1f\x7f-\x9f\u2028\u2029]", text)
    assert not re.search(r"<\||<tool_|</tool_", text)
    given = {path for path in (str(world.template), str(world.outside)) if path in world.expand(attack["sql"])}
    own = {str(world.template), str(world.outside), str(world.temporary), str(Path.cwd()), str(Path.home()), sys.prefix}
    cells = [cell for result in results for row in result.rows for cell in row if isinstance(cell, str)]
    for path in own - given:
        assert not any(path in said for said in (text, *(result.message for result in results), *cells))


def test_the_records_are_enough_and_of_the_five_kinds() -> None:
    names = [attack["name"] for attack in ATTACKS]
    assert len(set(names)) == len(names)
    assert {attack["outcome"] for attack in ATTACKS} == set(STATUSES)
    assert len({attack["group"] for attack in PUBLISHED}) >= 25
    assert len(MORE) >= 20
    known = {"group", "name", "sql", "outcome", "status", "says", "rows", "row_count", "truncated", "dirty", "shows"}
    assert all(set(attack) <= known | {"after", "limit"} for attack in ATTACKS)
