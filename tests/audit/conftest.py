"""Instances for the audit, written so that a test only says what matters to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from birdrl.gym.instance import Instance
from birdrl.params import AuditParams


@pytest.fixture
def make() -> Callable[..., Instance]:
    """An instance from its id, text and buggy SQL; the rest has defaults that overlap with nothing."""

    def build(
        instance_id: str,
        query: str = "",
        issue_sql: str | list[str] = "SELECT 1",
        *,
        db_id: str = "",
        solution: str | None = None,
        source: dict[str, Any] | None = None,
    ) -> Instance:
        return Instance(
            instance_id=instance_id,
            db_id=db_id or f"db_of_{instance_id}",
            category="query",
            query=query or f"the report named {instance_id} is wrong",
            issue_sql=[issue_sql] if isinstance(issue_sql, str) else issue_sql,
            sol_sql=[solution if solution is not None else f"SELECT {instance_id}_solution"],
            source=source or {},
        )

    return build


@pytest.fixture
def params() -> AuditParams:
    return AuditParams()
