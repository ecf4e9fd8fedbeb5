"""The report of a run: one page with the table, the curves and the data, and the table for a terminal."""

from birdrl.report.document import to_html, to_markdown
from birdrl.report.inputs import ReportInputs, read_inputs
from birdrl.report.page import Page, build_page
from birdrl.report.table import render_table, results_csv, results_markdown

__all__ = [
    "Page",
    "ReportInputs",
    "build_page",
    "read_inputs",
    "render_table",
    "results_csv",
    "results_markdown",
    "to_html",
    "to_markdown",
]
