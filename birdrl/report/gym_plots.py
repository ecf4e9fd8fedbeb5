"""The shape of a gym beside the published one: BIRD-RL's Tables 7 and 8 and Figure 3 as plots."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from matplotlib import pyplot as plt
from matplotlib.axes import Axes

from birdrl.gym.paper import LENGTH_BIN, TABLE_7, TABLE_8
from birdrl.report.plots import COLOURS, LINE, SOFT, STYLE, to_png

OURS, PAPER = "this gym", "SIX-GYM-SQLite (paper)"
_PARTS = {"query": "user query", "issue_sql": "issue SQL", "sol_sql": "solution SQL", "tests": "a test case"}
_COUNTS = {
    "distinct_test_cases": "distinct tests",
    "preprocess_sql": "preprocess SQLs",
    "clean_up_sql": "clean-up SQLs",
    "multi_sql_instances": "multi-SQL issues",
}
MOST_FEATURES, MOST_DOMAINS = 32, 40


def write_plots(stats: Mapping[str, Any], folder: Path) -> list[Path]:
    """`shape.png`, `lengths.png`, `features.png` and `domains.png` from a summary of `birdrl.gym.stats`."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name, plot in (
        ("shape", plot_shape),
        ("lengths", plot_lengths),
        ("features", plot_features),
        ("domains", plot_domains),
    ):
        path = folder / f"{name}.png"
        path.write_bytes(plot(stats))
        written.append(path)
    return written


def plot_shape(stats: Mapping[str, Any]) -> bytes:
    """Table 7: category shares, and tests and statements per issue."""
    total, paper_total = max(stats["instances"], 1), TABLE_7["instances"]
    with plt.rc_context(STYLE):
        figure, (left, right) = plt.subplots(
            1, 2, figsize=(8.6, 3.4), layout="constrained", gridspec_kw={"width_ratios": (3, 4)}
        )
        shares = [100 * stats["by_category"][name] / total for name in stats["by_category"]]
        paper = [100 * TABLE_7["by_category"][name] / paper_total for name in stats["by_category"]]
        _pairs(left, list(stats["by_category"]), shares, paper)
        left.set_ylabel("share of issues, %")
        per_issue = [stats[key] / total for key in _COUNTS]
        _pairs(right, list(_COUNTS.values()), per_issue, [TABLE_7[key] / paper_total for key in _COUNTS])
        right.set_ylabel("per issue")
        right.tick_params(axis="x", labelsize=8.5)
        figure.legend(*left.get_legend_handles_labels(), loc="outside upper left", ncols=2)
        return to_png(figure)


def plot_lengths(stats: Mapping[str, Any]) -> bytes:
    """Table 8: mean length of each part by category; and how long the user queries are."""
    with plt.rc_context(STYLE):
        figure, grid = plt.subplots(2, 3, figsize=(10.2, 5.4), layout="constrained")
        groups = list(stats["lengths_by_category"])
        for axes, (part, label) in zip(grid.flat, _PARTS.items(), strict=False):
            ours = [stats["lengths_by_category"][group][part]["mean"] for group in groups]
            _pairs(axes, groups, ours, [TABLE_8[group][part][0] for group in groups])
            axes.set_title(f"{label}, mean")
            axes.set_ylabel("tokens")
            axes.tick_params(axis="x", labelsize=8, rotation=15)
        for axes, part in zip(grid.flat[4:], ("query", "issue_sql"), strict=True):
            _histogram(axes, stats["lengths"][part], TABLE_8["overall"][part], _PARTS[part])
        figure.legend(*grid.flat[0].get_legend_handles_labels(), loc="outside upper left", ncols=2)
        return to_png(figure)


def plot_features(stats: Mapping[str, Any]) -> bytes:
    """Figure 3, first half: the share of solutions that use an SQL feature. The paper's are not known in numbers."""
    total = max(stats["instances"], 1)
    shown = list(stats["features"].items())[:MOST_FEATURES][::-1]
    with plt.rc_context(STYLE):
        figure, axes = plt.subplots(figsize=(7.2, 0.6 + 0.21 * max(len(shown), 4)), layout="constrained")
        axes.barh([name.replace("_", " ") for name, _ in shown], [100 * n / total for _, n in shown], color=COLOURS[0])
        axes.set_xlabel("share of solutions, %")
        axes.grid(axis="y", visible=False)
        axes.tick_params(axis="y", labelsize=8)
        axes.margins(y=0.01)
        return to_png(figure)


def plot_domains(stats: Mapping[str, Any]) -> bytes:
    """Figure 3, second half: the share of issues on each database, beside the published gym's mean over its domains."""
    total, mean = max(stats["instances"], 1), 100 / TABLE_7["domains"]
    shown = sorted(stats["by_database"].items(), key=lambda item: (item[1], item[0]))
    cut = shown[-MOST_DOMAINS:]
    with plt.rc_context(STYLE):
        figure, axes = plt.subplots(figsize=(7.2, 1.1 + 0.22 * max(len(cut), 4)), layout="constrained")
        axes.barh([name for name, _ in cut], [100 * n / total for _, n in cut], color=COLOURS[0], label=OURS)
        label = f"{PAPER}: mean of {TABLE_7['domains']} domains, {mean:.1f} %"
        axes.axvline(mean, color=COLOURS[1], lw=1.6, ls="--", label=label)
        axes.set_xlabel(f"share of issues, %; the {len(cut)} largest of {len(shown)} databases")
        axes.grid(axis="y", visible=False)
        axes.tick_params(axis="y", labelsize=8)
        axes.margins(y=0.01)
        figure.legend(*axes.get_legend_handles_labels(), loc="outside upper left", ncols=2)
        return to_png(figure)


def _pairs(axes: Axes, names: list[str], ours: list[float], paper: list[float]) -> None:
    """Bars of ours beside the paper's."""
    for number, (values, label) in enumerate(((ours, OURS), (paper, PAPER))):
        places = [place + (number - 0.5) * 0.38 for place in range(len(names))]
        axes.bar(places, values, 0.36, color=COLOURS[number], label=label)
    axes.set_xticks(range(len(names)), names)
    axes.grid(axis="x", visible=False)


def _histogram(axes: Axes, lengths: Mapping[str, Any], paper: tuple[float, int], label: str) -> None:
    """Our distribution of tokens, with both means marked."""
    starts = [int(start) for start in lengths["histogram"]]
    counts = [lengths["histogram"][str(start)] for start in starts]
    axes.bar(starts, counts, LENGTH_BIN, align="edge", color=COLOURS[0], edgecolor=LINE)
    for mean, colour, style in ((lengths["tokens"]["mean"], COLOURS[0], "-"), (paper[0], COLOURS[1], "--")):
        axes.axvline(mean, color=colour, lw=1.6, ls=style)
    axes.set_title(f"{label}, ours; lines: both means")
    axes.set_xlabel("tokens")
    axes.set_ylabel("issues")
    axes.tick_params(colors=SOFT)
    axes.grid(axis="x", visible=False)
