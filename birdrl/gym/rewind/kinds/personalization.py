"""Personalization: a result plus a constraint of the user's own on how it is written or shown."""

from __future__ import annotations

from birdrl.gym.rewind.conditions import draw_condition
from birdrl.gym.rewind.data import quoted, sql_literal
from birdrl.gym.rewind.draft import Bench, Draft, Text, construction
from birdrl.gym.schema import Column, Table


def _grouped_measure(bench: Bench, *, max_rows: int = 2000) -> tuple[Table, Column, Column] | None:
    """A table with a grouping column and another, numeric column."""
    options = [
        (t, g, m)
        for t in bench.data.tables(max_rows=max_rows)
        for g in bench.data.groups(t)
        for m in bench.data.measures(t)
        if g != m
    ]
    return bench.rng.choice(options) if options else None


def _titled_measure(bench: Bench) -> tuple[Table, Column, Column] | None:
    """A table with a title and a numeric column."""
    options = [
        (t, title, m)
        for t in bench.data.tables(max_rows=2000)
        if (title := bench.data.title(t))
        for m in bench.data.measures(t)
        if m != title
    ]
    return bench.rng.choice(options) if options else None


@construction("personalization", "personalization")
def rank_ties(bench: Bench) -> Draft | None:
    """Ties must share a rank; a window function is required."""
    drawn = _titled_measure(bench)
    if drawn is None:
        return None
    table, title, measure = drawn
    functions = {
        "RANK": "ties share a rank and the next one is skipped",
        "DENSE_RANK": "ties share a rank without gaps",
    }
    right = bench.rng.choice(sorted(functions))
    wrong = "ROW_NUMBER" if right == "RANK" or bench.rng.random() < 0.5 else "RANK"
    pattern = (
        f"SELECT {quoted(title.name)}, {{}}() OVER (ORDER BY {quoted(measure.name)} DESC) FROM {quoted(table.name)}"
    )
    report = bench.words.pick(
        f"Rank by {measure.name} with a window function so that {functions[right]}.",
        f"My ranking by {measure.name}, highest first (window function): {functions[right]}.",
    )
    text = Text(report, "rows of equal value get the wrong ranks", f"rank by {measure.name} so that {functions[right]}")
    return bench.select(pattern.format(wrong), pattern.format(right), text, required=["window"])


@construction("personalization", "personalization")
def window_partition(bench: Bench) -> Draft | None:
    """The window spans all rows instead of the row's group."""
    drawn = _grouped_measure(bench)
    if drawn is None:
        return None
    table, group, measure = drawn
    title = bench.data.title(table) or group
    function, words = bench.rng.choice([("SUM", "total"), ("AVG", "average"), ("MAX", "highest"), ("MIN", "lowest")])
    g, m = quoted(group.name), quoted(measure.name)
    pattern = f"SELECT {quoted(title.name)}, {m}, {function}({m}) OVER ({{}}) FROM {quoted(table.name)}"
    report = bench.words.pick(
        f"Next to each row I want the {words} {measure.name} of its {group.name}, with a window function.",
        f"Keep the window function, but the {words} {measure.name} must be per {group.name}.",
    )
    text = Text(
        report,
        f"the {words} is taken over all rows",
        f"the {words} {measure.name} per {group.name}, by a window function",
    )
    return bench.select(pattern.format(""), pattern.format(f"PARTITION BY {g}"), text, required=["window"])


@construction("personalization", "personalization")
def window_order(bench: Bench) -> Draft | None:
    """First row of each group by a window function, ordered the wrong way."""
    drawn = _grouped_measure(bench)
    if drawn is None:
        return None
    table, group, measure = drawn
    key = bench.data.key(table)
    if key is None:
        return None
    right, wrong = bench.rng.choice([("DESC", "ASC"), ("ASC", "DESC")])
    word = "highest" if right == "DESC" else "lowest"
    k, g, m = quoted(key.name), quoted(group.name), quoted(measure.name)
    order = {"DESC": f"{m} DESC, {k}", "ASC": f"{m}, {k}"}
    numbered = f"SELECT {k}, {g}, ROW_NUMBER() OVER (PARTITION BY {g} ORDER BY {{}}) AS n FROM {quoted(table.name)}"
    pattern = f"WITH r AS ({numbered}) SELECT {k}, {g} FROM r WHERE n = 1"
    report = bench.words.pick(
        f"Of each {group.name} I want the row with the {word} {measure.name}; keep the window function.",
        f"Per {group.name} pick the {word} {measure.name}, still by numbering rows.",
    )
    text = Text(
        report,
        f"the rows of each {group.name} are numbered the wrong way round",
        f"the {word} {measure.name} of each {group.name}",
    )
    return bench.select(pattern.format(order[wrong]), pattern.format(order[right]), text, required=["window"])


