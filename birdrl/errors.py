"""One exception tree. The class says who has to act: the user, the machine, the data or the policy."""


class BirdrlError(Exception):
    """Base of every error that birdrl raises on purpose."""


class InputError(BirdrlError):
    """Bad input from a person: the message names the file, the row or key, and the remedy."""


class InfraError(BirdrlError):
    """The machinery failed (dead worker, full disk, exhausted pool). Never turned into a zero reward."""


class GoldError(BirdrlError):
    """A reference solution or its tests do not work: the instance is at fault, not the policy."""


class QualityError(BirdrlError):
    """A data-quality expectation does not hold; the message shows offending rows and the report's path."""
