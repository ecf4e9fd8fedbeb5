"""Ways people put things in a report. Only words: no facts, and nothing about what is wrong in the SQL."""

from __future__ import annotations

from birdrl.gym.instance import Category

# Orders in which the sections of a report come; each inner tuple is a paragraph.
# For a query, and for what changes data or has a form of its own.
Order = tuple[tuple[str, ...], ...]
ORDERS: tuple[tuple[Order, ...], tuple[Order, ...]] = (
    (
        (("opening", "goal"), ("data",), ("symptom", "observed"), ("tried", "use", "ask")),
        (("opening", "data"), ("goal", "use"), ("observed", "symptom"), ("tried", "ask")),
        (("goal",), ("data", "observed"), ("symptom",), ("tried", "use"), ("ask",)),
        (("symptom",), ("opening", "data", "goal"), ("observed", "tried", "ask")),
        (("opening", "use"), ("symptom", "observed"), ("goal", "data"), ("ask",)),
        (("data", "goal"), ("tried", "observed"), ("symptom", "ask")),
        (("opening", "symptom"), ("tried",), ("goal", "use"), ("observed", "data", "ask")),
        (("goal", "tried"), ("symptom",), ("data", "observed", "ask")),
    ),
    (
        (("opening", "goal"), ("data",), ("symptom", "observed"), ("tried", "use", "ask")),
        (("opening", "data"), ("symptom",), ("goal",), ("tried", "observed", "ask")),
        (("symptom",), ("opening", "goal"), ("observed", "data", "tried", "use", "ask")),
        (("goal", "use"), ("symptom", "observed"), ("tried",), ("data", "ask")),
        (("data", "symptom"), ("goal", "use", "tried"), ("observed", "ask")),
    ),
)

OPENINGS: dict[Category, tuple[str, ...]] = {
    "query": (
        "I'm putting together a report on our {database} data and one figure does not add up.",
        "Hi all, I have a question about a report on the {database} database.",
        "I've inherited some SQL for the {database} database and I can't make sense of its output.",
        "We run this every week on the {database} data, and somebody noticed that it is wrong.",
        "Working on a dashboard for {database}, I ran into something odd.",
        "This is about the {database} database, SQLite, nothing special about the setup.",
        "I'm fairly new to SQL and stuck with something on the {database} data.",
        "For a meeting tomorrow I need numbers out of {database}, and mine are not right.",
        "I'm checking an export from {database} against a list that a colleague keeps by hand.",
        "Our {database} application shows a list that nobody believes any more.",
        "I moved a spreadsheet on {database} into a database and try to get the same results.",
        "My task is a small analysis of {database}, and I get results I can't explain.",
    ),
    "management": (
        "I look after the {database} database and have to change some of its data.",
        "Part of our nightly job on {database} does not do what it should.",
        "I'm preparing a migration script for {database} and one step goes wrong.",
        "Hi, I maintain the {database} database for a small team.",
        "We had to repair some data in {database}, and the repair made things worse.",
        "I wrote a maintenance script for {database}; most of it works.",
        "This comes from a clean-up of our {database} data.",
        "Before I run this on the real {database} data I tried it on a copy.",
        "Our {database} database needs a small change and I do not get it right.",
        "A script that I got from a former colleague misbehaves on {database}.",
    ),
    "personalization": (
        "I have a query on {database} that should follow our house rules, and it does not quite.",
        "For a course I have to solve something on the {database} data in a given way.",
        "Our {database} reports are reviewed, and the reviewer asks for a certain form.",
        "I'm rewriting a report on {database}; the form matters here as much as the result.",
        "We have a style guide for SQL on {database}, so not every way of writing this will do.",
        "Hi, a question on {database}: I have special wishes for how this is done.",
        "The output of this goes straight into another program that reads our {database} data, so details count.",
        "I need this for {database} in a particular form, please read on.",
    ),
}

