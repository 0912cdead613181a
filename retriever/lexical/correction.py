"""A question as it is meant: its typos corrected, its half-typed words completed, its right words left alone.

A word that begins one of the documents' is half typed: `catal`. In languages that write compounds, one that ends a word
of theirs is a part of it: `Gratin` of `Kartoffelgratin`. Any other may be a typo, or a right word that they lack. A
word that any section holds is never taken for a typo, and neither is a common word of the language of the question or
of the documents. Where nothing says in which language a word is, one of any language stays, unless it is a very likely
typo. A list lacks most words of a language, but shows how they are spelled: what is spelled as one of them is a typo
only where its first letter is right.

The common words of a language are its most frequent ones, without accents. `scripts/make_common_words.py` takes them
from wordfreq; common/LICENSE has the terms of that data.
"""

import gzip
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from math import inf
from pathlib import Path

from retriever.lexical.languages import count_function_words
from retriever.lexical.spelling import LONGEST, SHORTEST, Spellings
from retriever.lexical.tokens import remove_accents, stem_word
from retriever.query import Correction

SHORTEST_PREFIX = 3  # letters of a half-typed word
MOST_COMPLETED, MOST_IDENTIFIED = 3, 12  # words that it may be the beginning of; those of an identifier are read
TYPED_WORDS = 3  # of a question whose last word may be half typed: a longer one is written, not typed to find a page
MOST_UNKNOWN = 20  # words that are looked for among others: each takes 5 ms, and a pasted page may have a thousand
SHORTEST_FORM = 4  # letters of what is left of a word without its ending

# What a typo may cost that is likelier than a word of a language that nothing else speaks for, by the least letters:
# short words of two languages are often alike, long ones mean the same where they are.
LIKELY = ((12, inf), (9, 1.0), (6, 0.7), (0, 0.0))
# The same for a word that is only spelled as those of a language are: the first letter of a short one is right.
LIKELY_AT_LEAST = 1.3

# What a verb in two parts ends with, at the end of a clause: `Wie stelle ich eine Datei wieder her?`
_PARTICLE = re.compile(
    r"(?<=\s)(wieder her|wieder|zurück|zusammen|hinzu|durch|fest|frei|hoch|nach|ab|an|auf|aus|bei|ein|her|hin|los|mit"
    r"|um|vor|weg|zu|samen|terug|voor|aan|toe|uit|af|in|op)(?=\s*(?:[?!.,;:]|$|(?:und|oder|en|of)\s))",
    re.IGNORECASE,
)
_TYPED = re.compile(r'"[^"]*"|[\w./#$@-]+')  # what stands in quotes, or a word with what belongs to it
# The last part of an identifier.
_LAST_PART = re.compile(r"(?<!\S)\S*(?:[^\w\s]|[\d_]|[a-z](?=[A-Z]))([A-Z]?[a-z]{2,}|[A-Z]{3,})$")


@dataclass(frozen=True, slots=True)
class CorrectedQuestion:
    """A question as it is searched for."""

    text: str = ""
    corrections: tuple[Correction, ...] = ()
    half_typed: str = ""
    """A short question as it was typed, if its last word may be the beginning of another one."""
    alternatives: frozenset[str] = frozenset()
    """Words of the text, in lower case, that each stand for the same as the one before: completions, parts."""


