"""Contamination audit of training against evaluation instances."""

from birdrl.audit.contamination import Audit, Flag, audit
from birdrl.audit.markdown import render_markdown

__all__ = ["Audit", "Flag", "audit", "render_markdown"]