@construction("personalization", "personalization")
def cte_wrong_rows(bench: Bench) -> Draft | None:
    """The user keeps CTEs; the one here draws other rows."""
    drawn = _grouped_measure(bench)
    if drawn is None:
        return None
    table, group, _ = drawn
    condition = draw_condition(bench, table, avoid=(group.name,))
    if condition is None:
        return None
    g = quoted(group.name)
    pattern = f"WITH s AS (SELECT * FROM {quoted(table.name)} WHERE {{}}) SELECT {g}, COUNT(*) FROM s GROUP BY {g}"
    report = bench.words.pick(
        f"Keep the CTE, but it should only hold {condition.phrase}.",
        f"Our style is one CTE; s must take rows with {condition.phrase}.",
    )
    text = Text(report, f"the CTE draws other rows: {condition.wrong_cause}", f"a CTE of rows with {condition.phrase}")
    return bench.select(pattern.format(condition.wrong_sql), pattern.format(condition.sql), text, required=["cte"])


@construction("personalization", "personalization")
def cte_instead_of_subquery(bench: Bench) -> Draft | None:
    """The user wants a CTE where a subquery stands in FROM."""
    drawn = _grouped_measure(bench)
    if drawn is None:
        return None
    table, group, measure = drawn
    g, m = quoted(group.name), quoted(measure.name)
    function, words = bench.rng.choice([("SUM", "total"), ("AVG", "average"), ("MAX", "highest")])
    outers = [("MAX", "highest"), ("MIN", "lowest"), ("AVG", "average")]
    outer, outer_words = bench.rng.choice([pair for pair in outers if pair[0] != function])
    inner = f"SELECT {g}, {function}({m}) AS v FROM {quoted(table.name)} GROUP BY {g}"
    report = bench.words.pick(
        "The result is right, but write it with a CTE (WITH s AS ...) instead of the subquery.",
        f"Please put the {words} per {group.name} into a CTE named s, no nested subquery.",
    )
    text = Text(
        report,
        "a nested subquery stands where the user wants a CTE",
        f"the {outer_words} {words} {measure.name}, by a CTE",
    )
    return bench.select(
        f"SELECT {outer}(v) FROM ({inner}) AS s",
        f"WITH s AS ({inner}) SELECT {outer}(v) FROM s",
        text,
        required=["cte"],
    )


@construction("personalization", "personalization")
def join_instead_of_subquery(bench: Bench) -> Draft | None:
    """The user forbids subqueries."""
    options = [(c, k, p) for c, k, p in bench.data.links() if bench.data.title(c) and bench.data.key(p)]
    if not options:
        return None
    child, key, parent = bench.rng.choice(options)
    title, parent_key = bench.data.title(child), bench.data.key(parent)
    condition = draw_condition(bench, parent, avoid=(key.ref_column,))
    if title is None or condition is None or parent_key is None or parent_key.name != key.ref_column:
        return None
    c, p, k, r = quoted(child.name), quoted(parent.name), quoted(key.column), quoted(key.ref_column)
    head = f"SELECT c.{quoted(title.name)} FROM {c} AS c"
    report = bench.words.pick(
        f"We do not allow subqueries: join {parent.name} on {key.column} instead.",
        f"Same result please, but with a join to {parent.name} and no subquery.",
    )
    text = Text(
        report,
        "a subquery stands where the user wants a join",
        f"{child.name} of {parent.name} with {condition.phrase}, without subquery",
    )
    return bench.select(
        f"{head} WHERE c.{k} IN (SELECT p.{r} FROM {p} AS p WHERE p.{condition.sql})",
        f"{head} JOIN {p} AS p ON c.{k} = p.{r} WHERE p.{condition.sql}",
        text, required=["join"], forbidden=["subquery"],
    )  # fmt: skip


