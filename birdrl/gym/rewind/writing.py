"""The issue text: the few words of the bug kind alone, or a report as people post it.

A report is put together from what its author knows: the data at hand, what is wanted, what comes back, what was
expected and tried. Wordings are drawn, facts never are; nothing says what is wrong inside the SQL.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Literal

from birdrl.gym.rewind import wordings
from birdrl.gym.rewind.draft import Draft
from birdrl.gym.rewind.tree import tables_of
from birdrl.gym.schema import Schema, Table
from birdrl.gym.sql_text import tokens

TextStyle = Literal["brief", "report"]

MIN_MESSAGE = 10  # characters of a part of an error message that tell it
MAX_CELL = 24  # characters of a value that a report shows
MAX_COLUMNS = 12  # of a table that a report lists
MAX_TABLES = 8  # of a database that a report lists
SAID_SHARE = 0.8  # of an intent's longer words that stand in the symptom already: it would be said twice


@dataclass(frozen=True)
class Facts:
    """What running the issue shows: its result, or with `state` what is in the changed table afterwards."""

    error: str = ""
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[Any, ...], ...] = ()
    expected_rows: int | None = None
    state: bool = False


def write_text(draft: Draft, facts: Facts, schema: Schema, rng: Random, style: TextStyle) -> str:
    """The user's text. `brief` is the draft's own words, `report` surrounds them with context."""
    if style == "brief":
        return draft.query
    order = rng.choice(wordings.ORDERS[draft.category != "query"])
    sequence = [name for group in order for name in group]
    again = sequence.index("symptom") < sequence.index("goal")
    parts = _parts(draft, facts, schema, rng, again=again)
    paragraphs = [" ".join(text for name in group if (text := parts[name])) for group in order]
    return ("\n" if rng.random() < 0.3 else " ").join(paragraph for paragraph in paragraphs if paragraph)


def _parts(draft: Draft, facts: Facts, schema: Schema, rng: Random, *, again: bool) -> dict[str, str]:
    """The sections of a report by name; sections left out are empty. `again`: the goal stands behind the symptom."""
    database = draft.db_id.replace("_", " ")
    goal = _goal(draft, schema, rng, again=again)
    tried = wordings.TRIED.get(draft.family, ()) + wordings.TRIED_ANYWAY
    return {
        "opening": _some(rng, (0.15, 0.85), wordings.OPENINGS[draft.category]).format(database=database),
        "data": _data(draft, schema, rng) if rng.random() < 0.8 or not goal else "",
        "goal": goal,
        "use": _some(rng, (0.4, 0.6) if goal else (0.0, 1.0), wordings.USES),
        "symptom": draft.query,
        "observed": _observed(draft, facts, rng),
        "tried": _some(rng, (0.15, 0.5, 0.35), tried),
        "ask": _some(rng, (0.1, 0.65, 0.25), wordings.ASKS),
    }


def _some(rng: Random, shares: Sequence[float], options: Sequence[str]) -> str:
    """None, one, two... of the sentences, each number with its share."""
    count = rng.choices(range(len(shares)), shares)[0]
    return " ".join(rng.sample(options, count))


def _goal(draft: Draft, schema: Schema, rng: Random, *, again: bool) -> str:
    """What is wanted: the question and the intent, without an intent that the symptom has told."""
    told = _told(draft.query, draft.intent)
    if draft.question:
        goal = rng.choice(wordings.QUESTIONS).format(question=draft.question.strip())
        return goal if rng.random() < 0.6 or told else f"{goal} {_intent(draft, schema, rng, again=True)}"
    return "" if told else _intent(draft, schema, rng, again=again)


def _told(symptom: str, intent: str) -> bool:
    """Whether the symptom says what the intent says."""
    said, words = (set(tokens(text.replace("'", " "))) for text in (symptom, intent))
    wanted = {word for word in words if word[0].isalnum() and (len(word) > 4 or not word.isalpha())}
    return bool(wanted) and len(wanted & said) >= SAID_SHARE * len(wanted)


def _intent(draft: Draft, schema: Schema, rng: Random, *, again: bool) -> str:
    wanted = draft.intent.strip().rstrip(".")
    names = {name for table in schema.tables for name in (table.name, *(column.name for column in table.columns))}
    first = re.split(r"[^\w]", wanted, maxsplit=1)[0].lower()
    if first not in {name.lower() for name in names}:  # a name is written as it is
        wanted = wanted[:1].lower() + wanted[1:]
    return rng.choice(wordings.INTENTS_AGAIN if again else wordings.INTENTS).format(intent=wanted)


def _data(draft: Draft, schema: Schema, rng: Random) -> str:
    """Tables of the issue in prose, with columns, sizes and sample values; now and then the whole database."""
    names = dict.fromkeys(name for sql in draft.issue_sql for name in tables_of(sql))
    tables = [table for name in names if (table := schema.table(name))][:3]
    if rng.random() < 0.06:
        tables = schema.tables[:MAX_TABLES]
    return " ".join(_table(table, rng) for table in tables)


def _table(table: Table, rng: Random) -> str:
    columns = [column.name for column in table.columns]
    if len(columns) > MAX_COLUMNS:
        columns = [*columns[:MAX_COLUMNS], "some more"]
    listed = f"{', '.join(columns[:-1])} and {columns[-1]}" if len(columns) > 1 else columns[0]
    text = rng.choice(wordings.TABLES).format(table=table.name, columns=listed)
    if rng.random() < 0.35:
        text += " " + rng.choice(wordings.SIZES).format(rows=table.rows)
    shown = [column for column in table.columns if column.examples]
    if shown and rng.random() < 0.55:
        chosen = rng.sample(shown, min(rng.randint(2, 4), len(shown)))
        pairs = [f"{column.name} {_cell(rng.choice(column.examples))}" for column in chosen]
        text += " " + rng.choice(wordings.SAMPLES).format(values=", ".join(pairs))
    return text


def _observed(draft: Draft, facts: Facts, rng: Random) -> str:
    """What comes back, and what was expected instead."""
    if facts.error and draft.issue_fails:
        said = draft.query.lower()
        known = any(part.strip().lower() in said for part in facts.error.split(":") if len(part) >= MIN_MESSAGE)
        return "" if known else rng.choice(wordings.ERRORS).format(error=facts.error)
    if facts.expected_rows is None or not facts.columns:
        return ""
    count = len(facts.rows)
    if facts.state and count == 0:
        seen = rng.choice(wordings.NOTHING_LEFT)
    elif facts.state:
        seen = rng.choice(wordings.ROWS_LEFT).format(count=_rows(count), shown=_shown(facts, rng))
    elif count == 0:
        seen = rng.choice(wordings.NOTHING_SEEN)
    elif count == 1 and len(facts.rows[0]) == 1:
        seen = rng.choice(wordings.VALUE_SEEN).format(value=_cell(facts.rows[0][0]))
    else:
        shown = _shown(facts, rng)
        seen = rng.choice(wordings.ROWS_SEEN).format(count=_rows(count), shown=shown)
    if facts.expected_rows != count and rng.random() < 0.7:
        seen += " " + rng.choice(wordings.EXPECTED).format(count=_rows(facts.expected_rows))
    return re.sub(r"\n[.;] ?", "\n", seen)  # a printed table ends its sentence


def _shown(facts: Facts, rng: Random) -> str:
    """The first rows as a person types them, or as a client prints them."""
    rows = facts.rows[: rng.choice((1, 2, 3, 3, 5, 8))]
    if rng.random() < 0.35:
        lines = [" | ".join(facts.columns), *(" | ".join(map(_cell, row)) for row in rows)]
        return "\n" + "\n".join(lines) + "\n"
    return ", ".join("(" + ", ".join(map(_cell, row)) + ")" for row in rows)


def _cell(value: Any) -> str:
    text = "NULL" if value is None else f"{value:.6g}" if isinstance(value, float) else str(value)
    flat = " ".join(text.split())
    return flat if len(flat) <= MAX_CELL else f"{flat[: MAX_CELL - 2]}.."


def _rows(count: int) -> str:
    return "1 row" if count == 1 else f"{count} rows"
