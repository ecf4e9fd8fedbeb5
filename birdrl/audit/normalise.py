"""Texts and SQL brought to one form, so that copies compare equal and near copies look alike."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

from birdrl.files import sha256_text

# A quoted token is matched first and kept, so that `'--'` or `'/*'` inside a literal is not taken for a comment.
_QUOTED_OR_COMMENT = re.compile(
    r"""('(?:[^']|'')*'|"(?:[^"]|"")*"|`(?:[^`]|``)*`|\[[^\]]*\])   # literal or quoted name
        |--[^\n]*                                                    # line comment
        |/\*.*?(?:\*/|\Z)                                            # block comment; SQLite ends an open one at the end
    """,
    re.VERBOSE | re.DOTALL,
)


def normalise_text(text: str) -> str:
    """NFKC, case folding, one space for every run of white space (the paper's "normalized issue descriptions").

    Normalising twice around the folding makes the result stable: folding may leave characters that NFKC changes.
    """
    folded = unicodedata.normalize("NFKC", text).casefold()
    folded = unicodedata.normalize("NFKC", folded).casefold()
    return " ".join(unicodedata.normalize("NFKC", folded).split())


def strip_comments(sql: str) -> str:
    """SQL without its comments; each becomes a space. Literals and quoted names stay as they are."""
    return _QUOTED_OR_COMMENT.sub(lambda match: match.group(1) or " ", sql)


def normalise_sql(statements: Sequence[str]) -> str:
    """Statements without comments and closing semicolons, normalised like text, joined by ` ; `."""
    cleaned = (normalise_text(strip_comments(statement)).rstrip("; ") for statement in statements)
    return " ; ".join(statement for statement in cleaned if statement)


def fingerprint(normalised: str) -> str:
    """SHA-256 of a normalised text or SQL: equal exactly for exact copies."""
    return sha256_text(normalised)
