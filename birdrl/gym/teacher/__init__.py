"""The `teacher` rewinder: issues from posts of people, written by a language model (SQL-Rewind, Algorithm 1)."""

from birdrl.gym.teacher.build import build_teacher_gym

__all__ = ["build_teacher_gym"]
