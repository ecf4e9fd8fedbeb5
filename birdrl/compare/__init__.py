"""Comparing result tables: named modes, defined value by value."""

from birdrl.compare.modes import MODES, Criteria, Mode, counted_statements, mode_named
from birdrl.compare.table import ResultTable

__all__ = ["MODES", "Criteria", "Mode", "ResultTable", "counted_statements", "mode_named"]
