"""Where a text holds the words of a question."""

import re
from collections.abc import Iterator

from retriever.lexical.tokens import tokenize

_WORD = re.compile(r"\w+")


def matched_places(text: str, stems: frozenset[str]) -> list[tuple[int, int]]:
    """The (start, end) of each word in the text that the lexical arm counts as one of the stems, in order."""
    return [place for word in _WORD.finditer(text) for place in _places(word, stems)]


def _places(word: re.Match[str], stems: frozenset[str]) -> Iterator[tuple[int, int]]:
    found = [term for term in tokenize(word[0]) if term in stems]
    # In a script without spaces a "word" is a whole clause: only the characters that matched are marked.
    literal = [] if word[0].isascii() else [match.span() for term in found for match in _literally(term, word[0])]
    if literal:
        yield from ((word.start() + first, word.start() + last) for first, last in sorted(literal))
    elif found:
        yield word.span()


def _literally(term: str, text: str) -> Iterator[re.Match[str]]:
    return re.finditer(re.escape(term), text, re.IGNORECASE)
