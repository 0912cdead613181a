"""The name of a document: its title, and its file where the title could stand above any other."""

from collections.abc import Sequence
from pathlib import PurePosixPath

from pageindex.outline import Heading

OF_ITS_FOLDER = frozenset({"index", "readme"})  # the page of a folder, which is named by it
HASH_CHARS = 12  # of digits and the letters a to f; no word has as many
GENERIC_WORDS = 2  # in a title that may stand above any document, such as `Contact`
COUNTER_DIGITS = 2  # of the number of a chapter
SAME_LETTERS = 4  # at the beginning of two forms of one word


def name_document(path: str, title: str, headings: Sequence[Heading]) -> tuple[str, tuple[str, ...]]:
    """Return the title of the document at `path`, empty where nothing names it, and the titles above that.

    The title is the given one, of the front matter, else the first heading of level 1, else the first heading if it
    says the file's name, else that name. Above a title that could stand anywhere is the name of the file, or of its
    folder.

    >>> name_document("people/Ada Quill.md", "Contact", ()), name_document("falcon/README.md", "", ())
    (('Contact', ('Ada Quill',)), ('falcon', ()))
    """
    file, *folders = map(_drop_hashes, reversed(PurePosixPath(path).with_suffix("").parts))
    name = next(filter(None, folders), "") if file.strip("_").lower() in OF_ITS_FOLDER else file
    name = name if len(name) > 1 else ""
    title = title or next((heading.title for heading in headings if heading.level == 1 and heading.title), "")
    if not title:
        first = headings[0].title if headings else ""
        return (first if first and _says(first, name) else name or file), ()
    is_generic = len(_split_words(title)) <= GENERIC_WORDS and title.isascii() == name.isascii()
    return title, (name,) if name and is_generic and not _says(title, name) else ()


def _drop_hashes(name: str) -> str:
    """Return the words of a name without those that a program made: `Meeting 3f2a9c1e0d7b4a2f`."""
    return " ".join(word for word in name.split() if not _is_hash(word.lower()))


def _is_hash(word: str) -> bool:
    is_mixed = any(map(str.isdigit, word)) and any(map(str.isalpha, word))
    return len(word) >= HASH_CHARS and is_mixed and set("0123456789abcdef-_").issuperset(word)


def _split_words(text: str) -> list[str]:
    return "".join(sign if sign.isalnum() else " " for sign in text.casefold()).split()


def _says(title: str, name: str) -> bool:
    """Return whether a title has the words of a name, in any form, or written as one; a longer title one of them."""
    words, others = _split_words(title), _split_words(name)
    beginnings = {word[:SAME_LETTERS] for word in words}
    telling = (other for other in others if other.isalpha() or (other.isdigit() and len(other) > COUNTER_DIGITS))
    is_said = all if len(words) <= GENERIC_WORDS else any
    return is_said(other[:SAME_LETTERS] in beginnings for other in telling) or "".join(words) == "".join(others)
