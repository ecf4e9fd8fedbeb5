"""The SQL issue, its test cases and its bug record.

Field names are those of the published SIX-GYM and BIRD-CRITIC files; what only birdrl knows lives in
`bug`, `source` and the structured test cases. Unknown fields of imported rows are kept.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from birdrl.errors import InputError
from birdrl.files import read_jsonl

Category = Literal["query", "management", "personalization"]
CATEGORIES: tuple[Category, ...] = ("query", "management", "personalization")
OWN_FIELD = "birdrl"  # of a row in a public form: holds what that form has no field for (birdrl.formats)


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ResultTest(_Strict):
    """The last result table of the prediction equals that of the solution on a pristine replica."""

    kind: Literal["result"] = "result"
    ordered: bool = Field(False, description="Row order counts (the solution has a top-level ORDER BY).")
    setup_sql: list[str] = Field(
        default_factory=list, description="Run before either side: a perturbed database that constant answers fail."
    )


class StateTest(_Strict):
    """After the prediction, a probe query gives what it gives after the solution."""

    kind: Literal["state"] = "state"
    probe_sql: str = Field(description="One SELECT over the resulting state, run on a fresh connection.")
    setup_sql: list[str] = Field(default_factory=list, description="Run before either side.")


class FeatureTest(_Strict):
    """The prediction uses every required SQL feature and none of the forbidden ones (read off its syntax tree)."""

    kind: Literal["feature"] = "feature"
    required: list[str] = Field(default_factory=list, description="Feature names, see birdrl.sql.features.")
    forbidden: list[str] = Field(default_factory=list, description="Feature names, see birdrl.sql.features.")


class PlanTest(_Strict):
    """A query is answered through an index: the prediction's last statement, or a query of the test's own after it."""

    kind: Literal["plan"] = "plan"
    index: str = Field("", description="Name of the index that the plan must use; empty: any index of `table`.")
    table: str = Field("", description="Table whose indexes count when no index is named.")
    query_sql: str = Field("", description="Query to be planned; empty: the prediction's last statement.")
    setup_sql: list[str] = Field(default_factory=list, description="Run before either side.")

    @model_validator(mode="after")
    def _names_something(self) -> PlanTest:
        if not (self.index or self.table):
            raise ValueError("a plan test names an index or a table")
        return self


class PythonTest(_Strict):
    """The public form: source of `test_case(pred_sqls, sol_sqls, db_path, conn[, conditions])`, run in a sandbox."""

    kind: Literal["python"] = "python"
    source: str = Field(description="Python source that defines test_case; it passes if the call returns.")


def _public_form(value: Any) -> Any:
    return {"kind": "python", "source": value} if isinstance(value, str) else value


TestCase = Annotated[
    Annotated[ResultTest | StateTest | FeatureTest | PlanTest | PythonTest, Field(discriminator="kind")],
    BeforeValidator(_public_form),
]


class BugRecord(_Strict):
    """What the rewinder did, in words: the source of the issue text's facts and of the teacher's thought."""

    kind: str = Field(description="Bug kind of the taxonomy, for example 'comparison_boundary'.")
    family: str = Field(description="Group of kinds, for example 'filtering'.")
    cause: str = Field(description="What is wrong in issue_sql, one sentence, without quoting the repair.")
    intent: str = Field(description="What the user wants instead, one sentence in the user's words.")


class Instance(BaseModel):
    """One SQL issue: `(P, S, issue_sql)` with its tests and its verified solution (BIRD-RL, section 2.1)."""

    model_config = ConfigDict(extra="allow", frozen=True)

    instance_id: str = Field(description="Unique within the file.")
    db_id: str = Field(description="The database that the issue is about.")
    dialect: str = Field("SQLite", description="SQL dialect of all statements.")
    version: str = Field("", description="Version of the engine that passed the gates; empty: unknown.")
    category: Category = Field(description="query, management or personalization (Table 7).")
    query: str = Field(description="The user's description of the issue and of the intended behaviour (P).")
    issue_sql: list[str] = Field(min_length=1, description="The buggy statements, in order.")
    preprocess_sql: list[str] = Field(default_factory=list, description="Run before the issue, solution or prediction.")
    clean_up_sql: list[str] = Field(default_factory=list, description="Run after the tests where nothing is reset.")
    sol_sql: list[str] = Field(default_factory=list, description="The verified solution; not every public file has it.")
    test_cases: list[TestCase] = Field(default_factory=list, description="Executable tests that a solution passes.")
    bug: BugRecord | None = Field(None, description="What the rewinder did, in words; none for imported issues.")
    difficulty: str = Field("", description="simple, moderate or challenging (birdrl.gym.difficulty); empty: unknown.")
    source: dict[str, Any] = Field(default_factory=dict, description="Where the verified SQL came from.")

    @property
    def conditions(self) -> dict[str, Any]:
        """What the comparison of results depends on, as published (`order`); empty unless the row says so."""
        return dict((self.model_extra or {}).get("conditions") or {})

    def row(self) -> dict[str, Any]:
        """JSON-ready form, fields in declaration order."""
        return self.model_dump(mode="json")


def read_instances(path: Path) -> list[Instance]:
    """Read a JSON-lines file of instances. Raises InputError that names file, line and field."""
    instances = []
    for number, row in enumerate(read_jsonl(path), 1):
        try:
            instances.append(Instance.model_validate(row))
        except ValidationError as error:
            first = error.errors()[0]
            field = ".".join(str(part) for part in first["loc"])
            raise InputError(
                f"{path}, row {number}, field {field!r}: {first['msg']}; correct the row or remove it"
            ) from error
    return instances


def choose(instances: list[Instance], limit: int | None, seed: str) -> list[Instance]:
    """At most `limit` instances, a seeded choice, in their original order."""
    if limit is None or limit >= len(instances):
        return instances
    picked = sorted(random.Random(seed).sample(range(len(instances)), limit))
    return [instances[index] for index in picked]
