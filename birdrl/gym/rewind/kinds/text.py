"""Text: wildcards that are meant literally, collations, and the order of what is strung together."""

from __future__ import annotations

from birdrl.gym.rewind.data import quoted
from birdrl.gym.rewind.draft import Bench, Draft, Text, construction
from birdrl.gym.rewind.tables import beside, drop, titled_tables, whole
from birdrl.gym.schema import Column, Table


def _titled(bench: Bench) -> tuple[Table, Column] | None:
    """A table and a text column that names its rows."""
    options = titled_tables(bench)
    return bench.rng.choice(options) if options else None


@construction("text", "query")
def wildcard_taken_literally(bench: Bench) -> Draft | None:
    """An underscore in a search pattern stands for any letter."""
    drawn = _titled(bench)
    if drawn is None:
        return None
    table, column = drawn
    name, c = beside("codes", table), quoted(column.name)
    place = bench.rng.choice([2, 3, 4])
    make = (
        f"CREATE TABLE {name} AS SELECT {c}, SUBSTR({c}, 1, {place}) || CASE WHEN rowid % 3 = 0 THEN '_' ELSE '-' "
        "END || "
        f"rowid AS code FROM {quoted(table.name)}"
    )
    pattern = f"SELECT code FROM {name} WHERE code LIKE {{}}"
    report = bench.words.pick(
        f"I search {name} for codes with an underscore in them and get all codes.",
        f"Only codes of {name} that really hold the character _ are wanted, those with - come as well.",
    )
    text = Text(report, "an underscore in the pattern stands for any character", "codes that contain an underscore")
    return bench.select(
        pattern.format("'%_%'"), pattern.format("'%!_%' ESCAPE '!'"), text,
        preprocess=[make], clean_up=[drop(name)], tables=[table], raw=True,
    )  # fmt: skip


@construction("text", "query")
def concat_order(bench: Bench) -> Draft | None:
    """ORDER BY outside sorts the one row, not what is strung together in it."""
    drawn = _titled(bench)
    if drawn is None:
        return None
    table, column = drawn
    groups = [g for g in bench.data.groups(table) if g != column]
    if not groups:
        return None
    group = bench.rng.choice(groups)
    values = [v.value for v in bench.data.values(table, group) if 3 <= v.rows <= 40]
    if not values:
        return None
    value = bench.rng.choice(values)
    c, separator = quoted(column.name), bench.rng.choice([", ", "; ", " | "])
    literal = f"'{value}'" if isinstance(value, str) else repr(value)
    where = f"WHERE {quoted(group.name)} = {literal}"
    table_sql = quoted(table.name)
    report = bench.words.pick(
        f"The names in the list are not in alphabetical order. I want {column.name} of {group.name} {value} in one "
        "text, "
        f"sorted, with '{separator}' between them.",
        f"One text with all {column.name} for {group.name} {value}, from A to Z; the sorting has no effect.",
    )
    wanted = f"{column.name} of {group.name} {value}, sorted, in one text"
    text = Text(report, "the sorting applies to the single result row", wanted)
    return bench.select(
        f"SELECT GROUP_CONCAT({c}, '{separator}') FROM {table_sql} {where} ORDER BY {c}",
        f"SELECT GROUP_CONCAT({c}, '{separator}') FROM (SELECT {c} FROM {table_sql} {where} ORDER BY {c})",
        text, raw=True,
    )  # fmt: skip


@construction("text", "management")
def unique_by_case(bench: Bench) -> Draft | None:
    """Names that differ in letter case only are stored twice."""
    drawn = _titled(bench)
    if drawn is None:
        return None
    table, column = drawn
    values = [str(v.value) for v in bench.data.values(table, column)]
    values = [v for v in values if v.isascii() and v.upper() != v]
    if not values:
        return None
    name, c = beside("names", table), quoted(column.name)
    chosen = bench.rng.sample(values, min(3, len(values)))
    fresh = bench.rng.choice(["Brand New", "Late Entry", "Newcomer"])
    rows = ", ".join(f"('{value}')" for value in (*(known.upper() for known in chosen), fresh))
    fill = f"INSERT OR IGNORE INTO {name} VALUES {rows}"
    make = [
        f"CREATE TABLE {name} ({c} TEXT)",
        f"INSERT INTO {name} SELECT DISTINCT {c} FROM {quoted(table.name)} WHERE {c} NOTNULL",
    ]
    index = f"CREATE UNIQUE INDEX {name}_once ON {name} ({c}{{}})"
    report = bench.words.pick(
        f"{chosen[0]} and {chosen[0].upper()} are the same to us: {name} should keep one {column.name} whatever "
        "the case.",
        f"{name} takes {chosen[0].upper()} although {chosen[0]} is there already; letter case must not make a "
        "difference.",
    )
    wanted = f"no {column.name} twice in {name}, in whatever letter case"
    text = Text(report, "the unique index tells upper from lower case", wanted)
    return bench.state(
        [index.format(""), fill], [index.format(" COLLATE NOCASE"), fill], text, [whole(name)], tables=[table],
        preprocess=make, clean_up=[drop(name)], raw=True,
    )  # fmt: skip
