"""Dates and text patterns."""

from __future__ import annotations

from sqlglot import exp

from birdrl.gym.rewind.data import quoted, sql_literal
from birdrl.gym.rewind.draft import Bench, Draft, Text, construction, mutation
from birdrl.gym.rewind.words import like_phrase
from birdrl.gym.schema import Column, Table

_PARTS = {"%Y": "year", "%m": "month", "%d": "day of the month"}


def _date_column(bench: Bench) -> tuple[Table, Column] | None:
    options = [(t, c) for t in bench.data.tables() for c in bench.data.dates(t)]
    return bench.rng.choice(options) if options else None


@construction("dates_text", "query")
def date_part(bench: Bench) -> Draft | None:
    """Rows are grouped by another part of the date."""
    found = _date_column(bench)
    if found is None:
        return None
    table, column = found
    right, wrong = bench.rng.sample(sorted(_PARTS), 2)
    measures = bench.data.measures(table)
    figure = f"SUM({quoted(bench.rng.choice(measures).name)})" if measures and bench.rng.random() < 0.5 else "COUNT(*)"
    part = f"STRFTIME('{{0}}', {quoted(column.name)})"
    pattern = f"SELECT {part}, {figure} FROM {quoted(table.name)} GROUP BY {part}"
    report = bench.words.pick(
        f"I need one row per {_PARTS[right]} of {column.name}, not per {_PARTS[wrong]}.",
        f"It should be split by the {_PARTS[right]} of {column.name}.",
    )
    text = Text(
        report, f"it takes the {_PARTS[wrong]} of {column.name}", f"one row per {_PARTS[right]} of {column.name}"
    )
    return bench.select(pattern.format(wrong), pattern.format(right), text)


@construction("dates_text", "query")
def year_as_number(bench: Bench) -> Draft | None:
    """A date part is text; compared with a number it never matches."""
    found = _date_column(bench)
    if found is None:
        return None
    table, column = found
    date = str(bench.rng.choice(bench.data.values(table, column)).value)
    mark, value, what = bench.rng.choice([("%Y", date[:4], "year"), ("%m", date[5:7], "month")])
    shown = bench.data.title(table) or column
    pattern = (
        f"SELECT {quoted(shown.name)} FROM {quoted(table.name)} WHERE STRFTIME('{mark}', {quoted(column.name)}) = {{}}"
    )
    report = bench.words.pick(
        f"Nothing is found for {what} {value} of {column.name}, though there are such rows.",
        f"I want rows whose {column.name} has {what} '{value}', but the list is empty.",
    )
    text = Text(
        report,
        f"the {what} taken from a date is text and is compared with a number",
        f"rows with {what} '{value}' in {column.name}",
    )
    return bench.select(pattern.format(str(int(value))), pattern.format(f"'{value}'"), text)


@construction("dates_text", "query")
def date_bound_direction(bench: Bench) -> Draft | None:
    """Before and after are mixed up."""
    found = _date_column(bench)
    if found is None:
        return None
    table, column = found
    date = str(bench.rng.choice(bench.data.values(table, column)).value)[:10]
    shown = bench.data.title(table) or column
    right, wrong, word = bench.rng.choice([("<", ">", "before"), (">=", "<=", "from"), (">=", "<", "not before")])
    name = quoted(column.name)
    pattern = f"SELECT {quoted(shown.name)}, {name} FROM {quoted(table.name)} WHERE {name} {{}} '{date}'"
    tail = " on" if word == "from" else ""
    report = bench.words.pick(
        f"I want {column.name} {word} {date}{tail}.",
        f"Rows of the wrong period show up; {column.name} must be {word} {date}{tail}.",
    )
    text = Text(report, f"the rows lie on the wrong side of {date}", f"rows with {column.name} {word} {date}{tail}")
    return bench.select(pattern.format(wrong), pattern.format(right), text)


