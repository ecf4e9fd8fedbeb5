"""Types and affinity: text that looks like a number, quotes that are not text, stray blanks."""

from __future__ import annotations

from birdrl.gym.rewind.data import quoted, sql_literal
from birdrl.gym.rewind.draft import Bench, Draft, Text, construction
from birdrl.gym.rewind.tables import beside, drop, grouped_measures, keyed_tables


@construction("types", "query")
def number_as_text(bench: Bench) -> Draft | None:
    """Numbers that came in as text sort letter by letter."""
    options = [(t, k, m) for t, k in keyed_tables(bench) for m in bench.data.measures(t)]
    if not options:
        return None
    table, key, measure = bench.rng.choice(options)
    name, k, m = beside("import", table), quoted(key.name), quoted(measure.name)
    make = f"CREATE TABLE {name} AS SELECT {k}, CAST({m} AS TEXT) AS {m} FROM {quoted(table.name)} WHERE {m} NOTNULL"
    count, highest = bench.rng.choice([3, 5, 8]), bench.rng.random() < 0.6
    word, direction = ("highest", " DESC") if highest else ("lowest", "")
    pattern = f"SELECT {k}, {m} FROM {name} ORDER BY {{}}{direction}, {k} LIMIT {count}"
    report = bench.words.pick(
        f"The {count} {word} {measure.name} of {name} are wrong: the order goes by letters, 9 comes after 10.",
        f"I want the {count} rows of {name} with the {word} {measure.name}, in numeric order.",
        f"{name} came from a file; sorted by {measure.name} it mixes up long and short numbers.",
    )
    text = Text(
        report,
        f"{measure.name} is stored as text, so it is compared letter by letter",
        f"the {count} rows with the numerically {word} {measure.name}",
    )
    return bench.select(
        pattern.format(m), pattern.format(f"CAST({m} AS REAL)"), text,
        preprocess=[make], clean_up=[drop(name)], tables=[table],
    )  # fmt: skip


@construction("types", "query")
def substring_as_number(bench: Bench) -> Draft | None:
    """A piece of text is compared with a number: in SQLite any text is greater."""
    options = [(t, c) for t in bench.data.tables() for c in bench.data.dates(t)]
    if not options:
        return None
    table, column = bench.rng.choice(options)
    years = sorted({str(v.value)[:4] for v in bench.data.values(table, column)})
    if len(years) < 2:
        return None
    year = bench.rng.choice(years[1:])
    shown = bench.data.title(table) or column
    pattern = (
        f"SELECT {quoted(shown.name)}, {quoted(column.name)} FROM {quoted(table.name)} "
        f"WHERE SUBSTRING({quoted(column.name)}, 1, 4) >= {{}}"
    )
    report = bench.words.pick(
        f"Rows before {year} show up as well; {column.name} should be in {year} or later.",
        f"Whatever year I put in, all rows come back. I need {column.name} from {year} on.",
    )
    text = Text(
        report,
        f"the year cut out of {column.name} is text and is compared with a number, which never excludes anything",
        f"rows whose {column.name} lies in {year} or later",
    )
    return bench.select(pattern.format(year), pattern.format(f"'{year}'"), text)


@construction("types", "query")
def quotes_name_a_column(bench: Bench) -> Draft | None:
    """Double quotes around a value: a column of that name exists, so the row is compared with it."""
    options = grouped_measures(bench)
    if not options:
        return None
    table, group, measure = bench.rng.choice(options)
    values = [str(v.value) for v in bench.data.values(table, group)]
    names = [v for v in values if quoted(v) == v and v.lower() not in (group.name.lower(), "part")]
    if len(names) < 2:
        return None
    chosen = bench.rng.sample(names, min(3, len(names)))
    g, m, name = quoted(group.name), quoted(measure.name), beside("overview", table)
    columns = ", ".join(f"CASE WHEN {g} = {sql_literal(v)} THEN {m} ELSE 0 END AS {quoted(v)}" for v in chosen)
    make = f"CREATE TABLE {name} AS SELECT {g}, {m} AS part, {columns} FROM {quoted(table.name)}"
    value = chosen[0]
    pattern = f"SELECT {g}, SUM(part) FROM {name} WHERE {g} = {{}} GROUP BY {g}"
    report = bench.words.pick(
        f"Nothing comes back for {group.name} {value} in {name}, although there are such rows.",
        f"I ask for {group.name} {value} and get an empty result; {name} has a column called {value}, too.",
    )
    text = Text(
        report,
        f"the double quotes make {value} the name of a column",
        f"the total part of rows whose {group.name} is the word {value}",
    )
    return bench.select(
        pattern.format(f'"{value}"'), pattern.format(sql_literal(value)), text,
        preprocess=[make], clean_up=[drop(name)], tables=[table], raw=True,
    )  # fmt: skip


