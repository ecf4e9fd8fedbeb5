"""A page as data: sections of paragraphs, tables and figures, written once and rendered as HTML and as Markdown."""

from __future__ import annotations

import base64
import html
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Paragraph:
    text: str


@dataclass(frozen=True)
class Tiles:
    """A few large numbers: (value, what it is)."""

    items: Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Table:
    """Columns named in `numeric` are right-aligned. `strong` is the number of the row to emphasise."""

    headers: Sequence[str]
    rows: Sequence[Sequence[str]]
    numeric: frozenset[int] = frozenset()
    strong: int | None = None
    caption: str = ""


@dataclass(frozen=True)
class Figure:
    """A PNG by its path relative to the page; the HTML page embeds its bytes."""

    path: str
    png: bytes
    alt: str
    caption: str


@dataclass(frozen=True)
class Code:
    text: str
    language: str = ""


@dataclass(frozen=True)
class Details:
    """Blocks that the HTML page shows on request."""

    summary: str
    blocks: Sequence[Block]


@dataclass(frozen=True)
class Heading:
    text: str


Block = Paragraph | Tiles | Table | Figure | Code | Details | Heading


@dataclass(frozen=True)
class Section:
    title: str
    anchor: str
    blocks: Sequence[Block]


@dataclass(frozen=True)
class Document:
    title: str
    subtitle: str
    lead: Sequence[Block]
    sections: Sequence[Section]


def to_html(document: Document) -> str:
    """One self-contained page: styles and images inside, nothing loaded from elsewhere."""
    style = Path(__file__).with_name("report.css").read_text(encoding="utf-8")
    links = "".join(f'<a href="#{s.anchor}">{html.escape(s.title)}</a>' for s in document.sections)
    body = "".join(_html(block) for block in document.lead)
    for section in document.sections:
        inner = "".join(_html(block) for block in section.blocks)
        body += f'<section id="{section.anchor}"><h2>{html.escape(section.title)}</h2>{inner}</section>\n'
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{html.escape(document.title)}</title>'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><style>\n{style}</style></head>\n'
        f"<body><header><h1>{html.escape(document.title)}</h1><p>{html.escape(document.subtitle)}</p>"
        f"<nav>{links}</nav></header>\n<main>{body}</main></body></html>\n"
    )


def to_markdown(document: Document) -> str:
    """The same page as Markdown; figures are links to their files."""
    lines = [f"# {document.title}", "", document.subtitle, ""]
    for block in document.lead:
        lines += markdown_lines(block)
    for section in document.sections:
        lines += [f"## {section.title}", ""]
        for block in section.blocks:
            lines += markdown_lines(block)
    return "\n".join(lines).rstrip() + "\n"


def _html(block: Block) -> str:
    match block:
        case Paragraph(text):
            return f"<p>{html.escape(text)}</p>\n"
        case Heading(text):
            return f"<h3>{html.escape(text)}</h3>\n"
        case Tiles(items):
            inner = "".join(f"<div><b>{html.escape(v)}</b><span>{html.escape(w)}</span></div>" for v, w in items)
            return f'<div class="tiles">{inner}</div>\n'
        case Figure(_, png, alt, caption):
            data = base64.b64encode(png).decode()
            image = f'<img alt="{html.escape(alt)}" src="data:image/png;base64,{data}">'
            return f"<figure>{image}<figcaption>{html.escape(caption)}</figcaption></figure>\n"
        case Code(text):
            return f"<pre><code>{html.escape(text)}</code></pre>\n"
        case Details(summary, blocks):
            inner = "".join(_html(inner) for inner in blocks)
            return f"<details><summary>{html.escape(summary)}</summary>{inner}</details>\n"
        case Table():
            return _html_table(block)


def _html_table(table: Table) -> str:
    def cells(values: Sequence[str], tag: str) -> str:
        return "".join(
            f'<{tag} class="n">{_number_cell(v)}</{tag}>'
            if place in table.numeric
            else f"<{tag}>{html.escape(v)}</{tag}>"
            for place, v in enumerate(values)
        )

    strong = ' class="strong"'
    rows = "".join(
        f"<tr{strong if place == table.strong else ''}>{cells(row, 'td')}</tr>\n"
        for place, row in enumerate(table.rows)
    )
    caption = f"<caption>{html.escape(table.caption)}</caption>" if table.caption else ""
    head = f"<thead><tr>{cells(table.headers, 'th')}</tr></thead>"
    return f'<div class="scroll"><table>{caption}{head}<tbody>\n{rows}</tbody></table></div>\n'


def _number_cell(value: str) -> str:
    # An interval stands below its number, so that a row of several stays narrow.
    figure, bracket, span = value.partition(" [")
    return html.escape(figure) + (f"<small>[{html.escape(span)}</small>" if bracket else "")


def markdown_lines(block: Block) -> list[str]:
    """One block as lines of Markdown, the last one empty."""
    match block:
        case Paragraph(text):
            return [text, ""]
        case Heading(text):
            return [f"### {text}", ""]
        case Tiles(items):
            return [*(f"* **{value}** {what}" for value, what in items), ""]
        case Figure(path, _, alt, caption):
            return [f"![{alt}]({path})", "", caption, ""]
        case Code(text, language):
            fence = "```"
            while fence in text:
                fence += "`"
            return [f"{fence}{language}", text.rstrip("\n"), fence, ""]
        case Details(summary, blocks):
            return [f"### {summary}", "", *(line for inner in blocks for line in markdown_lines(inner))]
        case Table(headers, rows, numeric, _, caption):
            rule = ["---:" if place in numeric else "---" for place in range(len(headers))]
            lines = [caption, ""] if caption else []
            lines += [_row(headers), _row(rule), *(_row(row) for row in rows), ""]
            return lines


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"
