"""The bytes of a document as text, and the text as Markdown, line by line, by the reader of its ending.

So a document is Markdown for everything behind its reader (headings, chunks, summaries, snippets, the web page), and
a line of it is the line of the file with the same number, which is what is cited. Another kind is one entry:

    READERS[".org"] = read_org
"""

import codecs
from collections.abc import Callable
from typing import TypeAlias

Reader: TypeAlias = Callable[[str], str]
"""The text of a file, with LF line ends and without NUL, to Markdown of as many lines; the same text gives the same."""


READERS: dict[str, Reader] = dict.fromkeys((".md", ".markdown", ".mdx", ".qmd", ".txt"), str)
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


BINARY_PROBE_BYTES = 8192  # a NUL this early means that the file is binary; git looks at as much (buffer_is_binary)
MAX_LINES = 2_000_000  # more are data, not a document: a line costs the parser 100 bytes, however short it is


class NotTextError(Exception):
    """The bytes are no text; the message is a clause."""


def decode(raw: bytes) -> tuple[str, tuple[str, ...]]:
    """Return bytes as text (without byte order marks and NUL; every line end is LF), and what was replaced, as clauses.

    They are UTF-8, UTF-16 with a byte order mark, or Windows-1252.

    Raises:
        NotTextError: there is a NUL in the first 8 KB, or too many lines.
    """
    is_utf16 = raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    encoding = "utf-16" if is_utf16 else "utf-8"
    warnings: tuple[str, ...] = ()
    raw = raw.removeprefix(codecs.BOM_UTF8)
    try:
        text = raw.decode(encoding)
    except UnicodeDecodeError as error:
        # A file in UTF-8 with a broken byte has others that are whole; an old file of Western Europe has none.
        is_western = not is_utf16 and raw.decode("utf-8", "ignore").isascii()
        text = raw.decode("cp1252" if is_western else encoding, "replace")
        line = with_lf(raw[: error.start].decode(encoding, "replace")).count("\n") + 1
        made = "read as Windows-1252" if is_western else "replaced"
        warnings = (f"not {encoding.upper()}, first in line {line}: {made}",)
    if "\0" in text[:BINARY_PROBE_BYTES]:
        raise NotTextError("binary: it holds NUL bytes")
    if "\0" in text:
        warnings = (*warnings, f"{text.count(chr(0))} NUL replaced")
        text = text.replace("\0", "\ufffd")
    text = with_lf(text).replace("\n\ufeff", "\n")  # a mark begins each of several files that were joined
    if text.count("\n") > MAX_LINES:
        raise NotTextError(f"more than {MAX_LINES:,} lines")
    return text, warnings


def with_lf(text: str) -> str:
    """Turn CRLF and lone CR into LF; other separators (U+2028, U+0085, form feed) end no line in an editor."""
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text
