"""Which questions are searched as they are: asking a language model would cost seconds and bring nothing.

Docs/ranking.md has what each rule saves and costs.
"""

from collections.abc import Mapping, Sequence

from retriever.expansion.exact import exact_names
from retriever.lexical.tokens import count_words, tokenize
from retriever.searching.open_index import View
from retriever.settings.profile import Profile

EXACT_IN_AT_MOST = 5
"""Sections that hold a name of the question: so few stand among the first hits whatever else is asked."""
SURE_COVERAGE = 0.6
"""Of the question's words, by their rarity: what the first section of BM25 must hold to be sure of it ..."""
SURE_MARGIN = 0.3
"""... and by how much of its score it must stand before the second."""
LOOKED_AT = 20
"""Sections that are asked whether they hold a name; one that so many hold tells little."""


def reason_to_skip(question: str, names: Mapping[str, int], view: View, profile: Profile) -> str:
    """Why the question needs no expansion; empty when it may need one.

    Args:
        question: as it was asked.
        names: of the question, as `telling_names` gives them.
        view: the index.
        profile: what counts as short.
    """
    return short(question, profile) or exact(names) or sure(question, view)


def telling_names(question: str, view: View) -> dict[str, int]:
    """What of the question is meant as it is written, and how many sections hold it.

    A name that none holds tells nothing of them, nor does one that stands everywhere, such as the product's.
    """
    holding = {name: _holding(tokenize(name), view) for name in exact_names(question)}
    return {name: count for name, count in holding.items() if 1 <= count < LOOKED_AT}


def _holding(tokens: Sequence[str], view: View) -> int:
    """How many sections hold all of the words, LOOKED_AT at most."""
    found = [key for key, _ in view.lexical.search(tokens, LOOKED_AT).ranking] if tokens else []
    return sum(share > 1 - 1e-9 for share in view.lexical.coverage(tokens, found))


def short(question: str, profile: Profile) -> str:
    """A few words name a thing; what else could be meant by them, nobody knows."""
    words = count_words(question)
    if words <= profile.hyde_skip_max_words:
        return f"the question has {words} words"
    return f"the question has {len(question)} characters" if len(question) < profile.min_query_length else ""


def exact(names: Mapping[str, int]) -> str:
    """A name that few sections hold is found by BM25; other words would only lead away from it."""
    few = next((name for name, holding in names.items() if holding <= EXACT_IN_AT_MOST), None)
    return "" if few is None else f"{names[few]} sections hold {few}"


def sure(question: str, view: View) -> str:
    """One section speaks of most of the question, and stands far before the next."""
    tokens = tokenize(question)
    ranking = view.lexical.search(tokens, 2).ranking if tokens else ()
    if not ranking or ranking[0][1] <= 0:
        return ""
    (covered,) = view.lexical.coverage(tokens, [ranking[0][0]])
    next_score = ranking[1][1] if len(ranking) > 1 else 0.0
    is_sure = covered >= SURE_COVERAGE and ranking[0][1] - next_score >= SURE_MARGIN * ranking[0][1]
    return f"one section holds {covered:.0%} of the question, far before the next" if is_sure else ""
