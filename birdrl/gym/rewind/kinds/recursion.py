"""Recursive queries: walks that repeat themselves, series that end early, levels that are left out."""

from __future__ import annotations

from birdrl.gym.rewind.data import quoted, sql_literal
from birdrl.gym.rewind.draft import Bench, Draft, Text, construction
from birdrl.gym.rewind.tables import MAX_ROWS, dated_tables, drop

WALK_LIMIT = 60  # rows at which a walk that never ends is cut


@construction("recursion", "query")
def recursion_repeats(bench: Bench) -> Draft | None:
    """A walk over a cycle never ends: rows that were found are added again."""
    options = [(t, g) for t in bench.data.tables() for g in bench.data.text_groups(t)]
    options = [(t, g) for t, g in options if len(bench.data.values(t, g)) >= 3]
    if not options:
        return None
    table, group = bench.rng.choice(options)
    values = [str(v.value) for v in bench.data.values(table, group)]
    nodes = bench.rng.sample(values, bench.rng.randint(3, min(6, len(values))))
    name = f"{bench.rng.choice(['route', 'link', 'follow', 'next'])}_{bench.rng.choice(['map', 'list', 'plan'])}"
    if bench.schema.table(name):
        return None
    pairs = [*zip(nodes, [*nodes[1:], nodes[0]], strict=True)]
    rows = ", ".join(f"({sql_literal(a)}, {sql_literal(b)})" for a, b in pairs)
    start = sql_literal(nodes[0])
    pattern = (
        f"WITH RECURSIVE reach(v) AS (SELECT {start} UNION{{}} SELECT n.target FROM {name} AS n "
        f"JOIN reach AS r ON n.origin = r.v) SELECT v FROM reach LIMIT {WALK_LIMIT}"
    )
    report = bench.words.pick(
        f"The walk through {name} goes round and round; every place that can be reached from {start} should come once.",
        f"I get the same places again and again, and only the limit stops it. Starting at {start}, list each once.",
        f"{name} holds a circle, so the list from {start} never ends by itself; each entry is wanted once.",
    )
    text = Text(
        report, "places that were found already are walked through again", f"each place reachable from {start} once"
    )
    return bench.select(
        pattern.format(" ALL"), pattern.format(""), text,
        preprocess=[f"CREATE TABLE {name} (origin TEXT, target TEXT)", f"INSERT INTO {name} VALUES {rows}"],
        clean_up=[drop(name)], tables=[table], raw=True,
    )  # fmt: skip


@construction("recursion", "query")
def series_ends_early(bench: Bench) -> Draft | None:
    """A generated series of months stops one too soon."""
    options = dated_tables(bench)
    if not options:
        return None
    table, column = bench.rng.choice(options)
    d, t = quoted(column.name), quoted(table.name)
    groups = [g for g in bench.data.groups(table) if g != column]
    where, said = "", ""
    if groups and bench.rng.random() < 0.7:
        group = bench.rng.choice(groups)
        value = sql_literal(bench.rng.choice(bench.data.values(table, group)).value)
        where, said = f" AND t.{quoted(group.name)} = {value}", f" with {group.name} {value}"
    pattern = (
        "WITH RECURSIVE m(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM m WHERE n {}) "
        f"SELECT m.n, COUNT(t.{d}) FROM m LEFT JOIN {t} AS t ON CAST(STRFTIME('%m', t.{d}) AS INTEGER) = m.n{where} "
        "GROUP BY m.n"
    )
    wrong, missing = bench.rng.choice([("< 11", "December is missing"), ("<= 12", "there is a month 13")])
    report = bench.words.pick(
        f"In the list of months of {column.name}{said} {missing}; it should have months 1 to 12, 0 where nothing is.",
        f"I count {table.name}{said} per month of {column.name}, and {missing}.",
    )
    wanted = f"rows{said} per month of {column.name}, months 1 to 12"
    text = Text(report, "the series of months has a wrong end", wanted)
    return bench.select(pattern.format(wrong), pattern.format("< 12"), text, raw=True)


@construction("recursion", "query")
def only_direct_children(bench: Bench) -> Draft | None:
    """Only the first level below a row is counted, not everything below it."""
    options = [
        (t, k, own)
        for t in bench.data.tables(max_rows=MAX_ROWS)
        for k in t.foreign_keys
        if k.ref_table.lower() == t.name.lower() and (own := bench.data.key(t)) and own.name == k.ref_column
    ]
    if not options:
        return None
    table, link, key = bench.rng.choice(options)
    t, k, up = quoted(table.name), quoted(key.name), quoted(link.column)
    children = f"SELECT {up}, COUNT(*) FROM {t} WHERE {up} NOTNULL GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT 12"
    parents = bench.data.query(children)
    if not parents:
        return None
    top = sql_literal(bench.rng.choice(parents)[0])
    issue = f"SELECT {k} FROM {t} WHERE {up} = {top}"
    solution = (
        f"WITH RECURSIVE below(id) AS (SELECT {k} FROM {t} WHERE {up} = {top} UNION "
        f"SELECT a.{k} FROM {t} AS a JOIN below AS b ON a.{up} = b.id) SELECT id FROM below"
    )
    report = bench.words.pick(
        f"I want everything below {key.name} {top}, over all levels of {link.column}; only the first level comes.",
        f"The list stops after one level: those under the rows that have {link.column} {top} belong to it as well.",
    )
    text = Text(
        report, "only rows directly below are taken", f"all rows below {key.name} {top}, however many levels down"
    )
    return bench.select(issue, solution, text, raw=True)