@construction("personalization", "personalization")
def keep_unmatched(bench: Bench) -> Draft | None:
    """Parents without children must stay, by LEFT JOIN."""
    options = [(c, k, p) for c, k, p in bench.data.links() if bench.data.title(p)]
    if not options:
        return None
    child, key, parent = bench.rng.choice(options)
    title = bench.data.title(parent)
    if title is None:
        return None
    ref, k, t = quoted(key.ref_column), quoted(key.column), quoted(child.name)
    pattern = f"SELECT p.{quoted(title.name)}, COUNT(c.{k}) FROM {quoted(parent.name)} AS p {{}} {t} AS c "
    pattern += f"ON c.{k} = p.{ref} GROUP BY p.{ref}"
    report = bench.words.pick(
        f"Use a left join so that {parent.name} rows without {child.name} show with 0.",
        f"{parent.name} without any {child.name} must appear too (LEFT JOIN please).",
    )
    text = Text(
        report,
        f"{parent.name} rows without {child.name} are dropped",
        f"all {parent.name} rows, 0 where there is no {child.name}",
    )
    leaves_one_out = f"DELETE FROM {t} WHERE {k} = (SELECT MIN({k}) FROM {t})"
    return bench.select(
        pattern.format("JOIN"),
        pattern.format("LEFT JOIN"),
        text,
        required=["left_join"],
        perturb_first=[leaves_one_out],
    )


@construction("personalization", "personalization")
def exists_instead_of_in(bench: Bench) -> Draft | None:
    """The user's style is EXISTS."""
    options = [(c, k, p) for c, k, p in bench.data.links() if bench.data.title(p)]
    if not options:
        return None
    child, key, parent = bench.rng.choice(options)
    title = bench.data.title(parent)
    if title is None:
        return None
    ref, k, t = quoted(key.ref_column), quoted(key.column), quoted(child.name)
    head = f"SELECT p.{quoted(title.name)} FROM {quoted(parent.name)} AS p WHERE"
    report = bench.words.pick(
        f"Please test for {child.name} by EXISTS, our reviewers reject IN with a subquery.",
        f"Right rows, wrong style: use EXISTS on {child.name} ({key.column}) here.",
    )
    text = Text(
        report,
        "membership is tested by IN where the user wants EXISTS",
        f"{parent.name} rows that have {child.name}, by EXISTS",
    )
    return bench.select(
        f"{head} p.{ref} IN (SELECT c.{k} FROM {t} AS c)",
        f"{head} EXISTS(SELECT 1 FROM {t} AS c WHERE c.{k} = p.{ref})",
        text, required=["exists"],
    )  # fmt: skip


