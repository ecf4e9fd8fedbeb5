"""Stage `report`: one page with the table, the curves and the data."""

from __future__ import annotations

from birdrl.files import write_text
from birdrl.params import Params
from birdrl.report import build_page, read_inputs, results_csv, to_html, to_markdown
from birdrl.stages.registry import StageContext


def run(ctx: StageContext) -> None:
    """Write `report.html` (self-contained), `report.md` with `plots/*.png`, and `results.csv`."""
    inputs = read_inputs(
        ctx.input,
        profile=ctx.root.name,
        title=ctx.params.report.title,
        seed=ctx.seed,
        params=_visible(ctx.params),
    )
    page = build_page(inputs)
    (ctx.out / "plots").mkdir()
    for path, png in page.plots.items():
        (ctx.out / path).write_bytes(png)
    write_text(ctx.out / "report.html", to_html(page.document))
    write_text(ctx.out / "report.md", to_markdown(page.document))
    write_text(ctx.out / "results.csv", results_csv(inputs.results))


def _visible(params: Params) -> dict[str, object]:
    """The parameter sections that this stage declares, as plain values."""
    values = {name: getattr(params, name) for name in Params.model_fields if name in vars(params)}
    return {
        name: value.model_dump(mode="json") if hasattr(value, "model_dump") else value for name, value in values.items()
    }
