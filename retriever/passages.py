"""What is shown of a section: its passage that matched, as one line, and its text within a length. Pure."""

import re
from collections.abc import Callable, Collection, Sequence

from pageindex.inline import References
from pageindex.summary import prose_sentences

SNIPPET_CHARS = 300
_SPACE = re.compile(r"\s+")


def best_passage(passages: Sequence[str], words: Collection[str], words_of: Callable[[str], Collection[str]]) -> str:
    """The passage that holds most of the words; the first of several, empty when there are none."""
    return max(passages, key=lambda passage: len(set(words) & set(words_of(passage))), default="")


def snippet(passage: str, words: Collection[str], words_of: Callable[[str], Collection[str]]) -> str:
    """At most about 300 characters of a passage, as one line, from the sentence on that holds most of the words.

    Where only code or a table holds any of them, its lines are shown as they are.

    Args:
        passage: Markdown.
        words: the question's, as `words_of` gives them.
        words_of: a text's words.
    """
    lines = [line for line in passage.split("\n") if line.strip() and not line.lstrip().startswith(("#", "```", "~~~"))]
    pieces = list(prose_sentences(passage, References()))
    matched = _matches(pieces, words, words_of)
    if not any(matched):
        of_lines = _matches(lines, words, words_of)
        pieces, matched = (lines, of_lines) if any(of_lines) or not lines else (pieces, matched)
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
