"""SQL sessions on copy-on-write replicas of read-only templates.

Names are imported on first use: a worker process that needs only a session starts in milliseconds.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from birdrl.sql.compare import tables_equal
    from birdrl.sql.features import SqlFeatures, extract_features
    from birdrl.sql.lease import Lease
    from birdrl.sql.observation import ObservationBudget, render
    from birdrl.sql.pool import ReplicaPool
    from birdrl.sql.pool_config import PoolConfig, PoolCounters, replica_share
    from birdrl.sql.results import PolicySqlError, StatementResult

__all__ = [
    "Lease",
    "ObservationBudget",
    "PolicySqlError",
    "PoolConfig",
    "PoolCounters",
    "ReplicaPool",
    "SqlFeatures",
    "StatementResult",
    "extract_features",
    "render",
    "replica_share",
    "tables_equal",
]

_HOMES = {
    "Lease": "lease",
    "ObservationBudget": "observation",
    "PolicySqlError": "results",
    "PoolConfig": "pool_config",
    "PoolCounters": "pool_config",
    "ReplicaPool": "pool",
    "SqlFeatures": "features",
    "StatementResult": "results",
    "extract_features": "features",
    "render": "observation",
    "replica_share": "pool_config",
    "tables_equal": "compare",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
