"""The naive way to execute what a gym build has to execute: a copy of the file and a connection for every lease."""

from __future__ import annotations

import os
import shutil
import tempfile
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Any, cast

import apsw

from birdrl.sql.features import SqlFeatures, extract_features
from birdrl.sql.lease import Lease
from birdrl.sql.pool import PoolConfig, ReplicaPool
from birdrl.sql.results import StatementResult
from birdrl.sql.splitting import split_statements


class FreshCopies:
    """Stands in for a ReplicaPool: everything in this process, nothing shared, nothing kept."""

    def __init__(self, config: PoolConfig) -> None:
        self.config = config
        self.leases = 0
        self._folder = Path(tempfile.mkdtemp(prefix="birdrl-naive-"))
        self._numbers = count()

    def acquire(self, _trajectory_id: str, template: Path) -> FreshLease:
        """A new copy of the template's file."""
        self.leases += 1
        path = self._folder / f"{next(self._numbers)}.sqlite"
        shutil.copyfile(template, path)
        return FreshLease(path, self.config)

    def close(self) -> None:
        shutil.rmtree(self._folder)

    def as_pool(self) -> ReplicaPool:
        """Itself, for functions that want a pool and use no more than what is here."""
        return cast("ReplicaPool", self)


class FreshLease:
    """Stands in for a Lease."""

    def __init__(self, path: Path, config: PoolConfig) -> None:
        self._path = path
        self._config = config
        self.dirty = False
        self._connection = apsw.Connection(str(path))

    def execute(self, script: str, *, max_rows: int | None = None, **_limits: Any) -> list[StatementResult]:
        """Run a script; stop after the first statement that fails. Time limits are not kept."""
        results: list[StatementResult] = []
        for piece in split_statements(script):
            if not piece.strip().strip(";").strip():
                continue
            before = self._connection.total_changes()
            cursor = self._connection.cursor()
            columns: list[tuple[str, ...]] = []
            cursor.exec_trace = lambda c, _sql, _b, seen=columns: (
                seen.append(tuple(d[0] for d in c.get_description())) or True
            )
            try:
                rows = tuple(cursor.execute(piece))
            except (apsw.Error, UnicodeDecodeError) as error:
                results.append(StatementResult(piece, "error", message=str(error)))
                return results
            limit = self._config.max_rows if max_rows is None else max_rows
            self.dirty = self.dirty or self._connection.total_changes() != before
            names = columns[-1] if columns else ()
            results.append(StatementResult(piece, "ok", names, rows[:limit], len(rows) > limit))
        return results

    def reopen(self) -> None:
        self._connection.close()
        self._connection = apsw.Connection(str(self._path))

    def features(self, script: str) -> SqlFeatures:
        return extract_features(script)

    def release(self) -> None:
        self._connection.close()
        os.unlink(self._path)

    def as_lease(self) -> Lease:
        return cast("Lease", self)

    def __enter__(self) -> FreshLease:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.release()
