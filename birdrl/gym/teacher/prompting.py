"""What the teacher is asked, and the forms in which it answers."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from string import Template
from typing import Any

from pydantic import BaseModel, ConfigDict

from birdrl.gym.instance import Category
from birdrl.gym.rewind import KINDS
from birdrl.gym.schema import Schema
from birdrl.gym.teacher.posts import Post

Messages = list[dict[str, str]]

MAX_COLUMNS = 120  # of the database, shown to the teacher
OTHER = "other"  # a bug of no kind of the taxonomy
RULES: dict[Category, str] = {
    "query": "The SQL only reads; the repair is judged by the rows it returns.",
    "management": "The SQL changes data or tables; the repair is judged by the state that it leaves.",
    "personalization": "The user has a wish about how the SQL is written: name it in `required` or `forbidden`.",
}
# A choice of the names in birdrl.sql.features.
FEATURES = (
    "cte", "recursive_cte", "window", "subquery", "correlated_subquery", "exists", "join", "left_join", "union",
    "intersect", "except", "case", "group_by", "having", "distinct", "in", "like", "between", "upsert", "returning",
)  # fmt: skip


class _Form(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Adapted(_Form):
    """Correct SQL for the target database."""

    sql: list[str]
    task: str


class Perturbed(_Form):
    """A bug, its record and how a repair is tested."""

    kind: str
    cause: str
    intent: str
    issue_sql: list[str]
    issue_fails: bool
    ordered: bool
    probes: list[str]
    required: list[str]
    forbidden: list[str]


class Described(_Form):
    """The user's message."""

    query: str


class Verdict(_Form):
    """Whether message, buggy SQL and repair belong together."""

    consistent: bool
    reason: str


def ask_to_adapt(post: Post, schema: Schema) -> Messages:
    """Move the post's SQL to this database."""
    sql = "\n\n".join(f"```sql\n{block}\n```" for block in post.sql)
    return _messages("adapt", schema, title=post.title, text=post.text, sql=sql)


def ask_to_perturb(post: Post, schema: Schema, adapted: Adapted, category: Category) -> Messages:
    """Put a bug into correct SQL."""
    return _messages(
        "perturb", schema, title=post.title, text=post.text, task=adapted.task, solution=_script(adapted.sql),
        category=category, rules=RULES[category], kinds=", ".join(sorted(KINDS)), features=", ".join(FEATURES),
    )  # fmt: skip


def ask_to_describe(post: Post, schema: Schema, perturbed: Perturbed, min_words: int, max_words: int) -> Messages:
    """Write the user's message."""
    demands = [f"The user demands: {', '.join(perturbed.required)}."] if perturbed.required else []
    demands += [f"The user refuses: {', '.join(perturbed.forbidden)}."] if perturbed.forbidden else []
    return _messages(
        "describe", schema, title=post.title, text=post.text, issue=_script(perturbed.issue_sql),
        cause=perturbed.cause, intent=perturbed.intent, demands=" ".join(demands), min_words=min_words,
        max_words=max_words,
    )  # fmt: skip


def ask_to_verify(schema: Schema, query: str, issue: Sequence[str], solution: Sequence[str]) -> Messages:
    """Judge whether they belong together."""
    return _messages("verify", schema, query=query, issue=_script(issue), solution=_script(solution))


def once_more(messages: Messages, answer: BaseModel | None, reason: str) -> Messages:
    """The conversation, continued after an answer that was not accepted."""
    said = [{"role": "assistant", "content": answer.model_dump_json()}] if answer is not None else []
    wish = {"role": "user", "content": f"That was not accepted: {reason}. Answer again, as JSON of the same form."}
    return [*messages, *said, wish]


def schema_lines(schema: Schema) -> str:
    """`table(column TYPE 'example', ...)`, a line a table, with keys; at most MAX_COLUMNS columns in all."""
    lines: list[str] = []
    left = MAX_COLUMNS
    for table in schema.tables:
        columns = []
        for column in table.columns[: max(left, 0)]:
            examples = ", ".join(repr(value) for value in column.examples)
            key = " primary key" if column.primary_key else ""
            columns.append(f"{column.name} {column.type}{key}{f' [{examples}]' if examples else ''}".strip())
        left -= len(columns)
        keys = [f"{key.column} -> {key.ref_table}.{key.ref_column}" for key in table.foreign_keys]
        lines.append(f"{table.name}({', '.join(columns)}) {table.rows} rows{'; ' + '; '.join(keys) if keys else ''}")
    return "\n".join(lines)


def _messages(name: str, schema: Schema, **values: Any) -> Messages:
    body = Template(_prompt(name)).substitute({"db_id": schema.db_id, "schema": schema_lines(schema), **values})
    return [{"role": "system", "content": _prompt("system").strip()}, {"role": "user", "content": body.strip()}]


@cache
def _prompt(name: str) -> str:
    return (Path(__file__).parent / "prompts" / f"{name}.txt").read_text(encoding="utf-8")


def _script(statements: Sequence[str]) -> str:
    return "```sql\n" + ";\n".join(statement.rstrip("; \n") for statement in statements) + ";\n```"


def known_kind(name: str) -> tuple[str, str]:
    """(kind, family) of the bug record; what the taxonomy does not know is `other`."""
    return (name, KINDS[name].family) if name in KINDS else (OTHER, OTHER)
