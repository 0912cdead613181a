"""What of a model's answer can be searched with, by the texts alone. Pure."""

import re
import unicodedata
from collections.abc import Callable, Collection, Iterator

from retriever.expansion.values import Dropped, Expansion
from retriever.lexical.tokens import tokenize

FACT_INTENTS = frozenset({"STUDY_DETAIL"})
"""Intents that are none of explain, how, why or general. One fact is asked for: who invents it, invents a wrong one."""
LONGEST = 10
"""A text so many times as long as a passage may be is no passage that was asked for."""
COPIED_WORDS = 8
"""So many words in a row that stand in the prompt were copied from there."""
_SENTENCE_END = re.compile(r"[.!?](?=\s|$)|[\u3002\uff01\uff1f]")
_MARKUP = re.compile(r"<(?:!doctype|html|head|body|div|span|p|br|script|style|table|ul|li)\b", re.IGNORECASE)
_EAST_ASIAN = frozenset({"CJK", "HIRAGANA", "KATAKANA", "HANGUL", "BOPOMOFO"})


def screened(
    question: str, expansion: Expansion, max_chars: int, told: str = "", names: Collection[str] = ()
) -> tuple[Expansion, tuple[Dropped, ...]]:
    """The expansion without the texts that no search should follow, the others cut; and those that were dropped.

    Args:
        question: as it was asked.
        expansion: what a model wrote.
        max_chars: of a text; a longer one ends at a sentence before, a much longer one is dropped.
        told: the prompt without the question.
        names: of the question, which each text must keep.
    """
    seen = {_words(question)}
    reasons = _reasons(question, expansion.intent, max_chars, _runs(told), names)
    kept, dropped = [], []
    for kind, text in expansion.texts:
        reason = next(filter(None, (why(kind, text) for why in reasons)), "")
        if not reason and _words(text) in seen:
            reason = "it repeats the question or another text"
        seen.add(_words(text))
        if reason:
            dropped.append(Dropped(kind, cut_at_sentence(text, max_chars), reason))
        else:
            kept.append((kind, cut_at_sentence(text, max_chars)))
    return expansion.with_texts(iter(kept)), tuple(dropped)


def cut_at_sentence(text: str, max_chars: int) -> str:
    """The text up to its last sentence that ends within so many characters, or its last word, or that many."""
    if len(text) <= max_chars:
        return text
    head = text[:max_chars]
    end = max((match.end() for match in _SENTENCE_END.finditer(head)), default=0)
    return head[:end] if end else (head.rpartition(" ")[0] or head)


def _reasons(
    question: str, intent: str, max_chars: int, told: frozenset[tuple[str, ...]], named: Collection[str]
) -> tuple[Callable[[str, str], str], ...]:
    """(kind, text) -> why it is not used, or nothing; one function for each reason."""
    names = [frozenset(tokenize(name)) for name in named]
    scripts = _scripts(question)
    has_markup = _MARKUP.search(question) is not None

    def invented(kind: str, text: str) -> str:
        return "a single fact is asked for" if intent in FACT_INTENTS and kind != "rewording" else ""

    def unreadable(kind: str, text: str) -> str:
        if len(text) > LONGEST * max_chars:
            return f"it has {len(text):,} characters"
        if not tokenize(text):
            return "it says nothing"
        return "it is markup" if _MARKUP.search(text) and not has_markup else ""

    def copied(kind: str, text: str) -> str:
        return "it repeats the prompt" if _runs(text) & told else ""

    def foreign(kind: str, text: str) -> str:
        letters = [_script(sign) for sign in text if sign.isalpha()]
        own = sum(script in scripts for script in letters)
        return "it is in another script than the question" if scripts and own * 2 < len(letters) else ""

    def forgetful(kind: str, text: str) -> str:
        words = frozenset(tokenize(text))
        return "" if all(name & words for name in names) else "it lost a name of the question"

    return invented, unreadable, copied, foreign, forgetful


def _words(text: str) -> tuple[str, ...]:
    """What makes two texts the same search."""
    return tuple(sorted(tokenize(text)))


def _runs(text: str) -> frozenset[tuple[str, ...]]:
    words = re.findall(r"\w+", text[:20_000].lower())
    return frozenset(zip(*(words[place:] for place in range(COPIED_WORDS)), strict=False))


def _scripts(text: str) -> frozenset[str]:
    return frozenset(_script(sign) for sign in text if sign.isalpha())


def _script(letter: str) -> str:
    """`LATIN`, `CYRILLIC` ...; the scripts that Chinese, Japanese and Korean mix are one."""
    name = unicodedata.name(letter, "UNKNOWN").split()[0].partition("-")[0]
    return "CJK" if name in _EAST_ASIAN else name


def numbered(dropped: tuple[Dropped, ...]) -> Iterator[str]:
    """`3 texts: it says nothing`, for each reason, in the order in which they first came."""
    for reason in dict.fromkeys(item.reason for item in dropped):
        times = sum(item.reason == reason for item in dropped)
        yield f"{times} dropped: {reason}"
