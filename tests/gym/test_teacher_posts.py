"""Posts of a dump: what is read, what is left out and why."""

from __future__ import annotations

import html
import json
from collections import Counter
from pathlib import Path

import pytest

from birdrl.errors import InputError
from birdrl.gym.teacher.posts import extract_sql, read_exclusions, read_posts, split_body

SQL = "SELECT a, COUNT(*)\nFROM t WHERE a < 3 && b = 'x'\nGROUP BY a"
BODY = f'<p>My query <em>fails</em>:</p><pre class="lang-sql"><code>{html.escape(SQL)}</code></pre><p>Why?</p>'


def row(number: int, body: str = BODY, kind: int = 1, tags: str = "<sql><sqlite>") -> str:
    attributes = {"Id": number, "PostTypeId": kind, "Title": f"Title {number}", "Body": body, "Tags": tags}
    escaped = {key: html.escape(str(value)).replace("\n", "&#xA;") for key, value in attributes.items()}
    return "<row " + " ".join(f'{key}="{value}"' for key, value in escaped.items()) + " />"


def dump(path: Path, *rows: str) -> Path:
    path.write_text("\n".join(['<?xml version="1.0" encoding="utf-8"?>', "<posts>", *rows, "</posts>"]))
    return path


def test_a_dump_gives_questions_with_sql_and_counts_the_rest(tmp_path: Path) -> None:
    path = dump(
        tmp_path / "Posts.xml",
        row(1),
        row(2, kind=2),
        row(3, tags="<python>"),
        row(4, body="<p>no code</p>"),
        row(5),
        row(1),
        row(6, tags="|postgresql|window-functions|"),
    )
    reasons: Counter[str] = Counter()
    posts = list(read_posts([path], {"5"}, ["SQL", "postgresql"], reasons))
    assert [(post.id, post.title) for post in posts] == [("1", "Title 1"), ("6", "Title 6")]
    assert posts[0].sql == (SQL,)
    assert posts[0].text == "My query fails: Why?"
    assert posts[1].tags == ("postgresql", "window-functions")
    assert reasons == {
        "post: not a question": 1,
        "post: none of the tags": 1,
        "post: shows no SQL": 1,
        "post: on the exclusion list": 1,
        "post: id seen before": 1,
    }


def test_json_lines_with_markdown(tmp_path: Path) -> None:
    path = tmp_path / "posts.jsonl"
    body = f"It fails:\n\n```sql\n{SQL}\n```\n\nand\n\n```\n{SQL} DESC\n```\n"
    rows = [
        {"id": 7, "title": "T", "body": body, "tags": ["SQL"]},
        {"Id": "8", "Body": BODY, "Tags": "sql sqlite", "PostTypeId": 1},
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    seven, eight = read_posts([path], (), ["sql"], Counter())
    assert seven.sql == (SQL, f"{SQL} DESC")
    assert seven.text == "It fails: and"
    assert (eight.id, eight.sql, eight.tags) == ("8", (SQL,), ("sql", "sqlite"))


@pytest.mark.parametrize(
    ("block", "taken"),
    [
        ("  select id from t where x = 1", True),
        ("-- first\n-- second\nWITH q AS (SELECT 1) SELECT * FROM q", True),
        ("DELETE FROM orders WHERE id = 3;", True),
        ("selection = model.fit(x)", False),
        ("SELECT 1", False),  # too short to be about anything
        ("import sqlite3\nSELECT", False),
        ("id | name\n---+---\n 1 | Ann", False),
        ("SELECT " + "x, " * 2000, False),
    ],
)
def test_what_looks_like_sql(block: str, taken: bool) -> None:
    assert bool(extract_sql([block])) is taken


def test_markup_never_swallows_text() -> None:
    text, code = split_body("a &lt; b <pre>SELECT '<b>' FROM t</pre> c <code>inline</code> <pre>open")
    assert text == "a < b c inline"
    assert code[1] == "open"


def test_exclusions(tmp_path: Path) -> None:
    path = tmp_path / "ids.txt"
    path.write_text("# of the benchmark\n12\n 34  # twice\n34\n\n")
    assert read_exclusions(path) == {"12", "34"}
    path.write_text("12\npost 5\n")
    with pytest.raises(InputError, match=r"line 2: 'post 5' is no post id"):
        read_exclusions(path)
    with pytest.raises(InputError, match="no such file"):
        read_exclusions(tmp_path / "none")


def test_bad_files_are_named(tmp_path: Path) -> None:
    (tmp_path / "Posts.xml").write_text('<posts><row Id="1"')
    with pytest.raises(InputError, match=r"Posts\.xml: not well-formed XML"):
        list(read_posts([tmp_path / "Posts.xml"], (), (), Counter()))
    (tmp_path / "p.jsonl").write_text('{"id": 1, "body": 3}\n')
    with pytest.raises(InputError, match=r"p\.jsonl, row 1, field 'body'"):
        list(read_posts([tmp_path / "p.jsonl"], (), (), Counter()))
    (tmp_path / "p.jsonl").write_text('{"body": "x"}\n')
    with pytest.raises(InputError, match="no field 'id'"):
        list(read_posts([tmp_path / "p.jsonl"], (), (), Counter()))


def test_a_dump_is_read_as_a_stream(tmp_path: Path) -> None:
    """The first posts come before the rest of the file is read: it may even be broken."""
    path = dump(tmp_path / "Posts.xml", *(row(number, body=BODY + "x" * 500) for number in range(2000)))
    path.write_text(path.read_text().removesuffix("</posts>"))
    posts = read_posts([path], (), (), Counter())
    assert next(posts).id == "0"
    with pytest.raises(InputError, match="not well-formed"):
        list(posts)