@construction("types", "query")
def stray_blank(bench: Bench) -> Draft | None:
    """A blank in front of a value: it sorts before every digit and equals nothing."""
    options = [(t, c) for t in bench.data.tables() for c in bench.data.dates(t)]
    if not options:
        return None
    table, column = bench.rng.choice(options)
    day = str(bench.rng.choice(bench.data.values(table, column)).value)[:10]
    shown = bench.data.title(table) or column
    c = quoted(column.name)
    operator, words = bench.rng.choice([(">", "after"), (">=", "on or after")])
    pattern = f"SELECT {quoted(shown.name)}, {c} FROM {quoted(table.name)} WHERE DATE({c}) {operator} '{{}}'"
    report = bench.words.pick(
        f"Rows that are too old come back; I only want {column.name} {words} {day}.",
        f"The filter on {column.name} does not leave anything out. It should keep what is {words} {day}.",
    )
    text = Text(
        report,
        "a blank inside the quotes sorts before every digit, so nothing is left out",
        f"rows with {column.name} {words} {day}",
    )
    return bench.select(pattern.format(f" {day} "), pattern.format(day), text, raw=True)


@construction("types", "query")
def thousands_separator(bench: Bench) -> Draft | None:
    """Adding up text with thousands separators counts what stands before the first one."""
    options = grouped_measures(bench)
    if not options:
        return None
    table, group, measure = bench.rng.choice(options)
    g, m, name = quoted(group.name), quoted(measure.name), beside("ledger", table)
    make = (
        f"CREATE TABLE {name} AS SELECT {g}, PRINTF('%,d', {m} * 1000) AS amount FROM {quoted(table.name)} "
        f"WHERE {m} NOTNULL"
    )
    pattern = f"SELECT {g}, SUM({{}}) FROM {name} GROUP BY {g}"
    report = bench.words.pick(
        f"The totals per {group.name} are far too small; amount in {name} is written like 12,500.",
        f"Summing amount of {name} by {group.name} seems to ignore everything behind the comma of 1,000.",
    )
    text = Text(
        report,
        "amount is text with commas, and only what stands before the first comma is added",
        f"the full total of amount per {group.name}",
    )
    whole = "CAST(REPLACE(amount, ',', '') AS INTEGER)"
    return bench.select(
        pattern.format("amount"), pattern.format(whole), text,
        preprocess=[make], clean_up=[drop(name)], tables=[table], raw=True,
    )  # fmt: skip


@construction("types", "query")
def natural_order(bench: Bench) -> Draft | None:
    """Numbers with a letter behind them: text order puts 10 before 1a."""
    options = keyed_tables(bench)
    if not options:
        return None
    table, key = bench.rng.choice(options)
    name, k = bench.rng.choice(["chapters", "positions", "sections", "labels"]), quoted(key.name)
    if bench.schema.table(name):
        return None
    step, letter = bench.rng.choice([3, 4, 5]), bench.rng.choice("abc")
    make = (
        f"CREATE TABLE {name} AS SELECT ROW_NUMBER() OVER (ORDER BY {k}) || "
        f"CASE WHEN ROW_NUMBER() OVER (ORDER BY {k}) % {step} = 0 THEN '{letter}' ELSE '' END AS num "
        f"FROM {quoted(table.name)}"
    )
    report = bench.words.pick(
        f"The num values of {name} are sorted as 1, 10, 11, 2; I want 1, 2, {step}{letter}, 10.",
        f"Please list num of {name} in natural order, the number first and the letter behind it second.",
    )
    wanted = f"num of {name} by its number, then by its letter"
    text = Text(report, "num is text and is sorted letter by letter", wanted)
    head = f"SELECT num FROM {name} ORDER BY"
    return bench.select(
        f"{head} num", f"{head} CAST(num AS INTEGER), num", text,
        preprocess=[make], clean_up=[drop(name)], tables=[table], raw=True,
    )  # fmt: skip
