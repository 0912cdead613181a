"""Make the lists of common words: retriever/lexical/common/LANGUAGE.txt.gz, one word a line.

    uv run --with wordfreq scripts/make_common_words.py

The words are the most frequent ones of wordfreq (data under CC BY-SA 4.0), without accents.
"""

import gzip
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from wordfreq import top_n_list, zipf_frequency  # type: ignore[import-not-found]  # installed for this alone

from retriever.lexical.spelling import COMMON, LISTED
from retriever.lexical.tokens import remove_accents

MOST_FREQUENT = 26_000
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


def list_common(language: str) -> list[str]:
    """Return the words of a language; English ones, which are in all lists, are left out."""
    code = CODES[language]
    words = [word for word in top_n_list(code, MOST_FREQUENT) if word.isalpha() and len(word) > 2]
    own = [word for word in words if zipf_frequency(word, code) >= zipf_frequency(word, "en")]
    return sorted({plain for plain in map(remove_accents, own) if plain.isascii()})


if __name__ == "__main__":
    for language in LISTED:
        words = list_common(language)
        text = "\n".join(("", *words, ""))
        (COMMON / f"{language}.txt.gz").write_bytes(gzip.compress(text.encode(), mtime=0))
        print(f"{language}: {len(words):,} words")
