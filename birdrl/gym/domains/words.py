"""Word lists of the generated domains: short, plain words that small tokenizers copy without trouble."""

from __future__ import annotations


def _list(text: str, separator: str = " ") -> list[str]:
    return text.split(separator)


FIRST_NAMES = _list(
    "Anna Ben Carla David Emma Felix Grace Henry Iris Jack Kate Leo Maria Noah Olga Paul Rosa Sam Tina Victor Wendy "
    "Alan Bella Carl Diana Eric Fiona George Helen Ivan Julia Karl Linda Mark Nina Oscar Petra Ralph Sara Tom"
)
LAST_NAMES = _list(
    "Adams Baker Clark Davis Evans Fisher Garcia Hill Irving Jones King Lopez Miller Nolan Owens Parker Quinn Reed "
    "Scott Turner Underwood Vance Walker Young Allen Brooks Cole Dixon Ellis Foster Grant Hayes Knight Lane Mason"
)
CITIES = _list(
    "Lisbon Porto Madrid Seville Lyon Paris Berlin Hamburg Vienna Prague Warsaw Oslo Dublin Leeds Milan Turin Athens "
    "Zurich"
)
COUNTRIES = _list("Portugal Spain France Germany Austria Poland Norway Ireland Italy Greece Canada Brazil Japan India")
STREETS = _list("Oak Elm Park Lake River Church Mill Station Hill Garden Market Bridge")
ADJECTIVES = _list(
    "Blue Silver Quiet Golden Wild Bright Hidden Little Northern Ancient Crystal Velvet Modern Broken Distant Lucky "
    "Gentle Frozen Open Secret"
)
NOUNS = _list(
    "River Garden Mountain Bridge Harbor Forest Castle Island Window Shadow Winter Morning Signal Mirror Lantern Road "
    "Tower Ocean Valley Circle"
)
NOTES = _list(
    "call back later|customer was satisfied|needs a second visit|waiting for documents|checked twice|sent by mistake|"
    "discount agreed by phone|delayed by weather|see earlier entry|address was corrected|paid in cash|nothing unusual",
    "|",
)
