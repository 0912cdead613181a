"""What is shown of a section: its passage that matched, as one line, and its text within a length. Pure."""

import re
from collections.abc import Callable, Collection, Sequence

from retriever.store.reading import StoredChunk
from retriever.types import Candidate, Hit

SNIPPET_CHARS = 300
_SPACE = re.compile(r"\s+")
_REFERENCE = re.compile(r"(?<![\w\])])\[([^\[\]]+)\]\[[^\[\]]*\]")
"""`[text][label]` and `[text][]`, whose definition mostly stands outside of the passage; not `rows[i][j]`."""
_MARKS = ("#", "```", "~~~")
"""What begins a line that says nothing by itself."""


def best_passage(passages: Sequence[str], words: Collection[str], words_of: Callable[[str], Collection[str]]) -> str:
    """The passage that holds most of the words; the first of several, empty when there are none."""
    return max(passages, key=lambda passage: len(set(words) & set(words_of(passage))), default="")


def matched_chunk(
    candidate: Candidate | Hit,
    chunks: Sequence[StoredChunk],
    words: Collection[str],
    words_of: Callable[[str], Collection[str]],
) -> StoredChunk | None:
    """The chunk of a section that the dense arm found, if it did; else the one with most of the words, if any."""
    lines = {piece.origin for piece in candidate.evidence if piece.arm == "dense"}
    found = [chunk for chunk in chunks if str(chunk.span) in lines] or list(chunks)
    if len(found) < 2:
        return found[0] if found else None
    best = best_passage([chunk.text for chunk in found], words, words_of)
    return next(chunk for chunk in found if chunk.text == best)


def snippet(passage: str, words: Collection[str], words_of: Callable[[str], Collection[str]]) -> str:
    """At most about 300 characters of a passage, as one line, from the sentence on that holds most of the words.

    Where only code or a table holds any of them, or there is no prose, its lines are shown as they are.

    Args:
        passage: Markdown.
        words: the question's, as `words_of` gives them.
        words_of: a text's words.
    """
    from pageindex.markdown import References  # with markdown-it, 25 ms that who only cuts a text does not spend
    from pageindex.summary import prose_sentences

    lines = [line for line in passage.split("\n") if line.strip("|-: \t") and not line.lstrip().startswith(_MARKS)]
    pieces = list(prose_sentences(_REFERENCE.sub(r"\1", passage), References()))
    matched = _matches(pieces, words, words_of)
    if not any(matched):
        of_lines = _matches(lines, words, words_of)
        pieces, matched = (lines, of_lines) if any(of_lines) or not pieces else (pieces, matched)
    if not pieces:
        return ""
    whole = len(" ".join(pieces)) <= SNIPPET_CHARS
    start = 0 if whole else max(range(len(pieces)), key=lambda place: (matched[place], -place))
    text = _SPACE.sub(" ", " ".join(pieces[start:])).strip()
    return ("… " if start else "") + cut(text, SNIPPET_CHARS)


def _matches(pieces: Sequence[str], words: Collection[str], words_of: Callable[[str], Collection[str]]) -> list[int]:
    """How many different words each piece holds."""
    return [len(set(words) & set(words_of(piece))) for piece in pieces]


def cut(text: str, max_chars: int) -> str:
    """The text, or its beginning up to a word's end within so many characters, and an ellipsis."""
    if len(text) <= max_chars:
        return text
    if max_chars < 2:
        return ""
    head = text[: max_chars - 1]
    end = max(head.rfind(" "), head.rfind("\n"))
    return (head[:end] if end > max_chars // 2 else head).rstrip() + "…"


def cut_around(text: str, start: int, end: int, max_chars: int) -> str:
    """At most so many characters of a text with those from `start` to `end` in their middle; ellipses where it was cut.

    What is cut, is cut at words. Where the text ends on one side, the other side has more.
    """
    if len(text) <= max_chars or start == 0:
        return cut(text, max_chars)
    beside = max(0, max_chars - (end - start))
    first = max(0, min(start - beside // 2, len(text) - max_chars))
    if not first:
        return cut(text, max_chars)
    blank = next((place for place in range(first, start) if text[place].isspace()), first)
    return "…" + cut(text[blank:].lstrip(), max_chars - 1)
