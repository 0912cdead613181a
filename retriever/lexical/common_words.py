"""Which words are common in a language, so that a right word that the documents lack is taken for no slip.

Each language has a Bloom filter (Bloom, "Space/time trade-offs in hash coding with allowable errors", CACM 1970) of the
stems of its most frequent words, without accents: 20 KB for 13,000 stems, of which one in 300 other words seems to be
one. `scripts/make_common_words.py` makes them of wordfreq; common/LICENSE has the terms of that data.
"""

from functools import cache
from hashlib import blake2b
from pathlib import Path

from retriever.lexical.languages import count_function_words
from retriever.lexical.tokens import remove_accents, stem_word

FILTERS = Path(__file__).parent / "common"
LISTED = ("german", "french", "spanish", "portuguese", "italian", "dutch", "swedish", "danish", "norwegian")
COMPOUNDING = frozenset(
    {"german", "dutch", "swedish", "danish", "norwegian"}
)  # they write `Kartoffel` and `Gratin` as one
PLACES = 8  # of a stem in its filter, the best number for 12 bits a stem
SHORTEST_PART = 4  # letters of a part of a compound


def is_common(word: str, language: str) -> bool:
    """Return whether a word in lower case, or each part of a compound, is a common one of a language of `LISTED`."""
    if _is_listed(word, language):
        return True
    cuts = range(SHORTEST_PART, len(word) - SHORTEST_PART + 1) if language in COMPOUNDING else ()
    return any(_is_listed(word[:cut], language) and _is_listed(word[cut:], language) for cut in cuts)


def split_languages(question: str, documents: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the languages that a word of the question is likely in, and those that it may be in besides.

    Its own function words say the language of a question. One without any may be in each.
    """
    votes = count_function_words(question, ("english", *LISTED))
    most = max(votes.values())
    own = {name for name in LISTED if name in documents or (most and votes[name] == most)}
    others = () if most else tuple(name for name in LISTED if name not in own)
    return tuple(sorted(own)), others


def list_places(stem: str, bits: int) -> list[int]:
    """Return which bits of a filter of that size stand for a stem."""
    digest = blake2b(stem.encode(), digest_size=16).digest()
    first, step = int.from_bytes(digest[:8], "little"), int.from_bytes(digest[8:], "little") | 1
    return [(first + number * step) % bits for number in range(PLACES)]


def spell_stem(word: str, language: str) -> str:
    """Return what stands in the filter for a word in lower case."""
    return remove_accents(stem_word(word, language))


def _is_listed(word: str, language: str) -> bool:
    bits = _read_filter(language)
    return all(bits[place >> 3] >> (place & 7) & 1 for place in list_places(remove_accents(word), 8 * len(bits)))


@cache
def _read_filter(language: str) -> bytes:
    return (FILTERS / f"{language}.bin").read_bytes()
