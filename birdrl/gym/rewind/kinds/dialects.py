"""Queries in another product's dialect: what SQLite does not parse, does not know, or reads otherwise."""

from __future__ import annotations

from sqlglot import exp

from birdrl.gym.rewind.data import quoted
from birdrl.gym.rewind.draft import Bench, Draft, Text, construction, mutation
from birdrl.gym.rewind.tables import dated_tables, grouped_measures, titled_tables
from birdrl.gym.rewind.tree import render


def _verbatim(text: str) -> exp.Var:
    """A node that is written as it stands: syntax that SQLite's generator does not have."""
    return exp.Var(this=text)


def _limited(tree: exp.Expression) -> str | None:
    """The number of a plain LIMIT of an outermost SELECT."""
    limit = tree.args.get("limit") if isinstance(tree, exp.Select) else None
    number = limit.expression if limit is not None and not tree.args.get("offset") else None
    return str(number.this) if isinstance(number, exp.Literal) and not number.is_string else None


@mutation("dialects")
def top_clause(bench: Bench, tree: exp.Expression) -> Text | None:
    """SELECT TOP n, as SQL Server has it."""
    count = _limited(tree)
    if count is None:
        return None
    first = tree.expressions[0]
    first.replace(_verbatim(f"TOP {count} {render(first)}"))
    tree.set("limit", None)
    report = bench.words.pick(
        f'It says syntax error near "{count}". I need just the first {count} rows in that order.',
        f"This came from SQL Server and does not run; only the first {count} rows are wanted.",
    )
    return Text(report, "SQLite has no TOP", f"the first {count} rows", issue_fails=True)


@mutation("dialects")
def fetch_first(bench: Bench, tree: exp.Expression) -> Text | None:
    """FETCH FIRST n ROWS ONLY, as standard SQL and Oracle have it."""
    count, order = _limited(tree), tree.args.get("order")
    if count is None or order is None:
        return None
    last = order.expressions[-1]
    last.replace(_verbatim(f"{render(last)} FETCH FIRST {count} ROWS ONLY"))
    tree.set("limit", None)
    report = bench.words.pick(
        f'Syntax error near "FETCH". Only the first {count} rows should come back.',
        f"In Oracle this gives me {count} rows, here it gives an error.",
    )
    return Text(report, "SQLite has no FETCH FIRST", f"the first {count} rows", issue_fails=True)


_DATE_PARTS = {"%Y": ("YEAR", "year"), "%m": ("MONTH", "month"), "%d": ("DAY", "day of the month")}


@mutation("dialects")
def date_part_function(bench: Bench, tree: exp.Expression) -> Text | None:
    """YEAR(d) or EXTRACT(YEAR FROM d), as MySQL and PostgreSQL have them."""
    nodes = [n for n in tree.find_all(exp.TimeToStr) if str(n.args["format"].name) in _DATE_PARTS]
    nodes = [n for n in nodes if n.find(exp.Column)]
    if not nodes:
        return None
    node = bench.rng.choice(nodes)
    function, words = _DATE_PARTS[str(node.args["format"].name)]
    column = node.find(exp.Column)
    if column is None:
        return None
    extract = bench.rng.random() < 0.4
    wrong = f"EXTRACT({function} FROM {render(column)})" if extract else f"{function}({render(column)})"
    for same in [n for n in nodes if n == node]:
        same.replace(_verbatim(wrong))
    seen = 'syntax error near "FROM"' if extract else f"no such function: {function}"
    report = bench.words.pick(
        f"I get {seen}. I need the {words} of {column.name}.",
        f"It worked in our old database, now it says {seen}; it is about the {words} of {column.name}.",
    )
    return Text(report, f"SQLite has no {function} function", f"take the {words} of {column.name}", issue_fails=True)


@mutation("dialects")
def null_function(bench: Bench, tree: exp.Expression) -> Text | None:
    """NVL, as Oracle has it."""
    nodes = [n for n in tree.find_all(exp.Coalesce) if len(n.expressions) == 1]
    if not nodes:
        return None
    node = bench.rng.choice(nodes)
    value = render(node.expressions[0])
    node.replace(_verbatim(f"NVL({render(node.this)}, {value})"))
    report = bench.words.pick(
        f"no such function: NVL. A missing value should count as {value}.",
        f"In Oracle this put {value} where nothing is, here it fails.",
    )
    return Text(report, "SQLite has no NVL", f"{value} instead of a missing value", issue_fails=True)


