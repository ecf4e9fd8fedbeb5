"""JSON in columns: wrong paths, values that keep their quotes, lists measured as text, updates that wipe."""

from __future__ import annotations

from birdrl.gym.rewind.data import quoted, sql_literal
from birdrl.gym.rewind.draft import Bench, Draft, Text, construction
from birdrl.gym.rewind.tables import beside, drop, grouped_measures, whole
from birdrl.gym.schema import Column, Table


def _documents(bench: Bench) -> tuple[Table, Column, Column, Column, str, list[str]] | None:
    """A table as documents: table, key, group, measure, name of the document table, its preprocess SQL."""
    options = [
        (t, own, g, m) for t, g, m in grouped_measures(bench) if (own := bench.data.key(t)) and own not in (g, m)
    ]
    if not options:
        return None
    table, key, group, measure = bench.rng.choice(options)
    name, k = beside("docs", table), quoted(key.name)
    inner = f"JSON_OBJECT('{group.name}', {quoted(group.name)}, '{measure.name}', {quoted(measure.name)})"
    make = [
        f"CREATE TABLE {name} (id PRIMARY KEY, doc TEXT)",
        f"INSERT INTO {name} SELECT {k}, JSON_OBJECT('ref', {k}, 'info', {inner}) "
        f"FROM {quoted(table.name)} ORDER BY {k}",
    ]
    plain = all("'" not in c.name and '"' not in c.name and "." not in c.name for c in (group, measure))
    return (table, key, group, measure, name, make) if plain else None


def _shape(group: Column, measure: Column) -> str:
    return f'{{"ref": ..., "info": {{"{group.name}": ..., "{measure.name}": ...}}}}'


def _path(column: Column) -> str:
    """The JSON path of a column in the inner object, quoted where its name needs that."""
    return f"$.info.{column.name}" if quoted(column.name) == column.name else f'$.info."{column.name}"'


@construction("json", "query")
def json_wrong_path(bench: Bench) -> Draft | None:
    """The path leaves out a level, so everything is NULL."""
    drawn = _documents(bench)
    if drawn is None:
        return None
    table, _, group, measure, name, make = drawn
    function, words = bench.rng.choice([("SUM", "total"), ("AVG", "average"), ("MAX", "highest")])
    right = (_path(group), _path(measure))
    wrong = tuple(path.replace("$.info.", "$.") for path in right)
    pattern = f"SELECT JSON_EXTRACT(doc, '{{0}}') AS g, {function}(JSON_EXTRACT(doc, '{{1}}')) FROM {name} GROUP BY g"
    report = bench.words.pick(
        f"I get one row full of NULL. A doc in {name} looks like {_shape(group, measure)}; I need the {words} "
        f"{measure.name} per {group.name}.",
        f"The {words} {measure.name} per {group.name} out of doc ({_shape(group, measure)}) comes back empty.",
    )
    text = Text(
        report, "the values lie one level deeper than they are looked for",
        f"the {words} {measure.name} per {group.name} from the documents of {name}",
    )  # fmt: skip
    return bench.select(
        pattern.format(*wrong), pattern.format(*right), text,
        preprocess=make, clean_up=[drop(name)], tables=[table], raw=True,
    )  # fmt: skip


@construction("json", "query")
def json_keeps_quotes(bench: Bench) -> Draft | None:
    """A value taken out as JSON still has its quotes and equals no text."""
    drawn = _documents(bench)
    if drawn is None:
        return None
    table, _, group, measure, name, make = drawn
    value = sql_literal(bench.rng.choice(bench.data.values(table, group)).value)
    pattern = f"SELECT id FROM {name} WHERE doc {{}} '{_path(group)}' = {value}"
    report = bench.words.pick(
        f"No document is found for {group.name} {value}, although {name} has some; doc is {_shape(group, measure)}.",
        f"I look for documents whose {group.name} is {value} and get nothing. They look like {_shape(group, measure)}.",
    )
    text = Text(
        report, "the value comes out as JSON, quotes included, and so equals no text",
        f"ids of the documents whose {group.name} is {value}",
    )  # fmt: skip
    return bench.select(
        pattern.format("->"), pattern.format("->>"), text,
        preprocess=make, clean_up=[drop(name)], tables=[table], raw=True,
    )  # fmt: skip


@construction("json", "query")
def json_list_length(bench: Bench) -> Draft | None:
    """The length of a list's text instead of the number of its elements."""
    options = [(t, a, b) for t, a, _ in grouped_measures(bench) for b in bench.data.groups(t) if a != b]
    if not options:
        return None
    table, group, listed = bench.rng.choice(options)
    name, g, v = beside("lists", table), quoted(group.name), quoted(listed.name)
    make = f"CREATE TABLE {name} AS SELECT {g}, JSON_GROUP_ARRAY(DISTINCT {v}) AS items "
    make += f"FROM {quoted(table.name)} GROUP BY {g}"
    pattern = f"SELECT {g}, {{}}(items) FROM {name}"
    report = bench.words.pick(
        f"The numbers are too large: items in {name} is a JSON list, and I want to know how many entries it has.",
        f"For each {group.name} in {name}, how many elements does the list items have? It counts letters instead.",
    )
    wanted = f"number of entries in items per {group.name}"
    text = Text(report, "the text of the list is measured, not its elements", wanted)
    return bench.select(
        pattern.format("LENGTH"), pattern.format("JSON_ARRAY_LENGTH"), text,
        preprocess=[make], clean_up=[drop(name)], tables=[table], raw=True,
    )  # fmt: skip


@construction("json", "management")
def json_update_wipes(bench: Bench) -> Draft | None:
    """Writing one value of a document replaces the whole document."""
    drawn = _documents(bench)
    if drawn is None:
        return None
    table, key, group, measure, name, make = drawn
    wanted = sql_literal(bench.rng.choice(bench.data.values(table, key)).value)
    status = bench.rng.choice(["checked", "closed", "done", "sent"])
    head, tail = f"UPDATE {name} SET doc =", f"WHERE id = {wanted}"
    report = bench.words.pick(
        f"After this the document of id {wanted} holds nothing but its status; ref and info must stay.",
        f"I only want to add status '{status}' to the doc of id {wanted}, the rest {_shape(group, measure)} is lost.",
    )
    text = Text(
        report, "the document is replaced as a whole",
        f"the document of id {wanted} gets status '{status}' and keeps everything else",
    )  # fmt: skip
    return bench.state(
        [f"{head} JSON_OBJECT('status', '{status}') {tail}"], [f"{head} JSON_SET(doc, '$.status', '{status}') {tail}"],
        text, [whole(name)], tables=[table], preprocess=make, clean_up=[drop(name)], raw=True,
    )  # fmt: skip
