"""Make the lists of common words: retriever/lexical/common/LANGUAGE.bin, one Bloom filter a language.

    uv run --with wordfreq scripts/make_common_words.py

The words are the most frequent ones of wordfreq (data under CC BY-SA 4.0), as stems without accents. A filter takes 12
bits a stem, and takes one word in 300 for common that is not.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from wordfreq import top_n_list, zipf_frequency  # type: ignore[import-not-found]  # installed for this alone

from retriever.lexical.mending import FILTERS, LISTED, list_places
from retriever.lexical.tokens import remove_accents

MOST_FREQUENT = 26_000
BITS = 12  # of a filter for each of its words
CODES = {
    "german": "de",
    "french": "fr",
    "spanish": "es",
    "portuguese": "pt",
    "italian": "it",
    "dutch": "nl",
    "swedish": "sv",
    "danish": "da",
    "norwegian": "nb",
}


def make_filter(language: str) -> bytes:
    """Return the filter of a language's words; English ones, which stand in all lists, are left out."""
    code = CODES[language]
    words = [word for word in top_n_list(code, MOST_FREQUENT) if word.isalpha() and len(word) > 2]
    own = [word for word in words if zipf_frequency(word, code) >= zipf_frequency(word, "en")]
    stems = {remove_accents(word) for word in own}
    size = -(-len(stems) * BITS // 8)
    bits = bytearray(size)
    for stem in stems:
        for place in list_places(stem, 8 * size):
            bits[place // 8] |= 1 << place % 8
    print(f"{language}: {len(stems):,} stems, {size:,} bytes")
    return bytes(bits)


if __name__ == "__main__":
    for language in LISTED:
        (FILTERS / f"{language}.bin").write_bytes(make_filter(language))
