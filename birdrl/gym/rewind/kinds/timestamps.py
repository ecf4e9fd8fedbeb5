"""Points in time as text: formats that do not compare, days that get lost, zones that do not parse."""

from __future__ import annotations

from birdrl.gym.rewind.data import quoted
from birdrl.gym.rewind.draft import Bench, Draft, Text, construction
from birdrl.gym.rewind.tables import beside, dated_tables, drop
from birdrl.gym.schema import Column, Table


def _keyed_dates(bench: Bench) -> tuple[Table, Column, Column] | None:
    """A table with its key and a date column."""
    options = [(t, key, c) for t, c in dated_tables(bench) if (key := bench.data.key(t))]
    return bench.rng.choice(options) if options else None


def _day(bench: Bench, table: Table, column: Column) -> str:
    return str(bench.rng.choice(bench.data.values(table, column)).value)[:10]


@construction("timestamps", "query")
def timestamp_format(bench: Bench) -> Draft | None:
    """Stored T/Z timestamps are compared with text that has a blank in the middle."""
    drawn = _keyed_dates(bench)
    if drawn is None:
        return None
    table, key, column = drawn
    name, k, c = beside("log", table), quoted(key.name), quoted(column.name)
    make = (
        f"CREATE TABLE {name} AS SELECT {k}, SUBSTR({c}, 1, 10) || 'T0' || ({k} % 10) || ':00:00Z' AS at "
        f"FROM {quoted(table.name)} WHERE {c} NOTNULL"
    )
    day, hours = _day(bench, table, column), bench.rng.choice([3, 5, 6, 8])
    start = f"'{day} 12:00:00', '-{hours} hours'"
    pattern = f"SELECT {k}, at FROM {name} WHERE at >= {{}}"
    report = bench.words.pick(
        f"The window is wider than asked: I want at from {hours} hours before {day} 12:00, earlier rows of that day "
        "come too.",
        f"Rows of {name} on the first day come back even if they are before the limit ({hours} hours before {day} "
        "12:00).",
    )
    text = Text(
        report,
        "at is stored with a T and a Z, the limit is computed with a blank, so the whole first day passes",
        f"rows of {name} at most {hours} hours older than {day} 12:00:00, and all later ones",
    )
    return bench.select(
        pattern.format(f"DATETIME({start})"), pattern.format(f"STRFTIME('%Y-%m-%dT%H:%M:%SZ', {start})"), text,
        preprocess=[make], clean_up=[drop(name)], tables=[table], raw=True,
    )  # fmt: skip


@construction("timestamps", "query")
def month_start(bench: Bench) -> Draft | None:
    """Subtracting the day of the month lands in the month before."""
    options = dated_tables(bench)
    if not options:
        return None
    table, column = bench.rng.choice(options)
    c = quoted(column.name)
    pattern = f"SELECT {{}} AS m, COUNT(*) FROM {quoted(table.name)} WHERE {c} NOTNULL GROUP BY m"
    report = bench.words.pick(
        f"The months of {column.name} carry the last day of the month before; I want the first of the month.",
        f"One row per month of {column.name}, labelled with its first day; now February says 31 January.",
    )
    text = Text(
        report,
        "going back by the day's number goes one day too far",
        f"count rows per month of {column.name}, labelled with the month's first day",
    )
    wrong = f"DATE({c}, '-' || STRFTIME('%d', {c}) || ' days')"
    return bench.select(pattern.format(wrong), pattern.format(f"DATE({c}, 'start of month')"), text, raw=True)


@construction("timestamps", "query")
def zone_suffix(bench: Bench) -> Draft | None:
    """A zone without a colon makes SQLite's date functions give NULL."""
    drawn = _keyed_dates(bench)
    if drawn is None:
        return None
    table, key, column = drawn
    name, k, c = beside("shifts", table), quoted(key.name), quoted(column.name)
    zone = bench.rng.choice(["+0530", "+0100", "-0300", "+0200"])
    make = (
        f"CREATE TABLE {name} AS SELECT {k}, SUBSTR({c}, 1, 10) || ' 08:00:00 {zone}' AS started, "
        f"SUBSTR({c}, 1, 10) || ' 1' || ({k} % 10) || ':30:00 {zone}' AS ended "
        f"FROM {quoted(table.name)} WHERE {c} NOTNULL"
    )
    pattern = f"SELECT {k}, ROUND((JULIANDAY({{0}}) - JULIANDAY({{1}})) * 24, 2) FROM {name}"
    report = bench.words.pick(
        f"All durations are NULL; started and ended look like 2023-05-02 08:00:00 {zone}.",
        f"I want hours from started to ended for every row of {name}, but nothing is computed. Both end in {zone}.",
    )
    text = Text(
        report,
        f"the date functions do not read a zone written as {zone}",
        f"hours between started and ended in {name}; both are in the same zone",
    )
    return bench.select(
        pattern.format("ended", "started"), pattern.format("SUBSTR(ended, 1, 19)", "SUBSTR(started, 1, 19)"), text,
        preprocess=[make], clean_up=[drop(name)], tables=[table], raw=True,
    )  # fmt: skip


@construction("timestamps", "query")
def last_day_lost(bench: Bench) -> Draft | None:
    """A timestamp is compared with a day: everything after midnight of the last day is cut off."""
    drawn = _keyed_dates(bench)
    if drawn is None:
        return None
    table, key, column = drawn
    name, k, c = beside("visits", table), quoted(key.name), quoted(column.name)
    if bench.schema.table(name):
        return None
    make = (
        f"CREATE TABLE {name} AS SELECT {k}, SUBSTR({c}, 1, 10) || ' 15:30:00' AS seen FROM {quoted(table.name)} "
        f"WHERE {c} NOTNULL"
    )
    day = _day(bench, table, column)
    pattern = f"SELECT {k}, seen FROM {name} WHERE {{}} <= '{day}'"
    report = bench.words.pick(
        f"Everything up to and including {day} should come, but {day} itself is missing.",
        f"The last day, {day}, is lost; rows of {name} seen on that day count as well.",
    )
    text = Text(
        report, "a day stands for its midnight, and all times of that day are later",
        f"rows of {name} seen on {day} or before",
    )  # fmt: skip
    return bench.select(
        pattern.format("seen"), pattern.format("DATE(seen)"), text,
        preprocess=[make], clean_up=[drop(name)], tables=[table], raw=True,
    )  # fmt: skip
