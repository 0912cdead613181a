"""What is shown of a section: its passage that matched, as one line, and its text within a length. Pure."""

import re
from collections.abc import Callable, Collection, Sequence

SNIPPET_CHARS = 300
_SPACE = re.compile(r"\s+")
_MARKUP_LINE = re.compile(r"^(?:#{1,6}\s|\s*(?:```|~~~|///|:::|\||<!--))")


def best_passage(passages: Sequence[str], words: Collection[str], words_of: Callable[[str], Collection[str]]) -> str:
    """The passage that holds most of the words; the first of several, empty when there are none."""
    return max(passages, key=lambda passage: len(set(words) & set(words_of(passage))), default="")


def snippet(passage: str, words: Collection[str], words_of: Callable[[str], Collection[str]]) -> str:
    """At most about 300 characters of a passage, as one line, from the line on that holds most of the words.

    Args:
        passage: Markdown.
        words: the question's, as `words_of` gives them.
        words_of: a text's words.
    """
    lines = [line for line in passage.splitlines() if line.strip() and not _MARKUP_LINE.match(line)]
    lines = lines or [line for line in passage.splitlines() if line.strip()]
    if not lines:
        return ""
    start = max(range(len(lines)), key=lambda place: (len(set(words) & set(words_of(lines[place]))), -place))
    start = 0 if len(" ".join(lines)) <= SNIPPET_CHARS else start
    text = _SPACE.sub(" ", " ".join(lines[start:])).strip()
    return ("… " if start else "") + cut(text, SNIPPET_CHARS)


def cut(text: str, max_chars: int) -> str:
    """The text, or its beginning up to a word's end within so many characters, and an ellipsis."""
    if len(text) <= max_chars:
        return text
    if max_chars < 2:
        return ""
    head = text[: max_chars - 1]
    end = max(head.rfind(" "), head.rfind("\n"))
    return (head[:end] if end > max_chars // 2 else head).rstrip() + "…"
