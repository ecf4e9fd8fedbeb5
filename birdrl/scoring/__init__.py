"""Scoring files of predictions: readers, verdicts, metrics, intervals."""