@mutation("dialects")
def ilike_operator(bench: Bench, tree: exp.Expression) -> Text | None:
    """ILIKE, as PostgreSQL has it."""
    nodes = [n for n in tree.find_all(exp.Like) if isinstance(n.expression, exp.Literal) and bench.words.condition(n)]
    if not nodes:
        return None
    node = bench.rng.choice(nodes)
    phrase = bench.words.condition(node)
    node.replace(_verbatim(f"{render(node.this)} ILIKE {render(node.expression)}"))
    report = bench.words.pick(
        f'Syntax error near "ILIKE". I look for {phrase}, upper or lower case.',
        f"The search for {phrase} should not care about letter case; it worked on PostgreSQL.",
    )
    return Text(report, "SQLite has no ILIKE", f"rows with {phrase} in any letter case", issue_fails=True)


@construction("dialects", "query")
def concat_plus(bench: Bench) -> Draft | None:
    """Texts joined with +, as SQL Server does: SQLite adds numbers, so everything becomes 0."""
    options = [(t, a, b) for t in bench.data.tables() for a in bench.data.text_groups(t)
               if (b := bench.data.title(t)) and a != b and not bench.data.is_number(t, b)]  # fmt: skip
    if not options:
        return None
    table, group, title = bench.rng.choice(options)
    g, n = quoted(group.name), quoted(title.name)
    between = bench.rng.choice([", ", " - ", ": ", " / "])
    pattern = f"SELECT {n} {{0}} '{between}' {{0}} {g} FROM {quoted(table.name)}"
    report = bench.words.pick(
        f"Every row shows 0 where I expect {title.name}, then '{between}', then {group.name}.",
        f"I want {title.name} and {group.name} in one text with '{between}' between them, but I get numbers.",
    )
    text = Text(
        report, "the plus sign adds numbers here, and a text without digits counts as 0",
        f"{title.name}, '{between}' and {group.name} as one text",
    )  # fmt: skip
    return bench.select(pattern.format("+"), pattern.format("||"), text, raw=True)


@construction("dialects", "query")
def colon_cast(bench: Bench) -> Draft | None:
    """x::type, as PostgreSQL casts."""
    options = grouped_measures(bench)
    if not options:
        return None
    table, group, measure = bench.rng.choice(options)
    g, m = quoted(group.name), quoted(measure.name)
    head, tail = f"SELECT {g},", f"/ COUNT(*) FROM {quoted(table.name)} GROUP BY {g}"
    report = bench.words.pick(
        f'unrecognized token: ":". I need the sum of {measure.name} per row with decimals, for each {group.name}.',
        f"PostgreSQL took this. It should give the total {measure.name} divided by the number of rows, not rounded.",
    )
    text = Text(
        report, "SQLite has no :: for conversions",
        f"total {measure.name} divided by the number of rows per {group.name}, with decimals", issue_fails=True,
    )  # fmt: skip
    return bench.select(f"{head} SUM({m})::float {tail}", f"{head} CAST(SUM({m}) AS REAL) {tail}", text, raw=True)


@construction("dialects", "query")
def date_difference(bench: Bench) -> Draft | None:
    """DATEDIFF, as MySQL and SQL Server have it."""
    options = dated_tables(bench)
    if not options:
        return None
    table, column = bench.rng.choice(options)
    latest = max(str(v.value)[:10] for v in bench.data.values(table, column))
    day, c = f"{int(latest[:4]) + 1}-01-01", quoted(column.name)
    shown = bench.data.key(table) or column
    call = bench.rng.choice([f"DATEDIFF('{day}', {c})", f"DATEDIFF(day, {c}, '{day}')"])
    pattern = f"SELECT {quoted(shown.name)}, {{}} FROM {quoted(table.name)} WHERE {c} NOTNULL"
    report = bench.words.pick(
        f"It does not know DATEDIFF. I need the whole days from {column.name} to {day}.",
        f"How many days lie between {column.name} and {day}? My statement is from another system and fails.",
    )
    text = Text(report, "SQLite has no DATEDIFF", f"whole days from {column.name} to {day}", issue_fails=True)
    days = f"CAST(JULIANDAY('{day}') - JULIANDAY(DATE({c})) AS INTEGER)"
    return bench.select(pattern.format(call), pattern.format(days), text, raw=True)


