"""Fourteen domains of our own, written in the column vocabulary."""

from __future__ import annotations

from birdrl.gym.domains import commerce, movement, public
from birdrl.gym.domains.vocabulary import Domain

DOMAINS: dict[str, Domain] = {
    domain.db_id: domain
    for domain in sorted((*commerce.DOMAINS, *public.DOMAINS, *movement.DOMAINS), key=lambda d: d.db_id)
}
