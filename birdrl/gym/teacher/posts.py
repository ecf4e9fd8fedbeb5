"""Posts of a Stack Overflow dump, filtered, with the SQL that they show.

Two forms: the dump's Posts.xml (one `<row .../>` a post, read as a stream) and JSON lines with `id`, `title`, `body`
and `tags`. Posts whose id is on the exclusion list are left out: those of an evaluation set must never be trained on.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from birdrl.errors import InputError
from birdrl.files import read_jsonl, read_lines

MAX_TEXT_CHARS = 3_000
MAX_SQL_CHARS = 2_000
MIN_SQL_CHARS = 15
QUESTION = "1"  # PostTypeId of the dump
_SQL_START = re.compile(
    r"^\s*(?:--[^\n]*\n\s*)*(?:SELECT|WITH|INSERT|UPDATE|DELETE|REPLACE|MERGE|CREATE|ALTER|DROP)\b", re.IGNORECASE
)
_FENCE = re.compile(r"^```[\w-]*[ \t]*\n(.*?)^```", re.DOTALL | re.MULTILINE)
_INLINE = frozenset(("a", "b", "code", "em", "i", "kbd", "s", "span", "strong", "sub", "sup"))
_ID = re.compile(r"\d+")


@dataclass(frozen=True)
class Post:
    """A question with SQL. `sql` holds its code blocks that begin like a statement, in order."""

    id: str
    title: str
    text: str
    tags: tuple[str, ...]
    sql: tuple[str, ...]


def read_posts(
    paths: Iterable[Path], excluded: Collection[str], tags: Collection[str], reasons: Counter[str]
) -> Iterator[Post]:
    """Usable posts in file order, each id once; why the others are not is counted in `reasons`.

    `tags`: at least one of them must be there; empty for any. Raises InputError that names the file and the place.
    """
    wanted = {tag.lower() for tag in tags}
    seen: set[str] = set()
    for path in paths:
        for identifier, kind, title, body, found in _rows(path):
            if identifier in excluded:
                reasons["post: on the exclusion list"] += 1
            elif identifier in seen:
                reasons["post: id seen before"] += 1
            elif kind != QUESTION:
                reasons["post: not a question"] += 1
            elif wanted and not wanted & set(found):
                reasons["post: none of the tags"] += 1
            else:
                text, code = split_body(body)
                sql = extract_sql(code)
                if not sql:
                    reasons["post: shows no SQL"] += 1
                    continue
                seen.add(identifier)
                yield Post(identifier, title.strip(), text[:MAX_TEXT_CHARS], found, sql)


def read_exclusions(path: Path) -> frozenset[str]:
    """Post ids, one a line; `#` begins a comment. Raises InputError for a line that is no id."""
    ids: set[str] = set()
    for number, line in enumerate(read_lines(path), 1):
        identifier = line.partition("#")[0].strip()
        if identifier and not _ID.fullmatch(identifier):
            raise InputError(f"{path}, line {number}: {identifier[:40]!r} is no post id; expected a number")
        if identifier:
            ids.add(identifier)
    return frozenset(ids)


def split_body(body: str) -> tuple[str, list[str]]:
    """(text without markup, code blocks) of a post's body in HTML or Markdown."""
    parser = _Body()
    parser.feed(body)
    parser.close()
    text = "".join(parser.text)
    fenced = _FENCE.findall(text)
    return " ".join(_FENCE.sub(" ", text).split()), [*parser.code, *fenced]


def extract_sql(code: Iterable[str]) -> tuple[str, ...]:
    """The code blocks that begin like an SQL statement and are neither tiny nor huge."""
    blocks = (block.strip() for block in code)
    return tuple(b for b in blocks if MIN_SQL_CHARS <= len(b) <= MAX_SQL_CHARS and _SQL_START.match(b))


class _Body(HTMLParser):
    """Separates `<pre>` blocks from the text around them."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.text: list[str] = []
        self.code: list[str] = []
        self._in_code = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._break(tag)
        if tag == "pre":
            self._in_code = True
            self.code.append("")

    def handle_endtag(self, tag: str) -> None:
        self._break(tag)
        if tag == "pre":
            self._in_code = False

    def _break(self, tag: str) -> None:
        if tag not in _INLINE and not self._in_code:
            self.text.append("\n")

    def handle_data(self, data: str) -> None:
        if self._in_code:
            self.code[-1] += data
        else:
            self.text.append(data)


_Row = tuple[str, str, str, str, tuple[str, ...]]


def _rows(path: Path) -> Iterator[_Row]:
    """(id, type, title, body, tags) of every post of a file."""
    if path.suffix.lower() == ".xml":
        yield from _xml_rows(path)
    else:
        for number, row in enumerate(read_jsonl(path), 1):
            yield _json_row(row, f"{path}, row {number}")


def _xml_rows(path: Path) -> Iterator[_Row]:
    try:
        with path.open("rb") as handle:
            events = ElementTree.iterparse(handle, events=("start", "end"))
            _, root = next(events)
            for event, element in events:
                if event == "end" and element.tag == "row":
                    values = element.attrib
                    if "Id" not in values:
                        raise InputError(f"{path}: a row without Id; is this the Posts.xml of a dump?")
                    yield (
                        values["Id"], values.get("PostTypeId", ""), values.get("Title", ""), values.get("Body", ""),
                        _tags(values.get("Tags", "")),
                    )  # fmt: skip
                    root.clear()  # what has been read is let go, so that a dump of any size fits
    except FileNotFoundError:
        raise InputError(f"{path}: no such file; name the Posts.xml of a dump or a JSON-lines file") from None
    except ElementTree.ParseError as error:
        raise InputError(f"{path}: not well-formed XML ({error}); download the dump again") from error


def _json_row(row: Mapping[str, Any], place: str) -> _Row:
    values = {key.lower(): value for key, value in row.items()}
    identifier = values.get("id", values.get("post_id"))
    if not isinstance(identifier, int | str) or isinstance(identifier, bool):
        raise InputError(f"{place}: no field 'id'; every post needs its number")
    body, tags = values.get("body"), values.get("tags") or ()
    if not isinstance(body, str):
        raise InputError(f"{place}, field 'body': expected a text; correct the row")
    found = _tags(tags) if isinstance(tags, str) else tuple(str(tag).lower() for tag in tags)
    kind = str(values.get("posttypeid", values.get("post_type_id", QUESTION)))
    return str(identifier), kind, str(values.get("title") or ""), body, found


def _tags(text: str) -> tuple[str, ...]:
    """`<sql><sqlite>`, `|sql|sqlite|` or `sql sqlite`."""
    return tuple(tag.lower() for tag in re.split(r"[<>|,\s]+", text) if tag)