@construction("dialects", "query")
def left_function(bench: Bench) -> Draft | None:
    """LEFT and RIGHT as functions."""
    options = titled_tables(bench)
    if not options:
        return None
    table, column = bench.rng.choice(options)
    c, count = quoted(column.name), bench.rng.choice([1, 2, 3, 4])
    side, words, right = bench.rng.choice(
        [("LEFT", "first", f"SUBSTR({c}, 1, {count})"), ("RIGHT", "last", f"SUBSTR({c}, -{count})")]
    )
    pattern = f"SELECT {{0}}, COUNT(*) FROM {quoted(table.name)} GROUP BY {{0}}"
    letters = "letter" if count == 1 else f"{count} letters"
    report = bench.words.pick(
        f"There is a syntax error at {side}; I count rows by the {words} {letters} of {column.name}.",
        f"I want figures per {words} {letters} of {column.name}, as I had them in MySQL.",
    )
    text = Text(
        report, f"{side} is no function in SQLite", f"rows counted by the {words} {letters} of {column.name}",
        issue_fails=True,
    )  # fmt: skip
    return bench.select(pattern.format(f"{side}({c}, {count})"), pattern.format(right), text, raw=True)


@construction("dialects", "query")
def regular_expression(bench: Bench) -> Draft | None:
    """The operator ~, as PostgreSQL matches patterns."""
    options = titled_tables(bench)
    if not options:
        return None
    table, column = bench.rng.choice(options)
    value = str(bench.rng.choice(bench.data.values(table, column)).value)
    start = value[:1]
    if not start.isascii() or not start.isalpha():
        return None
    c = quoted(column.name)
    wrong, right, words = bench.rng.choice(
        [
            (f"{c} ~ '^{start}'", f"{c} GLOB '{start}*'", f"starts with a capital {start}"),
            (f"{c} !~ '^{start}'", f"{c} NOT GLOB '{start}*'", f"does not start with a capital {start}"),
        ]
        if start.isupper()
        else [(f"{c} ~ '^{start}'", f"{c} GLOB '{start}*'", f"starts with a small {start}")]
    )
    head = f"SELECT {c} FROM {quoted(table.name)} WHERE"
    report = bench.words.pick(
        f"The pattern gives a syntax error. I need rows whose {column.name} {words}, exactly in this case.",
        f"{column.name} should be one that {words}; letter case counts.",
    )
    text = Text(report, "SQLite has no ~ for patterns", f"rows whose {column.name} {words}", issue_fails=True)
    return bench.select(f"{head} {wrong}", f"{head} {right}", text, raw=True)


@construction("dialects", "query")
def distinct_on(bench: Bench) -> Draft | None:
    """DISTINCT ON, as PostgreSQL takes the first row of each group."""
    options = [(t, own, g, m) for t, g, m in grouped_measures(bench) if (own := bench.data.key(t))]
    if not options:
        return None
    table, key, group, measure = bench.rng.choice(options)
    k, g, m, t = (quoted(x.name) for x in (key, group, measure, table))
    direction, word = bench.rng.choice([(" DESC", "highest"), ("", "lowest")])
    issue = f"SELECT DISTINCT ON ({g}) {g}, {k}, {m} FROM {t} ORDER BY {g}, {m}{direction}, {k}"
    numbered = f"ROW_NUMBER() OVER (PARTITION BY {g} ORDER BY {m}{direction}, {k}) AS place"
    solution = f"SELECT {g}, {k}, {m} FROM (SELECT {g}, {k}, {m}, {numbered} FROM {t}) WHERE place = 1 ORDER BY {g}"
    report = bench.words.pick(
        f'Syntax error near "ON". For each {group.name} I need the one row with the {word} {measure.name}; if '
        f"several tie, that with the lowest {key.name}.",
        f"One row per {group.name}, the one of the {word} {measure.name} (ties: lowest {key.name}), sorted by "
        f"{group.name}. PostgreSQL does it, SQLite refuses.",
    )
    text = Text(
        report, "SQLite has no DISTINCT ON", f"the row with the {word} {measure.name} of each {group.name}",
        issue_fails=True,
    )  # fmt: skip
    return bench.select(issue, solution, text, raw=True)
