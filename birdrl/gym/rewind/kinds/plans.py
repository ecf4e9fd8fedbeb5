"""Plans: indexes that are there and not used, because of what is compared or of how they were made."""

from __future__ import annotations

from birdrl.gym.instance import PlanTest
from birdrl.gym.rewind.data import quoted, sql_literal
from birdrl.gym.rewind.draft import Bench, Draft, Text, construction
from birdrl.gym.rewind.tables import MAX_ROWS, beside, dated_tables, titled_tables


@construction("plans", "query")
def function_hides_index(bench: Bench) -> Draft | None:
    """A function around an indexed column: every row is read."""
    titles = {table.name: title for table, title in titled_tables(bench)}
    options = [(t, c, titles[t.name]) for t, c in dated_tables(bench) if t.name in titles]
    if not options:
        return None
    table, column, shown = bench.rng.choice(options)  # shown is not in the index, or that would answer by itself
    date = str(bench.rng.choice(bench.data.values(table, column)).value)
    year, c, t = int(date[:4]), quoted(column.name), quoted(table.name)
    index = f"{beside('by', table)}_time"
    wrong = bench.rng.choice([f"SUBSTR({c}, 1, 4) = '{year}'", f"STRFTIME('%Y', {c}) = '{year}'"])
    right = f"{c} >= '{year}-01-01' AND {c} < '{year + 1}-01-01'"
    head = f"SELECT {quoted(shown.name)}, {c} FROM {t} WHERE"
    report = bench.words.pick(
        f"The rows of {year} are right, but it reads all of {table.name}: the plan shows SCAN although {index} is on "
        f"{column.name}. It has to use {index}.",
        f"There is an index {index} on {column.name}, and looking up the year {year} does not make use of it.",
    )
    text = Text(
        report, f"the function around {column.name} hides it from the index",
        f"the rows of {table.name} with {column.name} in {year}, found by {index}",
    )  # fmt: skip
    return bench.select(
        f"{head} {wrong}", f"{head} {right}", text, plan=PlanTest(index=index),
        preprocess=[f"CREATE INDEX {index} ON {t} ({c})"], clean_up=[f"DROP INDEX IF EXISTS {index}"], raw=True,
    )  # fmt: skip


@construction("plans", "management")
def index_column_order(bench: Bench) -> Draft | None:
    """The columns of an index stand in an order that does not help the search."""
    options = [
        (t, a, b)
        for t in bench.data.tables(max_rows=MAX_ROWS)
        for a in bench.data.text_groups(t)
        for b in bench.data.measures(t)
        if a != b and len(t.columns) >= 3
    ]
    if not options:
        return None
    table, group, other = bench.rng.choice(options)
    value = sql_literal(bench.rng.choice(bench.data.values(table, group)).value)
    g, o, t, index = quoted(group.name), quoted(other.name), quoted(table.name), f"{beside('find', table)}_fast"
    query = f"SELECT * FROM {t} WHERE {g} = {value}"
    report = bench.words.pick(
        f"{index} should make it fast to look up rows by {group.name} alone, but the plan still shows SCAN.",
        f"With {index} in place, a search by {group.name} (say {value}) reads the whole table all the same.",
    )
    text = Text(
        report, f"the index starts with {other.name}, so {group.name} alone cannot be looked up in it",
        f"{index} helps to find rows by {group.name}, and holds {other.name} as well",
    )  # fmt: skip
    made = f"SELECT name, tbl_name FROM sqlite_master WHERE type = 'index' AND name = '{index}'"
    return bench.state(
        [f"CREATE INDEX {index} ON {t} ({o}, {g})"], [f"CREATE INDEX {index} ON {t} ({g}, {o})"], text, [made],
        tables=[table], clean_up=[f"DROP INDEX IF EXISTS {index}"], plan=PlanTest(index=index, query_sql=query),
        raw=True,
    )  # fmt: skip


@construction("plans", "management")
def index_without_function(bench: Bench) -> Draft | None:
    """A search in any letter case finds no index, because the index holds the plain column."""
    options = titled_tables(bench)
    if not options:
        return None
    table, column = bench.rng.choice(options)
    value = str(bench.rng.choice(bench.data.values(table, column)).value).lower()
    c, t, index = quoted(column.name), quoted(table.name), f"{beside('find', table)}_name"
    query = f"SELECT * FROM {t} WHERE LOWER({c}) = {sql_literal(value)}"
    report = bench.words.pick(
        f"We look for a {column.name} in lower case, such as {sql_literal(value)}, and {index} does not help: the "
        "whole "
        "table is read.",
        f"{index} is never used for our search, which compares {column.name} in lower case with what was typed.",
    )
    text = Text(
        report, f"the index holds {column.name} as it is written, the search compares it in lower case",
        f"{index} serves the search for a {column.name} in lower case",
    )  # fmt: skip
    made = f"SELECT name, tbl_name FROM sqlite_master WHERE type = 'index' AND name = '{index}'"
    return bench.state(
        [f"CREATE INDEX {index} ON {t} ({c})"], [f"CREATE INDEX {index} ON {t} (LOWER({c}))"], text, [made],
        tables=[table], clean_up=[f"DROP INDEX IF EXISTS {index}"], plan=PlanTest(index=index, query_sql=query),
        raw=True,
    )  # fmt: skip
