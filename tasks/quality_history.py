"""The latest validations of a profile, kept beside the outputs: what held when, and how it looked.

The stage's own output depends on the data alone, so that DVC can tell whether anything changed. Times are kept here.
"""

from __future__ import annotations

import html
import shutil
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from birdrl.files import read_json, write_json, write_text


def keep_run(history: Path, out: Path, summary: Mapping[str, Any], keep: int) -> Path:
    """Copy a validation's output to the history, drop all but the latest `keep`, and renew `index.html`.

    Returns the folder of the copy, for example `quality-history/0007-failed`.
    """
    history.mkdir(parents=True, exist_ok=True)
    number = max((_number(run) for run in runs(history)), default=0) + 1
    target = history / f"{number:04d}-{'passed' if summary['success'] else 'failed'}"
    partial = history / f".{target.name}.part"
    shutil.rmtree(partial, ignore_errors=True)
    shutil.copytree(out, partial)
    write_json(partial / "run.json", {"at": datetime.now().astimezone().isoformat(timespec="seconds")})
    partial.replace(target)
    for old in runs(history)[:-keep]:
        shutil.rmtree(old)
    write_text(history / "index.html", _index(history))
    return target


def runs(history: Path) -> list[Path]:
    """Folders of the runs kept, oldest first."""
    return sorted((run for run in history.glob("[0-9]*-*") if run.is_dir()), key=_number)


def _number(run: Path) -> int:
    return int(run.name.partition("-")[0])


def _index(history: Path) -> str:
    rows = "".join(_row(run) for run in reversed(runs(history)))
    style = (Path(__file__).parent / "data_docs.css").read_text(encoding="utf-8")
    return (
        '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>Data quality, latest runs</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<style>{style}</style></head><body><main class="index"><h1>Data quality, latest runs</h1>'
        "<table class='table'><thead><tr><th>Run</th><th>Result</th><th>When</th><th>Rows</th><th>Broken</th></tr>"
        f"</thead><tbody>{rows}</tbody></table></main></body></html>\n"
    )


def _row(run: Path) -> str:
    summary, at = read_json(run / "summary.json"), str(read_json(run / "run.json")["at"])
    state = ("good", "✓ passed") if summary["success"] else ("bad", "✗ failed")
    rows = ", ".join(f"{suite['name']} {suite['rows']:,}" for suite in summary["suites"])
    broken = [
        f"{suite['name']}{'' if suite['hard'] else ' (advisory)'}: {failure['expectation']} {failure['column']}".strip()
        for suite in summary["suites"]
        for failure in suite["failed"]
    ]
    items = "".join(f"<li>{html.escape(entry)}</li>" for entry in broken)
    return (
        f'<tr><td><a href="{run.name}/docs/index.html">{run.name.partition("-")[0]}</a></td>'
        f"<td class='{state[0]}'>{state[1]}</td><td>{html.escape(at.replace('T', ' '))}</td>"
        f"<td>{html.escape(rows)}</td><td>{f'<ul>{items}</ul>' if items else 'none'}</td></tr>"
    )
