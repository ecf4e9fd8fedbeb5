"""SQL-Rewind with the embedded taxonomy: from verified SQL to an issue, its solution and its tests."""

from birdrl.gym.rewind import kinds
from birdrl.gym.rewind.draft import KINDS, BugKind, Draft, apply_construction, apply_mutation, kinds_of

__all__ = ["KINDS", "BugKind", "Draft", "apply_construction", "apply_mutation", "kinds", "kinds_of"]
