"""Why a section is a hit, in words that a person understands: the question's words in it, and what else brought it in.

The numbers behind them are in the hit's evidence.
"""

import re
from collections.abc import Collection, Mapping, Sequence

from retriever.display.phrases import RELATIONS, find_highlights
from retriever.lexical.tokens import tokenize
from retriever.text import cut
from retriever.types import Evidence, Source

MAX_READ_CHARS = 10_000  # of a section's text that is looked through for the question's words
MAX_TITLE_CHARS = 60

# Letters that a word and its stem have in common at the beginning: only words with those of a stem are tokenized, which
# takes a twentieth of the time. A word such as `dying`, whose stem is `die`, is then not named.
_COMMON_LETTERS = 2
_WORD = re.compile(r"[\w\x80-\U0010ffff]+(?:[.-][\w\x80-\U0010ffff]+)*")
_JOINED = re.compile(r"[\s\-_.'\u2019]*")  # what may stand between two words of one phrase


def find_question_words(question: str, stems: Collection[str], text: str) -> tuple[str, ...]:
    """The question's words that a text has, as the question writes them; neighbors in the question are one phrase.

    Args:
        question: as it was asked.
        stems: its words as BM25 reads them. One that no word of the question gives, such as a corrected one, is named
            as the text writes it.
        text: of the section, with its titles.
    """
    held: dict[str, str] = {}
    beginnings = tuple({stem[:_COMMON_LETTERS] for stem in stems})
    for word in dict.fromkeys(_WORD.findall(text[:MAX_READ_CHARS])):
        folded = word.lower()
        if not word.isascii() or any(beginning in folded for beginning in beginnings):
            for term in tokenize(word):
                if term in stems:
                    held.setdefault(term, word)
    phrases: list[list[int]] = []
    for start, end in find_highlights(question, frozenset(held)):
        if phrases and _JOINED.fullmatch(question, phrases[-1][1], max(start, phrases[-1][1])):
            phrases[-1][1] = max(end, phrases[-1][1])
        else:
            phrases.append([start, end])
    named = [" ".join(question[start:end].split()) for start, end in phrases]
    asked = set(tokenize(question))
    corrected = [word for term, word in held.items() if term not in asked]
    once: dict[str, str] = {}
    for phrase in (*named, *corrected):
        once.setdefault(phrase.casefold(), phrase)
    return tuple(once.values())


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
            case Source.RECENCY:
                reasons["new, or opened often"] = None
            case Source.RERANK:
                reasons["chosen by the model that reads the candidates"] = None
    return tuple(reasons)