@mutation("dates_text")
def like_pattern(bench: Bench, tree: exp.Expression) -> Text | None:
    """The wildcard stands at the wrong end."""
    nodes = [n for n in tree.find_all(exp.Like) if isinstance(n.expression, exp.Literal)]
    if not nodes:
        return None
    node = bench.rng.choice(nodes)
    subject, pattern = bench.words.expression(node.this), str(node.expression.this)
    core = pattern.strip("%")
    wrong = bench.rng.choice([p for p in (f"%{core}%", f"{core}%", f"%{core}", core) if p != pattern])
    phrase = like_phrase(subject, node.expression) if subject else None
    if phrase is None:
        return None
    node.set("expression", exp.Literal.string(wrong))
    report = bench.words.pick(f"It should find {phrase}.", f"Search for {phrase}.", f"The match must be {phrase}.")
    return Text(report, "the search pattern is open at the wrong end", f"find {phrase}")


def _text_column(bench: Bench) -> tuple[Table, Column, str] | None:
    """A text column with letters and one of its values."""
    options = []
    for table in bench.data.tables():
        dates = {c.name for c in bench.data.dates(table)}
        for column in table.columns:
            texts = [
                v.value for v in bench.data.values(table, column) if isinstance(v.value, str) and len(v.value) >= 4
            ]
            if len(texts) >= 2 and column.name not in dates and texts[0].isascii() and texts[0][0].isalpha():
                options.append((table, column, texts))
    if not options:
        return None
    table, column, texts = bench.rng.choice(options)
    return table, column, bench.rng.choice(texts)


@construction("dates_text", "query")
def search_pattern(bench: Bench) -> Draft | None:
    """A search is anchored at the wrong end."""
    found = _text_column(bench)
    if found is None:
        return None
    table, column, value = found
    words = value.split()
    start, end = words[0][:3], words[-1][-3:]
    right, wrong = bench.rng.choice(
        [(f"{start}%", f"%{start}"), (f"%{end}", f"{end}%"), (f"%{end}%", f"{end}%"), (f"{start}%", start)]
    )
    pattern = f"SELECT {quoted(column.name)} FROM {quoted(table.name)} WHERE {quoted(column.name)} LIKE {{}}"
    phrase = like_phrase(column.name, exp.Literal.string(right))
    report = bench.words.pick(
        f"It should find {phrase}.", f"Rows with {phrase} are not found.", f"I search for {phrase}."
    )
    text = Text(report, "the search pattern is open at the wrong end", f"find {phrase}")
    return bench.select(pattern.format(sql_literal(wrong)), pattern.format(sql_literal(right)), text)


@construction("dates_text", "query")
def substring_start(bench: Bench) -> Draft | None:
    """Positions start at 1, not at 0."""
    found = _text_column(bench)
    if found is None:
        return None
    table, column, _ = found
    length = bench.rng.choice([1, 2, 3])
    c = quoted(column.name)
    part = f"SUBSTRING({c}, {{0}}, {length})"
    pattern = f"SELECT {part}, COUNT(*) FROM {quoted(table.name)} GROUP BY {part}"
    letters = "letter" if length == 1 else f"{length} letters"
    report = bench.words.pick(
        f"I need figures for the first {letters} of {column.name}, what I see is one letter short.",
        f"I want the first {letters} of {column.name}, one is cut off.",
    )
    text = Text(
        report,
        f"the cut of {column.name} starts before its first letter",
        f"figures for the first {letters} of {column.name}",
    )
    return bench.select(pattern.format(0), pattern.format(1), text)


@construction("dates_text", "query")
def letter_case(bench: Bench) -> Draft | None:
    """Equality is case-sensitive."""
    options = [(t, c) for t in bench.data.tables() for c in bench.data.text_groups(t)]
    if not options:
        return None
    table, column = bench.rng.choice(options)
    value = str(bench.rng.choice(bench.data.values(table, column)).value)
    if value == value.lower() or not value.isascii():
        return None
    c, typed = quoted(column.name), sql_literal(value.lower())
    pattern = f"SELECT COUNT(*) FROM {quoted(table.name)} WHERE {{}} = {typed}"
    report = bench.words.pick(
        f"{column.name} {value} is not counted; upper and lower case must not matter.",
        f"Typing {typed} should find {column.name} in any letter case.",
    )
    text = Text(
        report, f"{column.name} is compared with letter case", f"match {column.name} {typed} in any letter case"
    )
    return bench.select(pattern.format(c), pattern.format(f"LOWER({c})"), text)
