"""Strategy `copy`: files made ahead, written again only when dirty, gone with their holders; and a full disk."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from series import series

from birdrl.errors import InfraError, InputError
from birdrl.files import sha256_file
from birdrl.sql import PoolConfig, ReplicaPool

COUNT = "SELECT count(*) FROM item"


def rows(pool: ReplicaPool, template: Path, script: str = COUNT) -> object:
    with pool.acquire("t", template) as lease:
        result = lease.execute(script)[-1]
        assert result.ok, result.message
        return result.rows


def test_copies_are_written_ahead_and_again_only_when_dirty(make_template: Callable[..., Path], tmp_path: Path) -> None:
    templates = [make_template(f"CREATE TABLE item AS SELECT value FROM {series(n)}") for n in (3, 5)]
    size = sum(path.stat().st_size for path in templates)
    with ReplicaPool(PoolConfig(workers=2, strategy="copy", folder=tmp_path)) as pool:
        assert pool.materialise(templates) == 2 * size
        assert pool.materialise(templates) == 0
        assert pool.disk_bytes >= 2 * size
        assert list(tmp_path.iterdir()) == [], "the files have no names"
        made = pool.counters.written_bytes
        assert made == 2 * size
        for _ in range(3):
            assert [rows(pool, path) for path in templates] == [((3,),), ((5,),)]
        assert pool.counters.written_bytes == made, "leases that only read write nothing"
        with pool.acquire("a", templates[0]) as a, pool.acquire("b", templates[0]) as b:
            a.execute("DELETE FROM item")
            assert (a.execute(COUNT)[0].rows, b.execute(COUNT)[0].rows) == (((0,),), ((3,),))
        assert pool.counters.written_bytes == made, "the reset is lazy"
        with pool.acquire("a", templates[0]) as a, pool.acquire("b", templates[0]) as b:
            assert a.execute(COUNT)[0].rows == b.execute(COUNT)[0].rows == ((3,),)
        assert pool.counters.written_bytes == made + templates[0].stat().st_size
        assert pool.counters.resets == 1


def test_a_dirty_copy_stays_dirty_while_its_worker_serves_another_database(make_template: Callable[..., Path]) -> None:
    a, b = (make_template(f"CREATE TABLE item AS SELECT value FROM {series(n)}") for n in (3, 5))
    with ReplicaPool(PoolConfig(workers=1, strategy="copy")) as pool:
        rows(pool, a, "DELETE FROM item; SELECT 1")
        assert rows(pool, b) == ((5,),)
        assert rows(pool, a) == ((3,),)
        rows(pool, b)
        assert rows(pool, a) == ((3,),)
        assert pool.counters.resets == 1
        assert pool.counters.written_bytes == 2 * a.stat().st_size + b.stat().st_size


def test_a_template_that_was_replaced_is_copied_again(make_template: Callable[..., Path], tmp_path: Path) -> None:
    path = tmp_path / "template.sqlite"
    with ReplicaPool(PoolConfig(workers=1, strategy="copy")) as pool:
        for count in (3, 7):
            make_template(f"CREATE TABLE item AS SELECT value FROM {series(count)}").rename(path)
            assert rows(pool, path) == rows(pool, path) == ((count,),)


def test_a_bad_template_is_named_and_costs_no_file(template: Path, tmp_path: Path) -> None:
    (tmp_path / "bad.sqlite").write_bytes(b"SQLite format 3\0" + b"rubbish" * 200)
    with ReplicaPool(PoolConfig(workers=1, strategy="copy")) as pool:
        for _ in range(40):  # more than a worker may have files
            for name in ("bad.sqlite", "absent.sqlite"):
                with pytest.raises(InputError, match=name):
                    pool.acquire("t", tmp_path / name)
        assert rows(pool, template) == ((4,),)


@contextmanager
def limited_file_size(size: int) -> Iterator[None]:
    """Every write of this process beyond `size` fails, as on a full disk."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def test_a_disk_that_is_full_when_copies_are_made(template: Path, tmp_path: Path) -> None:
    with ReplicaPool(PoolConfig(workers=2, strategy="copy", folder=tmp_path)) as pool:
        for replica in pool._replicas:
            replica.process.result(60)  # their shared memory is a file, too
        with (
            limited_file_size(template.stat().st_size // 2),
            pytest.raises(InfraError, match=f"cannot write a copy of {template}.*free space in {tmp_path}"),
        ):
            pool.materialise([template])
        assert rows(pool, template) == ((4,),)
    with (
        ReplicaPool(PoolConfig(workers=1, strategy="copy", folder=tmp_path / "absent")) as pool,
        pytest.raises(InfraError, match="absent: cannot make a replica's file"),
    ):
        pool.acquire("t", template)


FULL_DISK = """
import sys
from pathlib import Path
from birdrl.errors import InfraError
from birdrl.sql import PoolConfig, ReplicaPool
template, other, folder, strategy = Path(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3]), sys.argv[4]
grow = "CREATE TABLE big (x); WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 500)" \\
    " INSERT INTO big SELECT zeroblob(4000) FROM n"
with ReplicaPool(PoolConfig(workers=1, strategy=strategy, folder=folder)) as pool:
    with pool.acquire("first", template) as lease:
        try:
            print([result.status for result in lease.execute(grow)])
        except InfraError as error:
            print("infra:", error)
    filler = open(folder / "filler", "wb", buffering=0)
    try:
        while True:
            filler.write(bytes(4096))
    except OSError as error:
        print("full:", error.strerror)
    for name in ("second", "third"):
        try:
            with pool.acquire(name, other) as lease:
                print([result.status for result in lease.execute("DELETE FROM item; SELECT 1")])
        except InfraError as error:
            print("infra:", error)
    filler.truncate(0)
    for path in (template, other):  # the first gives back what its grown copy held
        with pool.acquire("fourth", path) as lease:
            print(lease.execute("SELECT count(*) FROM item")[0].rows)
    print(pool.counters.kills, sorted(path.name for path in folder.iterdir()))
"""
MOUNT = 'mount -t tmpfs -o size=256k none "$4" && exec "$0" -c "$1" "$2" "$3" "$4" "$5"'


def run_on_small_disk(template: Path, other: Path, folder: Path, strategy: str) -> list[str]:
    folder.mkdir()
    namespace = ["unshare", "--mount", *([] if os.geteuid() == 0 else ["--map-root-user"])]
    try:
        probe = subprocess.run([*namespace, "sh", "-c", f"mount -t tmpfs none {folder}"], capture_output=True)
    except FileNotFoundError:
        pytest.skip("needs unshare (util-linux) to mount a small disk")
    if probe.returncode != 0:
        pytest.skip(f"may not mount a small disk here: {probe.stderr.decode().strip()}")
    arguments = [sys.executable, FULL_DISK, str(template), str(other), str(folder), strategy]
    done = subprocess.run(
        [*namespace, "sh", "-c", MOUNT, *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, "TMPDIR": str(folder)},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_a_full_disk_is_nobodys_zero_and_changes_nothing(make_template: Callable[..., Path], tmp_path: Path) -> None:
    """A small disk of its own, filled by a copy that grows and then by somebody else."""
    template, other = make_template(), make_template()
    before = sha256_file(template)
    grown, full, second, third, *after, end = run_on_small_disk(template, other, tmp_path / "disk", "copy")
    assert grown.startswith("infra: trajectory 'first': cannot write a replica's file (No space left on device)")
    assert full == "full: No space left on device"
    for lease in (second, third):
        assert lease.startswith(f"infra: cannot write a copy of {other} (No space left on device); free space in")
    assert after == ["((4,),)"] * 2
    assert end == "0 ['filler']"
    assert sha256_file(template) == sha256_file(other) == before


def test_an_overlay_needs_no_disk(template: Path, tmp_path: Path) -> None:
    grown, full, second, third, *after, end = run_on_small_disk(template, template, tmp_path / "disk", "overlay")
    assert grown == "['ok', 'ok']"
    assert full == "full: No space left on device"
    assert second == third == "['ok', 'ok']"
    assert (after, end) == (["((4,),)"] * 2, "0 ['filler']")