QUESTIONS = (
    "The question I want to answer: {question}",
    "What I was asked: {question}",
    'My boss put it like this: "{question}"',
    "In plain words: {question}",
    "The request reads: {question}",
    "The task is this. {question}",
    "It is meant to answer the following: {question}",
    "Here is what it is for: {question}",
)
INTENTS = (
    "What I am after: {intent}.",
    "The goal: {intent}.",
    "What is wanted: {intent}.",
    "The result I need is this: {intent}.",
    "The requirement reads: {intent}.",
    "What should happen: {intent}.",
    "My intention: {intent}.",
)
# For an intent behind what has been said already.
INTENTS_AGAIN = (
    *INTENTS,
    "To be clear about what is wanted: {intent}.",
    "In short: {intent}.",
    "So it comes down to this: {intent}.",
    "Put differently: {intent}.",
)
TABLES = (
    "The table {table} has {columns}.",
    "{table} holds {columns}.",
    "In {table} we keep {columns}.",
    "For reference, {table} consists of {columns}.",
    "The columns of {table} are {columns}.",
    "There is a table {table} with {columns}.",
    "{table} (columns {columns}) is where the data comes from.",
)
SIZES = (
    "It has {rows} rows at the moment.",
    "About {rows} rows, so not big.",
    "Currently {rows} rows.",
    "There are {rows} records in it.",
)
SAMPLES = (
    "A typical row has {values}.",
    "One of them, as an example: {values}.",
    "Values look like {values}.",
    "Say, {values}.",
    "To give an idea: {values}.",
)
USES = (
    "The result goes into a monthly overview that several people read.",
    "Somebody else will run this later on, so it should be right by itself.",
    "It is part of a larger script, and everything behind it depends on it.",
    "I have to explain the numbers afterwards, which is hard as long as they are off.",
    "This is not for a one-time look, it will run every night.",
    "Speed does not matter, it just has to be correct.",
    "The data changes every day, so a repair by hand is no solution.",
    "We compare it with last year's figures, which were computed elsewhere.",
    "An auditor will look at it, and I would rather not be asked about this.",
    "It feeds a chart, and the chart looks plainly wrong.",
    "There are more statements like this one, I hope to understand it once and for all.",
    "Please keep table and column names as they are, other programs rely on them.",
)
ERRORS = (
    "What I get is an error: {error}.",
    "SQLite stops with the message: {error}.",
    'It does not run at all, the message is "{error}".',
    "Running it only gives me: {error}.",
    "The client shows: {error}.",
    "It ends right away with: {error}.",
)
NOTHING_SEEN = (
    "It comes back with nothing at all.",
    "I get an empty result.",
    "The result has no rows.",
    "Not a single row is returned.",
)
VALUE_SEEN = (
    "It gives {value}, which cannot be right.",
    "The answer I get is {value}.",
    "What comes back is {value}, and that does not match what I know.",
    "I see {value} there.",
    "The number on my screen is {value}.",
)
ROWS_SEEN = (
    "It returns {count}, starting with {shown}.",
    "I get {count}; the top of the list is {shown}.",
    "What comes back: {count}, for example {shown}.",
    "At the moment the output is {count}, such as {shown}.",
    "The result has {count}, the first being {shown}.",
    "Here is how it begins: {shown}; {count} in all.",
)
ROWS_LEFT = (
    "Afterwards I find {count} there, among them {shown}.",
    "What it holds then: {count}, beginning with {shown}.",
    "When it is done I look at the content: {count}, for example {shown}.",
    "The content after that is {count}; the first of them: {shown}.",
    "It leaves {count} behind, such as {shown}.",
)
NOTHING_LEFT = (
    "Afterwards there is nothing in it.",
    "When it is done I look at the content, and it is empty.",
    "It leaves nothing behind.",
)
EXPECTED = (
    "By hand I count {count}.",
    "It should be {count}.",
    "I would have expected {count}.",
    "Going through the data myself I arrive at {count}.",
    "A colleague who checked says {count}.",
)
TRIED_ANYWAY = (
    "I ran it in two different clients, with the same outcome.",
    "I tried it on a fresh copy of the database, no difference.",
    "I have read it over several times and do not see it.",
    "Restarting and running it again changed nothing.",
    "I looked at a handful of records by hand, and the data itself is fine.",
    "I searched for similar questions, but nothing quite matched.",
    "I asked a colleague, who had no idea either.",
    "I have checked names and spelling already.",
    "The data was loaded again from scratch, so that is not the reason.",
    "I went through the manual for an hour without luck.",
    "An older copy of the data shows the same problem.",
    "I played with a few variants, none of them helped.",
)
TRIED: dict[str, tuple[str, ...]] = {
    "filtering": (
        "I picked single records that should be in or out, and they confirm that the selection is off.",
        "With other values it goes wrong in the same way.",
    ),
    "aggregation": (
        "I recalculated one group in a spreadsheet and got another figure.",
        "Summing up a few records with a calculator gives something else.",
    ),
    "joins": (
        "Each table looked at alone is fine.",
        "I compared both tables side by side for one key, and the data is there.",
    ),
    "ordering": ("I sorted the same data in a spreadsheet to compare.", "Whole list or short list, same problem."),
    "nulls": (
        "I noticed that the affected records have gaps in their data.",
        "Records that are filled in completely seem to be fine.",
    ),
    "dates_text": ("The stored values look normal to me.", "I printed a few of the values, they look as they should."),
    "projection": ("The number of records is not my concern, what is shown is.",),
    "sets": ("Each half alone gives what I expect.", "I compared the lists by hand."),
    "dml": (
        "I took a copy before and after and compared them.",
        "I rolled the data back to a copy and tried again, same effect.",
    ),
    "ddl": (
        "I dropped it and created it again, no change.",
        "I looked at it after creating it, and it is not as wanted.",
    ),
    "scripts": (
        "I ran the steps one by one, and each of them goes through.",
        "There is no error message, it just ends in the wrong state.",
    ),
    "dialects": (
        "It worked on the database server that we used before.",
        "The same text ran fine in another product.",
    ),
    "permissions": ("On our old server this was a one-liner.", "I have administrator rights on the machine."),
    "json": (
        "The documents themselves are valid, I checked.",
        "I pasted one document into an online viewer, it is fine.",
    ),
}
ASKS = (
    "What do I have to change?",
    "Can somebody see what is wrong?",
    "How do I get this right?",
    "Any help is welcome.",
    "What am I missing?",
    "Thanks for having a look.",
    "I would be glad about a corrected version.",
    "How would you do it?",
    "Could you fix it for me?",
    "Where is my mistake?",
    "I'd like to keep the rest as it is.",
    "Grateful for any hint.",
)
