"""The repair as sentences: written by whoever knows the solution, applied by whoever knows only the issue.

Four forms, each naming its place by a piece of the issue SQL that occurs there exactly once:

    Replace `price > 20` with `price >= 20`.     Remove `DISTINCT`.
    Insert `LIMIT 5` after `ORDER BY price`.     Write `SELECT ...`.      (a repair that keeps too little)

`apply_edits` is the proof that a thought carries the repair: it sees no solution.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import pairwise

from birdrl.distill.tokens import Token, occurrences, tokenize
from birdrl.errors import BirdrlError

MAX_EDITS = 4
_SENTENCE = re.compile(
    r"Replace `([^`]+)` with `([^`]+)`\.|Remove `([^`]+)`\.|Insert `([^`]+)` after `([^`]+)`\.|Write `([^`]+)`\."
)

_NAME = re.compile(r"[A-Za-z_\"\[]")
_OPERATORS = {"=", "==", "<>", "!=", "<", ">", "<=", ">=", "+", "-", "*", "/", "||", "."}

_CLAUSES = frozenset(
    ["SELECT", "FROM", "WHERE", "GROUP", "ORDER", "HAVING", "LIMIT", "JOIN", "LEFT", "ON", "AND", "OR", "AS", "SET"]
)  # a piece that runs on into the next clause reads badly


class ThoughtError(BirdrlError):
    """A thought that cannot be written, or from which no SQL can be regenerated; the message says why."""


@dataclass
class _Block:
    """Tokens [i1:i2] of the issue become tokens [j1:j2] of the solution."""

    i1: int
    i2: int
    j1: int
    j2: int


def write_edits(issue: str, solution: str) -> list[str]:
    """Sentences that turn the script `issue` into `solution`. Raises ThoughtError when there is nothing to say."""
    if "`" in issue or "`" in solution:
        raise ThoughtError("the SQL holds backticks, which the edit sentences use as quotes")
    writer = _Writer(issue, solution)
    whole = f"Write `{solution.strip()}`."
    edits = writer.sentences()
    if len(edits) > MAX_EDITS or sum(map(len, edits)) > 1.3 * len(whole):
        return [whole]
    return edits


def apply_edits(issue: str, thought: str) -> str:
    """The script that the edit sentences of `thought` make of `issue`.

    Raises ThoughtError when there is no sentence, a named piece occurs not exactly once, or two edits overlap.
    """
    tokens = tokenize(issue)
    texts = [token.text for token in tokens]
    changes: list[tuple[int, int, str]] = []
    for match in _SENTENCE.finditer(thought):
        old, new, removed, inserted, anchor, whole = match.groups()
        if whole is not None:
            if len(_SENTENCE.findall(thought)) > 1:
                raise ThoughtError("a thought that writes the whole script holds other edits too")
            return whole
        start, end = _locate(old or removed or anchor, issue, tokens, texts)
        if old is not None:
            changes.append((start, end, new))
        elif removed is not None:
            changes.append((*_with_gap(issue, start, end), ""))
        else:
            changes.append((end, end, _joint(inserted) + inserted))
    if not changes:
        raise ThoughtError("the thought names no edit")
    changes.sort()
    for (_, end, _), (start, _, _) in pairwise(changes):
        if start < end:
            raise ThoughtError("two edits of the thought overlap")
    for start, end, new in reversed(changes):
        issue = issue[:start] + new + issue[end:]
    return issue.strip()


def _locate(piece: str, issue: str, tokens: list[Token], texts: list[str]) -> tuple[int, int]:
    needle = [token.text for token in tokenize(piece)]
    found = occurrences(needle, texts)
    if len(found) != 1:
        raise ThoughtError(f"`{piece}` occurs {len(found)} times in the issue SQL, not once")
    return tokens[found[0]].start, tokens[found[0] + len(needle) - 1].end


def _with_gap(issue: str, start: int, end: int) -> tuple[int, int]:
    """The span of a removal together with the white space that would be left over."""
    if start == 0 or issue[start - 1] == "(":
        while end < len(issue) and issue[end].isspace():
            end += 1
    elif issue[start - 1].isspace():
        while start > 0 and issue[start - 1].isspace():
            start -= 1
    return start, end


def _balanced(texts: list[str]) -> bool:
    depth = 0
    for text in texts:
        depth += (text == "(") - (text == ")")
        if depth < 0:
            return False
    return depth == 0


def _joint(inserted: str) -> str:
    return "" if inserted[0] in ",;)." else " "


class _Writer:
    """Compares two scripts token by token and phrases each difference."""

    def __init__(self, issue: str, solution: str) -> None:
        self.issue, self.solution = issue, solution
        self.a, self.b = tokenize(issue), tokenize(solution)
        self.a_texts = [token.text for token in self.a]
        self.b_texts = [token.text for token in self.b]

    def sentences(self) -> list[str]:
        matcher = SequenceMatcher(a=self.a_texts, b=self.b_texts, autojunk=False)
        blocks = [_Block(i1, i2, j1, j2) for tag, i1, i2, j1, j2 in matcher.get_opcodes() if tag != "equal"]
        if not blocks:
            raise ThoughtError("issue and solution are the same SQL")
        blocks = self._close_up(blocks)
        while len(blocks) > 1:
            phrased = [self._phrase(blocks, index) for index in range(len(blocks))]
            if all(phrased):
                return [sentence for sentence in phrased if sentence]
            stuck = phrased.index(None)
            first = min(stuck, len(blocks) - 2)
            blocks[first : first + 2] = [self._joined(*blocks[first : first + 2])]
        return [self._phrase(blocks, 0) or f"Write `{self.solution.strip()}`."]

    def _close_up(self, blocks: list[_Block], near: int = 2) -> list[_Block]:
        """Join differences with at most `near` equal tokens between them: one sentence reads better than two."""
        closed = blocks[:1]
        for block in blocks[1:]:
            if block.i1 - closed[-1].i2 <= near:
                closed[-1] = self._joined(closed[-1], block)
            else:
                closed.append(block)
        return closed

    @staticmethod
    def _joined(first: _Block, second: _Block) -> _Block:
        return _Block(first.i1, second.i2, first.j1, second.j2)

    def _phrase(self, blocks: list[_Block], index: int) -> str | None:
        """A sentence for one difference; None when no piece between its neighbours names its place."""
        block = blocks[index]
        sentence = None
        if block.i1 == block.i2:
            sentence = self._insert(block)
        elif block.j1 == block.j2:
            sentence = self._remove(block)
        # Context may reach as far as the neighbouring differences, not into them.
        lefts = block.i1 - (blocks[index - 1].i2 if index else 0)
        rights = (blocks[index + 1].i1 if index + 1 < len(blocks) else len(self.a)) - block.i2
        return sentence or self._replace(block, lefts, rights)

    def _insert(self, block: _Block) -> str | None:
        new = self._text(self.solution, self.b, block.j1, block.j2)
        if block.i1 == 0 or self._gap(self.solution, self.b, block.j1) != _joint(new):
            return None
        if block.i1 < len(self.a) and self._gap(self.issue, self.a, block.i1) != self._gap(
            self.solution, self.b, block.j2
        ):
            return None
        for start in range(block.i1 - 1, -1, -1):
            # A name says more about the place than a bracket or an operator does.
            if _NAME.match(self.a_texts[start]) and self._unique(start, block.i1):
                return f"Insert `{new}` after `{self._text(self.issue, self.a, start, block.i1)}`."
        return None

    def _remove(self, block: _Block) -> str | None:
        start, end = self.a[block.i1].start, self.a[block.i2 - 1].end
        cut_start, cut_end = _with_gap(self.issue, start, end)
        before = self.a[block.i1 - 1].end if block.i1 else 0
        after = self.a[block.i2].start if block.i2 < len(self.a) else len(self.issue)
        left_over = self.issue[before:cut_start] + self.issue[cut_end:after]
        wanted = self._gap(self.solution, self.b, block.j1) if block.j1 < len(self.b) else ""
        if left_over != wanted or not self._unique(block.i1, block.i2):
            return None
        return f"Remove `{self._text(self.issue, self.a, block.i1, block.i2)}`."

    def _replace(self, block: _Block, lefts: int, rights: int) -> str | None:
        """With the least context, of at most `lefts` and `rights` tokens; rather from the left, where the name is."""
        reach = [(left, right) for left in range(lefts + 1) for right in range(rights + 1)]
        for left, right in sorted(reach, key=lambda context: (self._cost(block, *context), context[1])):
            i1, i2, j1, j2 = block.i1 - left, block.i2 + right, block.j1 - left, block.j2 + right
            if self._settled(i1, i2, j1, j2):
                old, new = self._text(self.issue, self.a, i1, i2), self._text(self.solution, self.b, j1, j2)
                return f"Replace `{old}` with `{new}`."
        return None

    def _cost(self, block: _Block, left: int, right: int) -> int:
        """What a context costs the reader: tokens, clauses it runs into, brackets it leaves open."""
        strays = any(text.upper() in _CLAUSES for text in self.a_texts[block.i2 : block.i2 + right])
        old = self.a_texts[block.i1 - left : block.i2 + right]
        new = self.b_texts[block.j1 - left : block.j2 + right]
        return left + right + 3 * strays + 5 * (not _balanced(old) or not _balanced(new))

    def _settled(self, i1: int, i2: int, j1: int, j2: int) -> bool:
        """Whether the piece is found again, reads on its own, and fits its surroundings without moving blanks."""
        if i1 == i2 or j1 == j2 or not self._unique(i1, i2):
            return False
        old = self.a_texts[i1:i2]
        if not any(_NAME.match(text) for text in old) or old[-1] in _OPERATORS:
            return False  # `price > 20` says where, `>` alone does not
        if i1 > 0 and not _NAME.match(old[0]) and old[0] not in "(,;":
            return False
        if i1 > 0 and old[0] == "(" and _NAME.match(self.a_texts[i1 - 1]):
            return False  # the function's name, or IN, belongs to its bracket
        if i1 > 0 and j1 > 0 and self._gap(self.issue, self.a, i1) != self._gap(self.solution, self.b, j1):
            return False
        if i2 < len(self.a) and j2 < len(self.b):
            return self._gap(self.issue, self.a, i2) == self._gap(self.solution, self.b, j2)
        return True

    def _unique(self, start: int, end: int) -> bool:
        return len(occurrences(self.a_texts[start:end], self.a_texts)) == 1

    @staticmethod
    def _text(script: str, tokens: list[Token], start: int, end: int) -> str:
        return script[tokens[start].start : tokens[end - 1].end]

    @staticmethod
    def _gap(script: str, tokens: list[Token], index: int) -> str:
        """White space before token `index`."""
        return script[tokens[index - 1].end if index else 0 : tokens[index].start]
