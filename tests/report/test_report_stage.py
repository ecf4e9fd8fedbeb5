"""The report stage end to end on made-up outputs of the other stages."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from birdrl.errors import InputError
from birdrl.report import render_table
from birdrl.stages.registry import StageContext

pytest.importorskip("matplotlib", reason="the pipeline extra is not installed")
from birdrl.report import gym_plots
from birdrl.stages.report import run

Build = Callable[[], StageContext]
Results = dict[str, Any]


@pytest.fixture
def page(context: Build) -> Path:
    ctx = context()
    run(ctx)
    return ctx.out


def test_the_html_page_is_self_contained_and_well_formed(page: Path) -> None:
    html = (page / "report.html").read_text()
    assert not re.search(r"""(?:src|href)=["']?(?:https?:|file:|/|plots)""", html)
    assert html.count("data:image/png;base64,") == 7
    assert "&amp; &lt;fix&gt;" in html, "texts are escaped"
    assert "<fix>" not in html
    for tag in ("table", "section", "details", "figure", "tr", "td"):
        assert len(re.findall(rf"<{tag}[ >]", html)) == html.count(f"</{tag}>"), tag


def test_every_section_and_number_a_reader_looks_for_is_there(page: Path) -> None:
    markdown = (page / "report.md").read_text()
    for title in ("Success", "Training", "Gym", "Contamination audit", "Data quality", "What does not count"):
        assert f"\n## {title}\n" in markdown
    for shown in (
        "62.5 % [53.6, 70.6]",  # 75 of 120 with its Wilson interval
        "3,094 (61.9 %)",  # the paper's Table 7
        "| query issues | 246 (60.0 %) | 72 (60.0 %) | 3,094 (61.9 %) |",
        "| solution SQL length, tokens (mean / max) | not recorded | not recorded | 97.66 / 1,976 |",
        "| management | 26.60 / 91 | 120.20 / 535 | 26.60 / 91 |",  # the paper's Table 8
        "| distinct wordings (names and values masked) | 91.4 % | 91.4 % |",
        "**400 / 120** issues for training / held out",
        "Evaluated on databases never trained on: clinic, theatre.",
        "| databases on both sides | 0 |",
        "1 of 3 rows",
        "| stage 3: single-turn RL | rollouts | gold: 3, infra: 0 |",
        "| stage 4: multi-turn RL | evaluation | gold: 1 |",
        "| stage 4: multi-turn RL | rollouts | not recorded |",
        "plots/gym_domains.png",
        "train/loss",
        "critic/score/mean",
        "the issue passes all tests",
        "ab" * 32,
        '"seed": 7',
    ):
        assert shown in markdown, shown
    for path in re.findall(r"\]\((plots/[^)]+)\)", markdown):
        assert (page / path).read_bytes().startswith(b"\x89PNG")


def test_domains_stand_beside_the_papers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gym_plots, "to_png", lambda figure: figure)
    figure = gym_plots.plot_domains({"instances": 8, "by_database": {"shop": 6, "clinic": 2}})
    [axes] = figure.axes
    assert [bar.get_width() for bar in axes.patches] == [25.0, 75.0]
    assert axes.lines[0].get_xdata()[0] == pytest.approx(100 / 13)
    [legend] = figure.legends
    assert {text.get_text() for text in legend.get_texts()} == {
        "this gym",
        "SIX-GYM-SQLite (paper): mean of 13 domains, 7.7 %",
    }


def test_markdown_tables_keep_their_columns(page: Path) -> None:
    width = None
    for line in (page / "report.md").read_text().splitlines():
        cells = len(re.findall(r"(?<!\\)\|", line)) if line.startswith("|") else None
        assert width is None or cells is None or cells == width, line
        width = cells


def test_the_same_outputs_give_the_same_bytes(context: Build) -> None:
    trees = []
    for _ in range(2):
        ctx = context()
        run(ctx)
        trees.append(
            {str(path.relative_to(ctx.out)): path.read_bytes() for path in ctx.out.rglob("*") if path.is_file()}
        )
    assert trees[0] == trees[1]
    assert {"report.html", "report.md", "results.csv", "plots/success.png"} <= trees[0].keys()


def test_the_csv_holds_every_policy_and_category(page: Path) -> None:
    rows = list(csv.DictReader((page / "results.csv").open()))
    assert len(rows) == 5 * 4
    (last,) = (row for row in rows if row["policy"] == "rl_agentic" and row["category"] == "overall")
    assert (last["instances"], last["success"], last["mean_turns"]) == ("120", "0.625", "2.375")
    assert float(last["low"]) < 0.625 < float(last["high"])


def test_a_missing_stage_and_missing_results_are_named(context: Build) -> None:
    ctx = context()
    (ctx.root / "evaluate" / "results.json").write_text(json.dumps({"policies": []}))
    with pytest.raises(InputError, match=r"evaluate/results\.json: no policies"):
        run(ctx)
    (ctx.root / "evaluate" / "results.json").unlink()
    with pytest.raises(InputError, match=r"evaluate/results\.json: no such file"):
        run(ctx)


def test_shared_databases_are_said_so_in_the_head_of_the_page(context: Build) -> None:
    ctx = context()
    report = json.loads((ctx.root / "audit" / "report.json").read_text())
    report["counts"]["database_overlap"] = 1
    (ctx.root / "audit" / "report.json").write_text(json.dumps(report))
    run(ctx)
    assert "of which 1 also occur in training" in (ctx.out / "report.md").read_text()


def test_the_terminal_table_lists_policies_in_order_of_training(results: Results) -> None:
    lines = render_table(results).splitlines()
    assert [line.split("  ")[0] for line in lines[2:]] == [
        "init", "after stage 1", "after stage 2", "after stage 3", "after stage 4",
    ]  # fmt: skip
    assert re.search(r"after stage 4 +agentic +120 +62\.5 \[53\.6, 70\.6\] .* 2\.38 +15$", lines[-1])
    assert all(len(line) <= 120 for line in lines)


def test_what_was_not_recorded_is_said_so_in_the_table() -> None:
    table = render_table({"policies": [{"policy": "mine", "protocol": "agentic", "instances": 3, "success": 0.0}]})
    assert "mine" in table
    assert "0.0" in table
    assert table.count("not recorded") == 2