@construction("personalization", "personalization")
def case_labels(bench: Bench) -> Draft | None:
    """CASE labels stand the wrong way round or the limit is off."""
    drawn = _titled_measure(bench)
    if drawn is None:
        return None
    table, title, measure = drawn
    values = sorted(v.value for v in bench.data.values(table, measure))
    bound = values[len(values) // 2]
    high, low = bench.rng.choice([("high", "low"), ("big", "small"), ("A", "B"), ("over", "under")])
    m = quoted(measure.name)
    pattern = (
        f"SELECT {quoted(title.name)}, CASE WHEN {m} {{}} {bound} THEN '{{}}' ELSE '{{}}' END FROM {quoted(table.name)}"
    )
    solution = pattern.format(">=", high, low)
    if bench.rng.random() < 0.5:
        issue, cause = pattern.format(">=", low, high), "the two labels are swapped"
    else:
        issue, cause = pattern.format(">", high, low), f"{bound} itself gets the wrong label"
    report = bench.words.pick(
        f"Label {measure.name} of at least {bound} as '{high}', the rest '{low}'.",
        f"My labels: '{high}' from {bound} {measure.name} upwards (included), otherwise '{low}'.",
    )
    text = Text(report, cause, f"'{high}' for {measure.name} of at least {bound}, else '{low}'")
    return bench.select(issue, solution, text, required=["case"])


@construction("personalization", "personalization")
def missing_value_label(bench: Bench) -> Draft | None:
    """The user wants a word in place of NULL."""
    options = [
        (t, title, c)
        for t in bench.data.tables()
        if (title := bench.data.title(t))
        for c in t.columns
        if c != title and not c.not_null and bench.data.nulls(t, c) > 0
    ]
    if not options:
        return None
    table, title, column = bench.rng.choice(options)
    word = "0" if bench.data.is_number(table, column) else bench.rng.choice(["'unknown'", "'n/a'", "'none'"])
    c = quoted(column.name)
    pattern = f"SELECT {quoted(title.name)}, {{}} FROM {quoted(table.name)}"
    report = bench.words.pick(
        f"Show {word} where {column.name} is missing (use COALESCE).",
        f"I do not want to see NULL, put {word} for an empty {column.name}.",
    )
    text = Text(report, f"a missing {column.name} shows as NULL", f"{word} for a missing {column.name}")
    return bench.select(pattern.format(c), pattern.format(f"COALESCE({c}, {word})"), text, required=["coalesce"])


@construction("personalization", "personalization")
def rounding(bench: Bench) -> Draft | None:
    """The user wants another number of decimals."""
    drawn = _grouped_measure(bench)
    if drawn is None:
        return None
    table, group, measure = drawn
    g, figure = quoted(group.name), f"AVG({quoted(measure.name)})"
    digits = bench.rng.choice([0, 1, 2])
    wrong = bench.rng.choice([figure, f"ROUND({figure}, {bench.rng.choice([d for d in (0, 1, 2, 3) if d != digits])})"])
    pattern = f"SELECT {g}, {{}} FROM {quoted(table.name)} GROUP BY {g}"
    decimals = {0: "no decimals", 1: "one decimal (1)", 2: "2 decimals"}[digits]
    report = bench.words.pick(
        f"Please round the average {measure.name} to {decimals}.",
        f"Our report shows the average {measure.name} with {decimals}.",
    )
    text = Text(report, "the figure has the wrong number of decimals", f"average {measure.name} with {decimals}")
    return bench.select(
        pattern.format(wrong), pattern.format(f"ROUND({figure}, {digits})"), text, required=["aggregate"]
    )


@construction("personalization", "personalization")
def tie_breaker(bench: Bench) -> Draft | None:
    """The user's order has a second column."""
    drawn = _grouped_measure(bench)
    if drawn is None:
        return None
    table, group, measure = drawn
    key = bench.data.key(table)
    if key is None:
        return None
    down = bench.rng.random() < 0.5
    k, g, m = quoted(key.name), quoted(group.name), quoted(measure.name)
    second = f"{m} DESC" if down else m
    pattern = f"SELECT {k}, {g}, {m} FROM {quoted(table.name)} ORDER BY {g}{{}}, {k}"
    way = "highest first" if down else "lowest first"
    report = bench.words.pick(
        f"Within the same {group.name} sort by {measure.name}, {way}, before {key.name}.",
        f"My order: {group.name}, then {measure.name} ({way}), then {key.name}.",
    )
    text = Text(
        report,
        f"rows of one {group.name} are not sorted by {measure.name}",
        f"sort by {group.name}, then {measure.name} {way}",
    )
    return bench.select(pattern.format(""), pattern.format(f", {second}"), text, required=["order_by"])


@construction("personalization", "personalization")
def single_statement(bench: Bench) -> Draft | None:
    """The user may not create tables: one statement with a CTE instead of a temporary table."""
    drawn = _grouped_measure(bench)
    if drawn is None:
        return None
    table, group, measure = drawn
    g, m = quoted(group.name), quoted(measure.name)
    function, words = bench.rng.choice([("SUM", "total"), ("AVG", "average"), ("MAX", "highest")])
    limit = bench.rng.choice([1, 2, 3])
    inner = f"SELECT {g}, {function}({m}) AS v FROM {quoted(table.name)} GROUP BY {g}"
    tail = f"SELECT {g}, v FROM s ORDER BY v DESC, {g} LIMIT {limit}"
    report = bench.words.pick(
        "I have no right to create tables. Do it in one statement with a CTE named s.",
        "Please no temporary table: a single statement, WITH s AS ..., same result.",
    )
    text = Text(
        report,
        "it needs a temporary table, which the user may not create",
        f"{group.name} by {words} {measure.name}, in one statement",
    )
    draft = bench.select(tail, f"WITH s AS ({inner}) {tail}", text, required=["cte"], forbidden=["create_table"])
    return bench.with_issue(draft, [f"CREATE TEMPORARY TABLE s AS {inner}", tail])


@construction("personalization", "personalization")
def output_literal(bench: Bench) -> Draft | None:
    """The user wants a combined text column, in a given form."""
    drawn = _titled_measure(bench)
    if drawn is None:
        return None
    table, title, measure = drawn
    right, wrong = bench.rng.sample([": ", " - ", ", ", " / "], 2)
    key = bench.data.key(table)
    shown = "" if key is None else f"{quoted(key.name)}, "
    pattern = f"SELECT {shown}{quoted(title.name)} || {{}} || {quoted(measure.name)} FROM {quoted(table.name)}"
    report = bench.words.pick(
        f"Put '{right}' between {title.name} and {measure.name}.",
        f"I want {title.name} and {measure.name} joined by '{right}'.",
    )
    text = Text(report, f"the two are joined by '{wrong}'", f"{title.name} and {measure.name} joined by '{right}'")
    return bench.select(
        pattern.format(sql_literal(wrong)), pattern.format(sql_literal(right)), text, required=["select"]
    )
