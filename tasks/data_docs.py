"""Makes Data Docs readable without a network and equal for equal data.

Great Expectations' pages load styles, scripts and a counting image from elsewhere, name elements by random ids and
show when the data was loaded. Here they get one small local stylesheet and script, and an index of our own.
"""

from __future__ import annotations

import html
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from birdrl.files import write_text

_REMOVED = (
    re.compile(r"<script\b.*?</script>", re.DOTALL | re.IGNORECASE),
    re.compile(r"<link\b[^>]*>", re.IGNORECASE),
    re.compile(r"<footer\b.*?</footer>", re.DOTALL | re.IGNORECASE),
    re.compile(r"<title></title>"),
)
_BRAND = re.compile(r"<img\b[^>]*class=\"NO-CACHE\"[^>]*>", re.DOTALL)
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_LOAD_TIME = re.compile(r"(ge_load_time.*?)\d{8}T\d{6}\.\d+Z", re.DOTALL)
_RUN_TIME = re.compile(r"\b2000-01-01T00:00:00Z\b")  # the fixed time of tasks.expectations.RUN


@dataclass(frozen=True)
class SuitePage:
    """What the index shows of one suite."""

    name: str
    hard: bool
    rows: int
    expectations: int
    failed: Sequence[Mapping[str, Any]]


def finish_data_docs(docs: Path, suites: Sequence[SuitePage]) -> None:
    """Rewrite the pages under `docs` in place, drop unused assets, write `index.html`."""
    shutil.rmtree(docs / "static", ignore_errors=True)
    (docs / "static").mkdir()
    for kind in (".css", ".js"):
        shutil.copyfile(Path(__file__).with_suffix(kind), docs / "static" / f"docs{kind}")
    for page in sorted(docs.rglob("*.html")):
        up = "../" * (len(page.relative_to(docs).parts) - 1)
        write_text(page, _rewrite(page.read_text(encoding="utf-8"), up))
    write_text(docs / "index.html", _index(docs, suites))


def _rewrite(page: str, up: str) -> str:
    for pattern in _REMOVED:
        page = pattern.sub("", page)
    page = _BRAND.sub("Data Docs", page)
    page = _RUN_TIME.sub("not recorded", _LOAD_TIME.sub(r"\1not recorded", page))
    numbers: dict[str, str] = {}
    page = _UUID.sub(lambda match: numbers.setdefault(match.group(0), f"item-{len(numbers) + 1}"), page)
    head = f'<link rel="stylesheet" href="{up}static/docs.css"><script defer src="{up}static/docs.js"></script></head>'
    return page.replace("</head>", head, 1)


def _index(docs: Path, suites: Sequence[SuitePage]) -> str:
    rows = "".join(_index_row(docs, suite) for suite in suites)
    return (
        '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>Data quality</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<link rel="stylesheet" href="static/docs.css"></head><body><main class="index"><h1>Data quality</h1>'
        "<p>Expectations over the instances and templates of this profile. A suite that is not advisory stops the run "
        "when one of its expectations does not hold.</p>"
        "<table class='table'><thead><tr><th>Suite</th><th>Result</th><th class='n'>Rows</th>"
        "<th class='n'>Expectations</th><th>Broken</th></tr></thead><tbody>"
        f"{rows}</tbody></table></main></body></html>\n"
    )


def _index_row(docs: Path, suite: SuitePage) -> str:
    pages = sorted((docs / "validations" / suite.name).rglob("*.html"))
    name = html.escape(suite.name)
    if pages:
        name = f'<a href="{html.escape(pages[0].relative_to(docs).as_posix())}">{name}</a>'
    state = ("bad", "✗ failed") if suite.failed else ("good", "✓ holds")
    if suite.failed and not suite.hard:
        state = ("note", "! advisory")
    broken = "".join(_failure(failure) for failure in suite.failed)
    return (
        f"<tr><td>{name}</td><td class='{state[0]}'>{state[1]}</td><td class='n'>{suite.rows:,}</td>"
        f"<td class='n'>{suite.expectations}</td><td>{broken or 'none'}</td></tr>"
    )


def _failure(failure: Mapping[str, Any]) -> str:
    what = f"{failure['expectation']} {failure['column']}".strip() + f": {failure['observed']}"
    rows = "".join(f"<li>{html.escape(str(row))}</li>" for row in failure["rows"])
    return html.escape(what) + f"<ul>{rows}</ul>"
