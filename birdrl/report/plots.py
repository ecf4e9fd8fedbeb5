"""The plots: success by policy, success by category, training curves. PNG bytes that depend on the data alone."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from birdrl.report.curves import Curve
from birdrl.report.labels import MISSING, SHORT, categories, ordered_policies

# Okabe and Ito: told apart with any kind of colour vision; markers differ as well.
COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9")
MARKERS = ("o", "s", "^", "D", "v")
INK, SOFT, LINE = "#1f2933", "#52606d", "#dfe6ee"
STYLE: Any = {
    "font.family": "DejaVu Sans",
    "font.size": 10,
    "text.color": INK,
    "axes.labelcolor": SOFT,
    "axes.edgecolor": SOFT,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "grid.color": LINE,
    "xtick.color": SOFT,
    "ytick.color": SOFT,
    "legend.frameon": False,
    "figure.dpi": 160,
}


def plot_success(results: Mapping[str, Any]) -> bytes:
    """Overall success of every policy with its Wilson interval, in order of training."""
    policies = ordered_policies(results)
    with plt.rc_context(STYLE):
        figure, axes = plt.subplots(figsize=(8.2, 3.6), layout="constrained")
        places = list(range(len(policies)))
        _errors(axes, places, policies, COLOURS[0], MARKERS[0], line=True)
        for place, policy in zip(places, policies, strict=True):
            if policy.get("success") is not None:
                axes.annotate(
                    f"{100 * policy['success']:.1f} %", (place, 100 * policy["success"]),
                    xytext=(9, 5), textcoords="offset points", color=INK,
                )  # fmt: skip
        _policy_axis(axes, policies)
        axes.set_xlim(-0.4, len(policies) - 0.3)
        axes.grid(axis="x", visible=False)
        return to_png(figure)


def plot_categories(results: Mapping[str, Any]) -> bytes:
    """Success by category, one group a policy."""
    policies, names = ordered_policies(results), categories(results)
    with plt.rc_context(STYLE):
        figure, axes = plt.subplots(figsize=(8.2, 3.8), layout="constrained")
        for number, name in enumerate(names):
            shift = (number - (len(names) - 1) / 2) * 0.2
            entries = [(policy.get("by_category") or {}).get(name) or {} for policy in policies]
            places = [place + shift for place in range(len(policies))]
            style = number % len(COLOURS)
            _errors(axes, places, entries, COLOURS[style], MARKERS[style], label=name)
        _policy_axis(axes, policies)
        axes.grid(axis="x", visible=False)
        if names:
            figure.legend(loc="outside upper left", ncols=len(names))
        return to_png(figure)


def plot_curves(panels: Sequence[tuple[str, str, Sequence[tuple[str, Curve]]]]) -> bytes:
    """Small multiples. A panel is (title, y label, curves with their labels); without points it says so."""
    columns = min(2, max(1, len(panels)))
    rows = -(-len(panels) // columns)
    with plt.rc_context(STYLE):
        figure, grid = plt.subplots(
            max(1, rows), columns, figsize=(4.4 * columns, 2.6 * max(1, rows)), squeeze=False, layout="constrained"
        )
        for axes in grid.flat[len(panels) :]:
            axes.set_visible(False)
        for axes, (title, label, curves) in zip(grid.flat, panels, strict=False):
            axes.set_title(title)
            axes.set_ylabel(label)
            drawn = [(name, curve) for name, curve in curves if curve.values]
            for number, (name, curve) in enumerate(drawn):
                few = len(curve.values) <= 40
                axes.plot(
                    curve.steps, curve.values, color=COLOURS[number], lw=1.6, label=name,
                    marker=MARKERS[number] if few else None, markersize=4,
                )  # fmt: skip
            if drawn:
                axes.set_xlabel("step")
                axes.xaxis.get_major_locator().set_params(integer=True)
            else:
                axes.set_xticks([])
                axes.set_yticks([])
                axes.text(0.5, 0.5, MISSING, transform=axes.transAxes, ha="center", va="center", color=SOFT)
            if len(drawn) > 1:
                axes.legend()
        return to_png(figure)


def _errors(
    axes: Axes,
    places: Sequence[float],
    entries: Sequence[Mapping[str, Any]],
    colour: str,
    marker: str,
    *,
    label: str | None = None,
    line: bool = False,
) -> None:
    points = [(place, entry) for place, entry in zip(places, entries, strict=True) if entry.get("success") is not None]
    if not points:
        return
    x = [place for place, _ in points]
    y = [100 * float(entry["success"]) for _, entry in points]
    bounds = [entry.get("interval") or (entry["success"], entry["success"]) for _, entry in points]
    # A Wilson interval contains its share; rounding in the file must not make a length negative.
    low = [max(0.0, value - 100 * float(bound[0])) for value, bound in zip(y, bounds, strict=True)]
    high = [max(0.0, 100 * float(bound[1]) - value) for value, bound in zip(y, bounds, strict=True)]
    if line:
        axes.plot(x, y, color=LINE, lw=2, zorder=1)
    axes.errorbar(
        x, y, yerr=[low, high], fmt=marker, color=colour, capsize=3, lw=1.4, markersize=6, label=label, clip_on=False,
    )  # fmt: skip


def _policy_axis(axes: Axes, policies: Sequence[Mapping[str, Any]]) -> None:
    axes.set_xticks(range(len(policies)))
    axes.set_xticklabels(
        [f"{SHORT.get(p['policy'], p['policy'])}\n({p.get('protocol', MISSING)}, n = {p.get('instances', '?')})"
         for p in policies]
    )  # fmt: skip
    axes.set_ylim(0, 100)
    axes.set_ylabel("success, % (Wilson 95 %)")


def to_png(figure: Figure) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", metadata={"Software": None})
    plt.close(figure)
    return buffer.getvalue()
