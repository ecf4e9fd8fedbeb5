"""Our own expectations: gates that a row passes, or fails for a reason that is then shown.

A gate column (tasks.gate_columns) holds "passes" or, in words, why not; rows that were not tried hold nothing and are
left out by Great Expectations like any null.
"""

from __future__ import annotations

from typing import Any, ClassVar

import pandas as pd
from great_expectations.execution_engine import PandasExecutionEngine
from great_expectations.expectations.expectation import ColumnMapExpectation
from great_expectations.expectations.metrics.map_metric_provider import (
    ColumnMapMetricProvider,
    column_condition_partial,
)

from tasks.gate_columns import PASSES


class ColumnValuesPassGate(ColumnMapMetricProvider):
    """Metric behind all gates: true where the value is "passes"."""

    condition_metric_name = "column_values.pass_gate"

    @column_condition_partial(engine=PandasExecutionEngine)
    def _pandas(cls, column: pd.Series, **_: Any) -> pd.Series:
        return column == PASSES


def on_its_column(expectation: type[ColumnMapExpectation], notes: str | None = None) -> ColumnMapExpectation:
    """The expectation on the gate column that it is about."""
    return expectation(column=expectation.gate, notes=notes)


class ExpectRowToBeAnInstance(ColumnMapExpectation):
    """Every field is there and of its type."""

    map_metric: ClassVar[str] = "column_values.pass_gate"
    gate: ClassVar[str] = "form_gate"
    description: str = "every row reads as an instance: all fields there, of their types."


class ExpectSolutionToPassItsTests(ColumnMapExpectation):
    """Executed: the reference solution earns the full reward."""

    map_metric: ClassVar[str] = "column_values.pass_gate"
    gate: ClassVar[str] = "solution_gate"
    description: str = "the solution passes all tests of its instance (executed)."


class ExpectIssueToFailATest(ColumnMapExpectation):
    """Executed: there is a bug to find."""

    map_metric: ClassVar[str] = "column_values.pass_gate"
    gate: ClassVar[str] = "issue_gate"
    description: str = "the buggy SQL fails at least one test (executed)."


class ExpectEmptyAnswerToFail(ColumnMapExpectation):
    """Executed: doing nothing earns nothing."""

    map_metric: ClassVar[str] = "column_values.pass_gate"
    gate: ClassVar[str] = "empty_gate"
    description: str = "a statement that does nothing earns no reward (executed)."


class ExpectTextNotToShowSolution(ColumnMapExpectation):
    """The issue text does not give the answer away."""

    map_metric: ClassVar[str] = "column_values.pass_gate"
    gate: ClassVar[str] = "text_gate"
    description: str = "the issue text neither quotes the solution nor names the edit."


class ExpectDialogueToBeWellFormed(ColumnMapExpectation):
    """Prompt, then assistant and tool in turn, well-formed calls, one submission at the end."""

    map_metric: ClassVar[str] = "column_values.pass_gate"
    gate: ClassVar[str] = "dialogue_gate"
    description: str = "prompt, then assistant and tool in turn; every call well-formed; the last one submits."


class ExpectSubmissionToPassTheTests(ColumnMapExpectation):
    """Executed: what the trajectory submits earns the full reward."""

    map_metric: ClassVar[str] = "column_values.pass_gate"
    gate: ClassVar[str] = "submission_gate"
    description: str = "what the trajectory submits passes all tests of its instance (executed)."


class ExpectNoUnjustifiedSql(ColumnMapExpectation):
    """No SQL comes from nowhere: the solution was not copied in."""

    map_metric: ClassVar[str] = "column_values.pass_gate"
    gate: ClassVar[str] = "leak_gate"
    description: str = "all SQL follows from the issue and the thoughts before it."