@dataclass(frozen=True, slots=True)
class Reader:
    """What is known of the words of a question, and of those of the documents."""

    spellings: Spellings
    is_english: Callable[[str], bool]
    documents: tuple[str, ...]
    """Their languages, beside English."""
    own: tuple[str, ...]
    """The languages of the question and the documents."""
    others: tuple[str, ...]
    """Those that its words may be in besides."""

    @property
    def writes_compounds(self) -> bool:
        """Whether documents are in a language that does."""
        return not COMPOUNDING.isdisjoint(self.documents)

    def find_meant(self, lower: str, *, is_last: bool) -> tuple[list[str], bool]:
        """Return the words of the documents that a word stands for, and whether it is a word itself, which stays.

        Args:
            lower: the word in lower case.
            is_last: whether it may be half typed though it is a word.
        """
        word = remove_accents(lower)
        is_held = self.spellings.holds(lower)
        if not is_last and (is_held or len(word) < SHORTEST):
            return [], True
        is_own = is_held or self.is_english(word) or any(is_common(lower, name) for name in self.own)
        is_foreign = not is_own and any(is_common(lower, name) for name in self.others)
        # In documents in English, `Möwe` is not the beginning of `mower`; in others, accents may be left out.
        begun = word if self.documents else lower
        longer = self.spellings.complete(begun, as_part=self.writes_compounds, is_whole=is_own or is_foreign)
        # A word that ends with it is a compound in German, and no `following` that ends with `wing`.
        longer = [other for other in longer if other.startswith(word) or not self.is_english(other)]
        if is_own or is_foreign:
            # Beside it, what it may be a part of (`Kartoffel` of `Kartoffelgratin`) or is made of.
            if not is_last:
                longer = [other for other in longer if self.writes_compounds and len(other) >= len(word) + SHORTEST]
            if not longer and is_own and not is_held and self.writes_compounds:
                longer = self.spellings.split(word)
        if longer or is_own:
            return longer[:MOST_COMPLETED], is_own or is_foreign
        # A right word that the documents have in another form is no typo: to change it would answer another question.
        # Nor is one with accents, which documents in English do not have.
        is_form = any(self.spellings.holds(form) or self.is_english(form) for form in find_forms(word))
        if is_form or not (lower.isascii() or self.documents):
            return [], True
        is_spelled = any(is_spelled_as(word, name) for name in (*self.own, *self.others))
        likely = next(weight for letters, weight in LIKELY if len(word) >= letters)
        most = likely if is_foreign else max(likely, LIKELY_AT_LEAST) if is_spelled else inf
        nearest = self.spellings.nearest(word, most)
        return [nearest] if nearest else [], False


def correct(
    question: str,
    spellings: Spellings,
    is_english: Callable[[str], bool],
    documents: tuple[str, ...] = (),
) -> CorrectedQuestion:
    """Return the question with its typos corrected and half-typed words completed; all else in it stays as it is.

    Args:
        question: what stands in double quotes in it, is written in capitals inside a word, or holds a digit, is meant
            as it is written.
        spellings: of the documents.
        is_english: whether a word in lower case is an English one: a question for a `padlock` means no `paddock`,
            whatever the documents are about.
        documents: their languages, beside English.
    """
    # Digits, dots and capitals inside a word say that it is a name, which no dictionary corrects.
    words = [
        typed
        for typed in _TYPED.finditer(question)
        if typed[0].isalpha()
        and SHORTEST_PREFIX <= len(typed[0]) <= LONGEST
        and not any(map(str.isupper, typed[0][1:]))
    ]
    lowered = [typed[0].lower() for typed in words]
    spellings.look_up(form for word in lowered for form in (word, *find_forms(remove_accents(word))))
    unknown = [place for place, word in enumerate(lowered) if not spellings.holds(word)]
    if len(unknown) > MOST_UNKNOWN:
        end = unknown[MOST_UNKNOWN]
        words, lowered = words[:end], lowered[:end]
    reader = Reader(spellings, is_english, documents, *split_languages(question, documents))
    half_typed = question if question.count(" ") < TYPED_WORDS and question[-1:].isalpha() else ""
    # Of an identifier that is typed: `froz` of `--froz`, `Dep` of `patchedDep`. It stays as well.
    identifier = _LAST_PART.search(half_typed)
    longer = spellings.complete(identifier[1].lower(), is_whole=False)[:MOST_IDENTIFIED] if identifier else []
    verbs = find_verbs(question, words, spellings) if reader.writes_compounds else {}
    corrections, corrected, alternatives = [], " ".join((question, *longer)), set(longer)
    is_typed = bool(half_typed)
    # From the end, so that what is replaced moves nothing that is still to come.
    for typed, word in zip(reversed(words), reversed(lowered), strict=True):
        begin, end = typed.span()
        if begin in verbs:
            meant, stays = verbs[begin], True
        else:
            meant, stays = reader.find_meant(word, is_last=is_typed and end == len(question))
        if meant:
            beside = [typed[0], *meant] if stays else meant
            corrected = corrected[:begin] + " ".join(beside) + corrected[end:]
            alternatives.update(beside[1:])
            corrections += [] if stays else [Correction(typed[0], ", ".join(meant))]
            if not stays and not meant[0].startswith(remove_accents(word)):  # then names are looked for as corrected
                half_typed = ""
    return CorrectedQuestion(corrected, tuple(reversed(corrections)), half_typed, frozenset(alternatives))


