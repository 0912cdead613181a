"""What an answer is said to be, once for the terminal, the web page, the report and the context for a prompt."""

import re
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING

from retriever.lexical.tokens import tokenize

if TYPE_CHECKING:
    from collections.abc import Sequence

    from retriever.query import Correction
    from retriever.types import IndexState


@dataclass(frozen=True, slots=True)
class VerdictPhrase:
    name: str  # two words, for a heading
    sentence: str


# By `Verdict`.
VERDICTS = {
    "answered": VerdictPhrase("Answered", "A section probably answers this."),
    "weak": VerdictPhrase("Not sure", "It is not certain that a section answers this; these are the nearest."),
    "none": VerdictPhrase("No answer", "No section answers this; these are only the nearest."),
}

# The fields of `Signals`, from which the verdict comes, and what each says.
SIGNALS = (
    ("coverage", "share of the question, by the rarity of its words, that one section covers"),
    ("known", "share of the question in words that the documents use"),
    ("together", "share of the question's pairs of words that stand side by side in a section"),
    ("margin", "deviations of the nearest passage above what unrelated questions find"),
    ("agreement", "how far meaning and words agree on the best section, beyond chance"),
)

# What found a section, by `Source`.
SOURCES = {
    "semantic": "semantic",
    "keyword": "keyword",
    "name": "name",
    "token_match": "token match",
    "neighbors": "neighbors",
    "recency": "recency",
    "rerank": "rerank",
}


def explain_corrections(corrections: "Sequence[Correction]") -> str:
    """`searched for severance (you wrote severence)`; empty where nothing was mended."""
    each = ", ".join(f"{item.searched} (you wrote {item.wrote})" for item in corrections)
    return f"searched for {each}" if each else ""


# How a section that the tree brought in stands to the hit that it stands near, by `RelationKind`.
RELATIONS = {
    "parent": "the parent of",
    "child": "a child of",
    "sibling": "beside",
    "link": "linked from",
    "file": "the top of the file of",
}

# What is said beside the lines that are cited, by `CitationState`; nothing where they are what was indexed.
CITATION_STATES = {
    "exact": "",
    "moved": "moved here since it was indexed",
    "stale": "stale: these lines have changed since they were indexed",
    "gone": "gone: the file can no longer be read",
    "unchecked": "unchecked: as it was indexed; its folder is not looked at until named with --docs",
}

_WORD = re.compile(r"\w+")


def format_doubt(state: str) -> str:
    """A citation's state in a word, two blanks before it; nothing where the lines are what was indexed."""
    return "" if state == "exact" else f"  {state}"


def pluralize(number: int, noun: str) -> str:
    """`1 file`, `1,203 files`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def format_size(number: int) -> str:
    """Bytes for people, in powers of 1000: `22.9 MB`."""
    if number < 1000:
        return f"{number} bytes"
    amount = float(number)
    for unit in ("kB", "MB", "GB"):
        amount /= 1000
        if amount < 1000:
            return f"{amount:.1f} {unit}"
    return f"{amount / 1000:.1f} TB"


def describe_freshness(state: "IndexState") -> str:
    """How the index stands to the files on disk: `up to date`, `2 files stale`."""
    words = []
    if state.refreshed_files:
        words.append(f"{pluralize(state.refreshed_files, 'file')} re-indexed first")
    if state.stale_files:
        words.append(f"{pluralize(state.stale_files, 'file')} stale")
    if state.unchecked_folders:
        words.append(f"{pluralize(state.unchecked_folders, 'folder')} not looked at")
    return ", ".join(words) or "up to date"


def format_refresh_command(state: "IndexState", index: str | None) -> str:
    """The command that brings the index up to date; `index` as it was given with --index."""
    option = ["--index", index] if index else []
    return shlex.join(["hybrid_retrieve.py", "index", *option, *state.folders])


def find_highlights(text: str, stems: frozenset[str]) -> list[tuple[int, int]]:
    """The (start, end) of each word in the text that the keyword ranking counts as one of the stems, in order."""
    places: list[tuple[int, int]] = []
    for word in _WORD.finditer(text):
        found = [term for term in tokenize(word[0]) if term in stems]
        # In a script without spaces a "word" is a whole clause: only the characters that matched are marked.
        literal = [
            (word.start() + match.start(), word.start() + match.end())
            for term in found
            if not word[0].isascii()
            for match in re.finditer(re.escape(term), word[0], re.IGNORECASE)
        ]
        if literal:
            places.extend(sorted(literal))
        elif found:
            places.append(word.span())
    return places
