"""Prompt sets: text files in `prompts/<set>/<family>_<role>.txt`, each with a hash that runs record.

The families are those of the two papers' appendices: the SQL-Act scaffold (`agentic`), single-turn debugging
(`reasoning`), `generation`, `baseline`, `thought_writing`, `thought_verification`, `judge`, and the two rubric
prompts. Set `paper` is written for models that follow long instructions, set `compact` for small ones: the
issue in about 130 tokens, with only the tables at hand.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from string import Template

from birdrl.agent.answers import join_statements
from birdrl.agent.schema_text import compact_table, table_ddl, tables_at_hand, working_tables
from birdrl.agent.templating import neutral
from birdrl.errors import InputError
from birdrl.files import sha256_text
from birdrl.gym.instance import Instance
from birdrl.gym.schema import Schema

PROMPTS = Path(__file__).with_name("prompts")
FAMILIES: tuple[str, ...] = (
    "agentic", "reasoning", "generation", "baseline", "thought_writing", "thought_verification", "judge",
    "rubric_extraction", "rubric_verification",
)  # fmt: skip
ROLES = ("system", "user")

Messages = list[dict[str, str]]


@dataclass(frozen=True)
class PromptSet:
    """The prompts of one set. `hashes` maps file names to SHA-256, for the record of a run."""

    name: str
    texts: dict[str, str] = field(repr=False)

    @property
    def hashes(self) -> dict[str, str]:
        return {f"{self.name}/{key}.txt": sha256_text(text) for key, text in sorted(self.texts.items())}

    def reasoning(self, instance: Instance, schema: Schema) -> Messages:
        """System and user message of single-turn debugging (stages 1 and 3)."""
        return self.render("reasoning", **self._issue(instance, schema))

    def agentic(self, instance: Instance, schema: Schema) -> Messages:
        """System and user message of the SQL-Act scaffold (stages 2 and 4); the chat template adds the tools."""
        return self.render("agentic", **self._issue(instance, schema))

    def baseline(self, instance: Instance, schema: Schema) -> Messages:
        """System and user message for models that were not trained here."""
        return self.render("baseline", **self._issue(instance, schema))

    def generation(self, question: str, schema: Schema, evidence: str = "") -> Messages:
        """System and user message of text-to-SQL from scratch."""
        shown = self._schema_text(schema, f"{question}\n{evidence}")
        return self.render("generation", schema=shown, question=question, evidence=evidence)

    def about_issue(self, family: str, instance: Instance, schema: Schema, **slots: str) -> Messages:
        """A prompt of a teacher, judge or rubric family about one issue; the solution is among its slots."""
        return self.render(
            family, **self._issue(instance, schema), sol_sql=neutral(join_statements(instance.sol_sql)), **slots
        )

    def render(self, family: str, **slots: str) -> Messages:
        """The messages of a family with its slots filled; slots that a text does not use are ignored.

        Raises InputError for an unknown family or a slot that is missing.
        """
        messages = []
        for role in ROLES:
            key = f"{family}_{role}"
            if key not in self.texts:
                raise InputError(f"prompt set {self.name!r} has no {key}.txt; families are: {', '.join(FAMILIES)}")
            try:
                text = Template(self.texts[key]).substitute(slots)
            except (KeyError, ValueError) as error:
                raise InputError(
                    f"prompts/{self.name}/{key}.txt: slot {error} cannot be filled; correct the file"
                ) from error
            messages.append({"role": role, "content": re.sub(r"\n{2,}", "\n\n", text).strip()})
        return messages

    def _issue(self, instance: Instance, schema: Schema) -> dict[str, str]:
        issue_sql = join_statements(instance.issue_sql)
        prepared = working_tables(instance.preprocess_sql)
        with_working = schema.model_copy(update={"tables": [*schema.tables, *prepared]})
        return {
            "schema": self._schema_text(with_working, f"{issue_sql}\n{instance.query}"),
            "issue": neutral(instance.query.strip()),
            "issue_sql": neutral(issue_sql),
        }

    def _schema_text(self, schema: Schema, mentioned_in: str) -> str:
        if self.name == "compact":
            text = "\n".join(compact_table(table) for table in tables_at_hand(schema, mentioned_in))
        else:
            text = "\n\n".join(table_ddl(table) for table in schema.tables)
        return neutral(text)


def load_prompts(name: str) -> PromptSet:
    """The prompt set of that name. Raises InputError that names the sets, or a file that is missing."""
    folder = PROMPTS / name
    if not re.fullmatch(r"[a-z0-9_]+", name) or not folder.is_dir():
        known = ", ".join(sorted(path.name for path in PROMPTS.iterdir() if path.is_dir() and path.name[0] != "_"))
        raise InputError(f"agent.prompts: no prompt set {name!r}; sets are: {known}")
    texts = {}
    for key in (f"{family}_{role}" for family in FAMILIES for role in ROLES):
        path = folder / f"{key}.txt"
        if not path.is_file():
            raise InputError(f"{path}: missing; every prompt set has all of: {', '.join(FAMILIES)}")
        texts[key] = path.read_text(encoding="utf-8")
    return PromptSet(name, texts)
