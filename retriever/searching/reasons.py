"""Why a section is a hit, in words that a person understands: the question's words in it, and what else brought it in.

The numbers behind them are in the hit's evidence.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence

from retriever.display.phrases import RELATIONS, find_highlights
from retriever.lexical.tokens import tokenize
from retriever.text import cut
from retriever.types import Evidence, Source

MAX_READ_CHARS = 10_000  # of a section's text that is looked through for the question's words
MAX_TITLE_CHARS = 60

# Letters that a word and its stem have in common at the beginning: only words with those of a stem are tokenized, which
# takes a twentieth of the time. A word such as `dying`, whose stem is `die`, is then not named.
_COMMON_LETTERS = 3
_WORD = re.compile(r"[\w.-]+")
_FOREIGN_WORD = re.compile(r"[a-zA-Z0-9_]*[^\W\x00-\x7f]\w*")
_JOINED = re.compile(r"[\s\-_.'\u2019]*")  # what may stand between two words of one phrase


def find_question_words(
    question: str, stems: Collection[str], text: str, languages: tuple[str, ...] = ()
) -> tuple[str, ...]:
    """The question's words that a text has, as the question writes them; neighbors in the question are one phrase.

    Args:
        question: as it was asked.
        stems: its words as BM25 reads them. One that no word of the question gives, such as a corrected one, is named
            as the text writes it.
        text: of the section, with its titles.
        languages: that both are read in beside English.
    """
    text = text[:MAX_READ_CHARS]
    held: dict[str, str] = {}
    for stem in dict.fromkeys(stems):
        for word in _find_words(text, stem[:_COMMON_LETTERS]):
            if stem in tokenize(word, languages):
                held[stem] = word.strip(".-_")
                break
    if not text.isascii() and len(held) < len(set(stems)):  # letters beyond ASCII are folded
        for word in dict.fromkeys(_FOREIGN_WORD.findall(text)):
            held |= {term: word for term in tokenize(word, languages) if term in stems and term not in held}
    phrases: list[list[int]] = []
    for start, end in find_highlights(question, frozenset(held), languages):
        if phrases and _JOINED.fullmatch(question, phrases[-1][1], max(start, phrases[-1][1])):
            phrases[-1][1] = max(end, phrases[-1][1])
        else:
            phrases.append([start, end])
    named = [" ".join(question[start:end].split()) for start, end in phrases]
    asked = set(tokenize(question, languages))
    corrected = [word for term, word in held.items() if term not in asked]
    once: dict[str, str] = {}
    for phrase in (*named, *corrected):
        once.setdefault(phrase.casefold(), phrase)
    return tuple(once.values())


def _find_words(text: str, beginning: str) -> Iterator[str]:
    """The words with these letters in them, each once."""
    seen: set[str] = set()
    lowered = text.lower()
    place = lowered.find(beginning) if len(lowered) == len(text) else -1
    while place >= 0:
        start = place
        while start and (text[start - 1].isalnum() or text[start - 1] in "_.-"):
            start -= 1
        word = _WORD.match(text, start)
        if word and word[0] not in seen:
            seen.add(word[0])
            yield word[0]
        place = lowered.find(beginning, max(word.end() if word else 0, place + 1))


def list_reasons(evidence: Sequence[Evidence], titles: Mapping[str, str]) -> tuple[str, ...]:
    """What else speaks for a hit than the question's words in it, as clauses, the largest share first.

    Args:
        evidence: of the hit, largest share first.
        titles: of the sections that brought others in, by node id.
    """
    reasons: dict[str, None] = {}
    has_vector = any(item.source is Source.SEMANTIC for item in evidence)
    for item in evidence:
        match item.source:
            case Source.SEMANTIC:
                reasons["nearest in meaning" if item.rank == 1 else "near in meaning"] = None
            case Source.TOKEN_MATCH if not has_vector:
                reasons["near in meaning, word by word"] = None
            case Source.NEIGHBORS if item.via is not None:
                title = titles.get(item.via.node_id) or item.via.node_id
                reasons[f'{RELATIONS[item.via.kind]} "{cut(title, MAX_TITLE_CHARS)}"'] = None
            case Source.NAME:
                reasons["found by name"] = None
            case Source.RECENCY:
                reasons["new, or opened often"] = None
            case Source.ROUNDS:
                reasons[f"found by {item.note}"] = None
            case Source.RERANK:
                reasons["chosen by the model that reads the candidates"] = None
    return tuple(reasons)
