"""What an expansion says of a question besides its wordings: what it is about, and what it is after. Pure."""

from collections.abc import Iterable

from retriever.lexical.tokens import tokenize
from retriever.types import Candidate


def matched_entities(entities: Iterable[str], text: str) -> int:
    """How many of the entities a text names: those all of whose words follow one another in it.

    Both sides are read as the lexical index reads them, so that case, endings and punctuation do not matter. Two
    spellings of one entity count once.
    """
    words = f" {' '.join(tokenize(text))} "
    named = {" ".join(tokenize(entity)) for entity in entities}
    return sum(f" {entity} " in words for entity in named if entity)


def adjusted_for_intent(candidate: Candidate, intent: str) -> Candidate:
    """A candidate in the light of the question's intent: the place for a rule, which must first be shown to help."""
    return candidate
