"""GRPO written down once more, from the formulas and without torch: what the engine's numbers are held against.

A_i   = (r_i - mean(r)) / (std(r) + 1e-6)        over the valid samples of a group, std with N - 1
ratio = pi(y_t) / pi_old(y_t)                     "token"
ratio = (prod_t pi(y_t) / pi_old(y_t))^(1/|y|)    "sequence"; |y| counts sampled tokens only
J     = mean( min(ratio A, clip(ratio, 1 - eps, 1 + eps) A) - beta k3 ),  k3 = exp(d) - d - 1, d = ref - logp
loss  = -J, the mean over all sampled tokens ("token"), or over samples of their tokens' mean ("sequence")
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Sample:
    """One trajectory: its group, its reward, and per token whether it was sampled and its log-probabilities."""

    group: str
    reward: float
    mask: tuple[int, ...]
    now: tuple[float, ...]  # under the policy that is trained
    old: tuple[float, ...]  # under the policy that sampled
    ref: tuple[float, ...]  # under the reference policy

    @property
    def valid(self) -> bool:
        return any(self.mask)


def advantages(samples: list[Sample], *, normalise_std: bool) -> list[float]:
    """One number per sample; 0 for a sample that is not valid or alone in its group."""
    found = []
    for sample in samples:
        group = [other.reward for other in samples if other.group == sample.group and other.valid]
        if not sample.valid or len(group) < 2:
            found.append(0.0)
            continue
        mean = sum(group) / len(group)
        advantage = sample.reward - mean
        if normalise_std:
            deviation = math.sqrt(sum((reward - mean) ** 2 for reward in group) / (len(group) - 1))
            advantage /= deviation + 1e-6
        found.append(advantage)
    return found


def loss(samples: list[Sample], *, normalise_std: bool, ratio: str, epsilon: float, beta: float) -> float:
    """The loss of one mini-batch."""
    per_sample = []
    for sample, advantage in zip(samples, advantages(samples, normalise_std=normalise_std), strict=True):
        places = [place for place, sampled in enumerate(sample.mask) if sampled]
        if not places:
            continue
        changes = [sample.now[place] - sample.old[place] for place in places]
        whole = math.exp(sum(changes) / len(changes))
        terms = []
        for place, change in zip(places, changes, strict=True):
            weight = whole if ratio == "sequence" else math.exp(change)
            clipped = min(max(weight, 1 - epsilon), 1 + epsilon)
            drift = sample.ref[place] - sample.now[place]
            terms.append(-min(weight * advantage, clipped * advantage) + beta * (math.exp(drift) - drift - 1))
        per_sample.append(terms)
    if ratio == "sequence":
        return sum(sum(terms) / len(terms) for terms in per_sample) / len(per_sample)
    tokens = [term for terms in per_sample for term in terms]
    return sum(tokens) / len(tokens)


def gradient(samples: list[Sample], step: float = 1e-6, **settings: object) -> list[list[float]]:
    """The loss's derivative by every token's `now`, by central differences."""
    rows = []
    for number, sample in enumerate(samples):
        row = []
        for place in range(len(sample.now)):
            sides = []
            for sign in (1, -1):
                moved = list(sample.now)
                moved[place] += sign * step
                changed = [*samples[:number], replace(sample, now=tuple(moved)), *samples[number + 1 :]]
                sides.append(loss(changed, **settings))  # type: ignore[arg-type]
            row.append((sides[0] - sides[1]) / (2 * step))
        rows.append(row)
    return rows
