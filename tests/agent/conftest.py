"""Fakes of this folder: a lease that answers from a script, an instance, a schema."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from birdrl.gym.instance import Instance
from birdrl.gym.schema import Column, ForeignKey, Schema, Table
from birdrl.params import AgentParams
from birdrl.sql.results import StatementResult


def ok(sql: str, columns: tuple[str, ...] = (), rows: tuple[tuple[object, ...], ...] = ()) -> StatementResult:
    return StatementResult(
        sql=sql, status="ok", columns=columns, rows=rows, truncated=False, message="", rows_changed=0, elapsed_s=0.01
    )


def failed(sql: str, status: str, message: str) -> StatementResult:
    return StatementResult(
        sql=sql, status=status, columns=(), rows=(), truncated=False, message=message, rows_changed=0, elapsed_s=0.01
    )


class FakeLease:
    """Answers every script with `answer(script)` and records what it was asked."""

    def __init__(self, answer: Callable[[str], list[StatementResult]] | None = None) -> None:
        self.answer = answer or (lambda script: [ok(script, ("n",), ((1,),))])
        self.scripts: list[str] = []
        self.limits: list[tuple[float | None, float | None]] = []

    def execute(
        self,
        script: str,
        *,
        timeout_s: float | None = None,
        max_rows: int | None = None,
        script_timeout_s: float | None = None,
    ) -> list[StatementResult]:
        self.scripts.append(script)
        self.limits.append((timeout_s, script_timeout_s))
        return self.answer(script)


@pytest.fixture
def agent_params() -> AgentParams:
    return AgentParams.model_validate({"max_turns": 3, "observation_bytes": 200})


@pytest.fixture
def instance() -> Instance:
    return Instance.model_validate(
        {
            "instance_id": "shop_1",
            "db_id": "shop",
            "category": "query",
            "query": "I want the orders of at least 20 euros, but those of exactly 20 are missing.",
            "issue_sql": ["SELECT id FROM orders WHERE price > 20"],
            "sol_sql": ["SELECT id FROM orders WHERE price >= 20"],
            "test_cases": [{"kind": "result"}],
            "bug": {
                "kind": "comparison_boundary",
                "family": "filtering",
                "cause": "The bound is left out.",
                "intent": "x",
            },
        }
    )


def column(name: str, type_: str = "TEXT", **more: object) -> Column:
    return Column.model_validate({"name": name, "type": type_, "label": name.replace("_", " "), **more})


@pytest.fixture
def schema() -> Schema:
    return Schema(
        db_id="shop",
        tables=[
            Table(
                name="customers",
                label="customers",
                rows=3,
                columns=[
                    column("id", "INTEGER", primary_key=True),
                    column("name", not_null=True, examples=["Ann", "B\nob"]),
                ],
            ),
            Table(
                name="orders",
                label="orders",
                rows=5,
                columns=[
                    column("id", "INTEGER", primary_key=True),
                    column("customer_id", "INTEGER"),
                    column("price", "REAL"),
                ],
                foreign_keys=[ForeignKey(column="customer_id", ref_table="customers", ref_column="id")],
            ),
            Table(name="order log", label="order log", rows=0, columns=[column("group", "")]),
        ],
    )
