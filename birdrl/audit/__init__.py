"""Contamination audit of training against evaluation instances: see `birdrl.audit.contamination`."""