def find_verbs(question: str, words: Sequence[re.Match[str]], spellings: Spellings) -> dict[int, list[str]]:
    """Return the verbs whose parts stand apart in a question as the documents write them in one: `wiederherstellen`.

    Args:
        question: in a language with such verbs.
        words: of it.
        spellings: of the documents.

    Returns:
        Where a verb's first part begins -> its infinitive and participle, as far as the documents hold them.
    """
    forms: dict[int, list[str]] = {}
    for particle in _PARTICLE.finditer(question):
        before = particle[1].lower().replace(" ", "")
        for word in words:
            # Other words with a capital are nouns in German: `welcher Teil kommt mit` asks nothing of `mitteilen`.
            if word.end() < particle.start() and (word[0].islower() or not word.start()):
                own = stem_word(remove_accents(word[0].lower()), "german")
                stems = dict.fromkeys((own, own.removesuffix("t")))  # of `fügt` as well
                endings = (form for stem in stems for form in (f"{stem}en", f"ge{stem}t", f"{stem}n"))
                forms[word.start()] = [f"{before}{ending}" for ending in endings]
    spellings.look_up(form for some in forms.values() for form in some)
    found = {place: [form for form in some if spellings.holds(form)] for place, some in forms.items()}
    return {place: some for place, some in found.items() if some}


_PREFIXES = ("re", "un", "pre", "non", "sub", "over", "mis", "dis", "auto", "multi", "hard")
_ENDINGS = re.compile(
    "(s|es|d|ed|r|ers?|ors?|n|en|y|ly|ings?|able|ible|ments?|ations?|ions?|ness|less|ful|ish|i[sz](e|ed|ing)|ic|al|nt)$"
)


def find_forms(word: str) -> set[str]:
    """Return a word, its plural, and what is left without a prefix or ending, dropped and doubled letters restored."""
    found = {word, word + "s"}
    for whole in (word, *(word.removeprefix(prefix) for prefix in _PREFIXES if word.startswith(prefix))):
        found.add(whole)
        for length in range(SHORTEST_FORM - 1, len(whole)):
            if _ENDINGS.fullmatch(whole, length):
                stem = whole[:length]
                found |= {stem, stem + "e"} | ({stem[:-1]} if stem[-1:] == stem[-2:-1] else set())
    return {form for form in found if len(form) >= SHORTEST_FORM}


COMMON = Path(__file__).parent / "common"
LISTED = ("german", "french", "spanish", "portuguese", "italian", "dutch", "swedish", "danish", "norwegian")
COMPOUNDING = frozenset({"german", "dutch", "swedish", "danish", "norwegian"})  # `Kartoffel` and `Gratin` are one word
SHORTEST_PART = 4  # letters of a part of a compound


def is_common(word: str, language: str) -> bool:
    """Return whether a word in lower case, or each part of a compound, is a common one of a language of `LISTED`."""
    plain, common = remove_accents(word), _read_common(language)
    # A search of the text takes .1 ms; a set of its words would take 5 ms to make, and 3 MB.
    cuts = range(SHORTEST_PART, len(plain) - SHORTEST_PART + 1) if language in COMPOUNDING else ()
    return f"\n{plain}\n" in common or any(
        f"\n{plain[:cut]}\n" in common and f"\n{plain[cut:]}\n" in common for cut in cuts
    )


def is_spelled_as(word: str, language: str) -> bool:
    """Return whether each four letters in a row of a word, its beginning and its end included, are in a common one.

    Most everyday words that are not in the lists are spelled so, and few English typos.

    Args:
        word: in lower case, without accents.
        language: of `LISTED`.
    """
    common, whole = _read_common(language), f"\n{word}\n"
    return all(whole[place : place + 4] in common for place in range(len(whole) - 3))


@cache
def _read_common(language: str) -> str:
    """Return the common words of a language, each on a line; the first line is empty."""
    return gzip.decompress((COMMON / f"{language}.txt.gz").read_bytes()).decode("ascii")


def split_languages(question: str, documents: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the languages that a word of the question is likely in, and those that it may be in besides.

    Its own function words say the language of a question. One without any may be in each.
    """
    votes = count_function_words(question, ("english", *LISTED))
    most = max(votes.values())
    own = {name for name in LISTED if name in documents or (most and votes[name] == most)}
    others = () if most else tuple(name for name in LISTED if name not in own)
    return tuple(sorted(own)), others
