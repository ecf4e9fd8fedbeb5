"""The ways to give every trajectory a database of its own, behind one interface: what benchmarks/pool.py compares."""

from __future__ import annotations

import os
import shutil
import tempfile
from abc import ABC, abstractmethod
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import apsw

from benchmarks._harness import children, written_bytes
from birdrl.errors import InfraError
from birdrl.sql.copies import CopyStorage
from birdrl.sql.io_model import IoStrategy
from birdrl.sql.overlay import OverlayStorage
from birdrl.sql.pool import PoolConfig, ReplicaPool
from birdrl.sql.results import StatementResult
from birdrl.sql.session import Session
from birdrl.sql.storage import Template

QUOTA_BYTES = 256 << 20
TIMEOUT_S = 60.0
REPLICAS = 2  # of a pool; one client uses one at a time

Rows = tuple[tuple[Any, ...], ...]


class Strategy(ABC):
    """One trajectory at a time: `lease`, any number of `execute`, `release`.

    `io`: its row of the I/O model. `dirty_only`: a lease is dearer when it has to undo an earlier trajectory; `resets`
    counts these leases. `materialised`: bytes written beforehand, for `replicas` replicas.
    """

    name: str
    io: IoStrategy
    dirty_only = False
    resets = 0
    materialised = 0
    replicas = 1

    @abstractmethod
    def lease(self) -> None: ...

    @abstractmethod
    def execute(self, script: str) -> Rows:
        """Run a script; returns the rows of its last statement."""

    @abstractmethod
    def release(self) -> None: ...

    def written(self) -> int:
        """Bytes written to files so far, by every process of the strategy; ended ones are in their parent's count."""
        return written_bytes([os.getpid()])

    def disk_bytes(self) -> float:
        """Disk that one replica in use occupies."""
        return 0.0

    def close(self) -> None:  # noqa: B027 - most hold nothing between two rollouts
        """Give everything back."""


class FreshCopy(Strategy):
    """The naive baseline: a copy of the file and a new connection for every rollout, deleted afterwards.

    As cheap as it gets: in this process, without fsync, without a policy, by the kernel's own copy
    (`shutil.copyfile`), the template in the page cache.
    """

    name = "fresh copy per rollout"
    io: IoStrategy = "fresh_copy"

    def __init__(self, template: Path, work: Path) -> None:
        self.template = template
        self._paths = (work / f"fresh-{number}.sqlite" for number in count())

    def lease(self) -> None:
        self.path = next(self._paths)
        shutil.copyfile(self.template, self.path)
        self.connection = apsw.Connection(str(self.path))
        self.connection.execute("PRAGMA synchronous=OFF")
        self.connection.execute("SELECT COUNT(*) FROM sqlite_schema").fetchall()  # opening is lazy: read the schema

    def execute(self, script: str) -> Rows:
        return tuple(self.connection.execute(script))

    def release(self) -> None:
        self.connection.close()
        self.path.unlink()

    def disk_bytes(self) -> float:
        return float(self.template.stat().st_size)


class InProcess(Strategy):
    """A replica of ours and its session, in this process: what the strategy itself costs."""

    def __init__(self, name: str, io: IoStrategy, template: Path, work: Path, *, copy: bool, always: bool) -> None:
        self.name = name
        self.io = io
        self.dirty_only = not always
        self._always = always
        self._template = Template(template)
        if copy:
            fd, path = tempfile.mkstemp(dir=work)
            os.unlink(path)
            storage = CopyStorage(self._template, QUOTA_BYTES, fd)
            storage.reset()
            self.materialised = self._template.size
            self._session = Session(self._template, QUOTA_BYTES, storage)
        else:
            self._session = Session(self._template, QUOTA_BYTES, OverlayStorage(self._template, QUOTA_BYTES))
        self._copy = copy

    def lease(self) -> None:
        self.resets += self._session.renew(reset=self._always)
        self._session.load_schema()  # lazy as well: every strategy's lease ends ready for the first statement

    def execute(self, script: str) -> Rows:
        return _rows(list(self._session.execute(script, TIMEOUT_S, TIMEOUT_S, 10_000)))

    def release(self) -> None:
        pass  # lazy: the next lease does what is needed

    def disk_bytes(self) -> float:
        return float(self._template.size) if self._copy else 0.0

    def close(self) -> None:
        self._session.close()
        self._template.close()


class Pooled(Strategy):
    """A `ReplicaPool`: every replica in a worker process that can be killed."""

    def __init__(self, name: str, io: IoStrategy, template: Path, config: PoolConfig) -> None:
        self.name = name
        self.io = io
        self.dirty_only = config.reset == "dirty"
        self.template = template
        self.replicas = config.workers
        before = set(children())
        self._pool = ReplicaPool(config)
        self.materialised = self._pool.materialise([template])
        self._number = count()
        leases = [self._pool.acquire(f"start-{i}", template) for i in range(config.workers)]
        for lease in leases:
            lease.release()
        self._workers = sorted(set(children()) - before)

    def lease(self) -> None:
        self._lease = self._pool.acquire(f"trajectory-{next(self._number)}", self.template)

    def execute(self, script: str) -> Rows:
        return _rows(self._lease.execute(script))

    def release(self) -> None:
        self._lease.release()

    @property
    def resets(self) -> int:  # type: ignore[override]
        return self._pool.counters.resets

    def written(self) -> int:
        return written_bytes([os.getpid(), *self._workers])

    def disk_bytes(self) -> float:
        return self._pool.disk_bytes / self.replicas

    def close(self) -> None:
        self._pool.close()


class FreshContainer(Strategy):
    """The paper's baseline with our isolation: a copy and a worker process of its own for every rollout."""

    name = "fresh copy and process per rollout"
    io: IoStrategy = "fresh_copy"

    def __init__(self, template: Path, config: PoolConfig) -> None:
        self.template = template
        self._config = config

    def lease(self) -> None:
        self._pool = ReplicaPool(self._config)
        self._lease = self._pool.acquire("trajectory", self.template)

    def execute(self, script: str) -> Rows:
        return _rows(self._lease.execute(script))

    def release(self) -> None:
        self._lease.release()
        self._pool.close()

    def disk_bytes(self) -> float:
        return float(self.template.stat().st_size)


def in_process(template: Path, work: Path) -> list[Strategy]:
    """Everything in this process. The first is the baseline."""
    return [
        FreshCopy(template, work),
        InProcess("copy, reset at every lease", "always_reset", template, work, copy=True, always=True),
        InProcess("copy, reset when dirty", "fixed_pool", template, work, copy=True, always=False),
        InProcess("overlay", "overlay", template, work, copy=False, always=False),
    ]


def pooled(template: Path, work: Path) -> list[Strategy]:
    """Every replica in a worker process. The first is the baseline."""

    overlay = PoolConfig(workers=REPLICAS, statement_timeout_s=TIMEOUT_S, overlay_mb=QUOTA_BYTES >> 20, folder=work)
    copy = replace(overlay, strategy="copy")
    return [
        FreshContainer(template, replace(copy, workers=1)),
        Pooled("pool: copy, reset at every lease", "always_reset", template, replace(copy, reset="always")),
        Pooled("pool: copy, reset when dirty", "fixed_pool", template, copy),
        Pooled("pool: overlay", "overlay", template, overlay),
    ]


def _rows(results: list[StatementResult]) -> Rows:
    last = results[-1]
    if not last.ok:
        raise InfraError(f"a benchmark statement failed ({last.status}, {last.message}): {last.sql}")
    return last.rows
