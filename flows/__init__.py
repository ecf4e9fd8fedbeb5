"""Flows: what runs, in which order. Prefect reads its settings when it is imported, so they are made here, before."""

from flows._settings import configure_prefect

configure_prefect()
