"""A text-to-SQL task: a question and its reference SQL, without an issue (the generation side of BIRD-ZENO)."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from birdrl.gym.instance import TestCase


class GenerationTask(BaseModel):
    """`(Q, S) -> SQL`: BIRD, mini-dev, Spider and LiveSQLBench. Unknown fields of imported rows are kept."""

    model_config = ConfigDict(extra="allow", frozen=True)

    instance_id: str
    db_id: str
    question: str
    evidence: str = Field("", description="External knowledge that belongs to the question.")
    sol_sql: list[str] = Field(default_factory=list, description="Reference SQL; not every public file has it.")
    difficulty: str = ""
    category: str = "query"
    dialect: str = "SQLite"
    preprocess_sql: list[str] = Field(default_factory=list)
    clean_up_sql: list[str] = Field(default_factory=list)
    test_cases: list[TestCase] = Field(default_factory=list)
    source: dict[str, Any] = Field(default_factory=dict, description="File and row, and what importing changed.")

    def row(self) -> dict[str, Any]:
        """JSON-ready form, fields in declaration order."""
        return self.model_dump(mode="json")
