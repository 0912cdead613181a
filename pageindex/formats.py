"""Kinds of documents, by the ending of their names: a reader makes Markdown of each, line by line.

So a document is Markdown for everything behind its reader (headings, chunks, summaries, snippets, the web page), and
a line of it is the line of the file with the same number, which is what is cited. Another kind is one entry:

    READERS[".org"] = read_org
"""

from collections.abc import Callable
from typing import TypeAlias

from pageindex.decoding import NotTextError

Reader: TypeAlias = Callable[[str], str]
"""The text of a file, with LF line ends and without NUL, to Markdown of as many lines; the same text gives the same."""


def read_markdown(text: str) -> str:
    """Return Markdown as it is."""
    return text


READERS: dict[str, Reader] = {
    ".md": read_markdown,
    ".markdown": read_markdown,
    ".mdx": read_markdown,
    ".txt": read_markdown,
}
"""Endings in lower case, with their dot, to readers; files with these endings are documents."""


def to_markdown(name: str, text: str) -> str:
    """Return the Markdown of a file's text by the reader of its name; the text itself where there is no such reader.

    Raises:
        NotTextError: the reader gave more or fewer lines than the file has, so that others would be cited.
    """
    ending = find_ending(name)
    markdown = READERS[ending](text) if ending else text
    if markdown.count("\n") != text.count("\n"):
        made, given = markdown.count("\n"), text.count("\n")
        raise NotTextError(f"the reader of {ending} made {made:,} line ends of {given:,}")
    return markdown


def find_ending(name: str) -> str:
    """Return the ending of a name that has a reader, in lower case; empty without one."""
    lowered = name.lower()
    return next((ending for ending in READERS if lowered.endswith(ending)), "")


def drop_ending(path: str) -> str:
    """Return the path without the ending of a document."""
    return path[: len(path) - len(find_ending(path))]
