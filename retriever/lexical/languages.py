"""Which language a text is in, by its script and its function words, and the words of each that a search leaves out.

A text that is English, or in no language that is known here, has no language: it is read as English. Code, names and
short notes are of that kind.
"""

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

READ = 8_000  # characters of a text that are looked at
# Function words that a language needs in a document, those of several languages counted in parts, and their share of
# its words: a running text has .25 and more, among code less. In a short note, without code, two are enough, of which
# one is of no other language.
LEAST_WORDS, LEAST_SHARE = 4.0, 0.1
LEAST_WORDS_SHORT, LEAST_SHARE_SHORT = 1.5, 0.15
LEAD = 1.5  # times as many as any other language has

# Languages whose words are read otherwise than English ones. Their words get stems and stop words of their own ...
STEMMED = (
    "german",
    "french",
    "spanish",
    "portuguese",
    "italian",
    "dutch",
    "swedish",
    "danish",
    "norwegian",
    "russian",
)
# ... or each Han character is a term by itself, beside the pairs that it is in.
SINGLED = ("chinese", "japanese")
LANGUAGES = (*STEMMED, *SINGLED)

# Words that say how a sentence is built, and what is left of them at an apostrophe (`don't`, `it's`). They fill
# questions (`how do I ...`) and would lift each section that is written as a conversation. In English `no`, `not`,
# `without`, `never`, `get` and `use` stay: in technical text they carry meaning (`not found`, a GET request), and BM25
# gives a word of most documents next to no weight anyway. In the other languages negations are left out as well: their
# technical words are English.


STOP_WORDS = {
    name: frozenset(Path(__file__).with_name("stop_words").joinpath(f"{name}.txt").read_text("utf-8").split())
    for name in ("english", *STEMMED)
}

KANA_SHARE = 0.1  # of the Han and Kana of a text: less is a Chinese text with a Japanese name in it

_WORD = re.compile(r"[^\W\d_]+")
_KANA, _HAN = "[\u3041-\u30ff]", "[\u3400-\u9fff]"  # large ranges take milliseconds to compile: where they are used


def detect_language(text: str) -> str:
    """Return the language of a document, one of `LANGUAGES`; empty for English and any other. 0.5 ms."""
    text = text[:READ]
    words = _WORD.findall(text.lower())
    if not text.isascii():
        kana, han = len(re.findall(_KANA, text)), len(re.findall(_HAN, text))
        spaced = [word for word in words if not "\u3041" <= word < "\ua000"]
        if kana + han > 2 * len(spaced):  # without spaces, two characters are about a word
            return "japanese" if kana > KANA_SHARE * (kana + han) else "chinese"
    votes = count_function_words(text, tuple(STOP_WORDS))
    (most, name), (second, _) = sorted(((number, name) for name, number in votes.items()), reverse=True)[:2]
    least_long = max(LEAST_WORDS, LEAST_SHARE * len(words))
    least_short = max(LEAST_WORDS_SHORT, LEAST_SHARE_SHORT * len(words))
    return name if most >= min(least_long, least_short) and most >= LEAD * second and name != "english" else ""


def detect_question(question: str, languages: Sequence[str], *, is_english: bool = False) -> tuple[str, ...]:
    """Return the languages of the documents that a question is read in, beside English; several in a tie.

    Args:
        question: too short for a sure guess, so that a word of one of them is enough; one without any is read in all.
        languages: of `LANGUAGES`.
        is_english: whether a question without any is in English, if it has no accents.

    >>> detect_question("wie backt man", ("german", "french")), detect_question("oven", ("german", "french"))
    (('german',), ('german', 'french'))
    >>> detect_question("oven", ("german",), is_english=True), detect_question("Öfen", ("german",), is_english=True)
    ((), ('german',))
    >>> detect_question("日本", ("japanese",)), detect_question("oven", ("japanese",))
    (('japanese',), ())
    """
    if not languages:
        return ()
    stemmed = tuple(name for name in languages if name in STEMMED)
    votes = count_function_words(question, ("english", *stemmed))
    most = max(votes.values())
    if is_english and not most and question.isascii():
        return ()
    has_han = not question.isascii() and bool(re.search(_HAN, question))
    return tuple(name for name in languages if (has_han if name in SINGLED else votes[name] == most))


def mark_language(name: str) -> str:
    """Return the index's term for the language of a node's document; no text gives such a term."""
    return f"={name}"


def count_function_words(text: str, languages: tuple[str, ...]) -> dict[str, float]:
    """Return how many words of a text are function words of each language; one of several languages counts in parts.

    >>> count_function_words("die Oven, die", ("english", "german", "dutch"))
    {'english': 0.0, 'german': 1.0, 'dutch': 1.0}
    """
    votes = dict.fromkeys(languages, 0.0)
    for word, times in Counter(_WORD.findall(text.lower())).items():
        spoken_in = [name for name in languages if word in STOP_WORDS[name]]
        for name in spoken_in:
            votes[name] += times / len(spoken_in)
    return votes
