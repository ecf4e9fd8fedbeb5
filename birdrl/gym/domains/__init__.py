"""Domains of our own, written in the column vocabulary: fourteen to train on, four more to evaluate on."""

from __future__ import annotations

from collections.abc import Iterable

from birdrl.gym.domains import commerce, evaluation, movement, public
from birdrl.gym.domains.vocabulary import Domain


def _by_id(domains: Iterable[Domain]) -> dict[str, Domain]:
    return {domain.db_id: domain for domain in sorted(domains, key=lambda d: d.db_id)}


DOMAINS: dict[str, Domain] = _by_id((*commerce.DOMAINS, *public.DOMAINS, *movement.DOMAINS))
EVALUATION_DOMAINS: dict[str, Domain] = _by_id(evaluation.DOMAINS)
