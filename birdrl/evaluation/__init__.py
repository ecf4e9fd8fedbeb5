"""Measuring policies: greedy trajectories on held-out databases, success rates with intervals."""
