"""Imitation data: thoughts and trajectories written by a teacher and kept only when they prove themselves."""
