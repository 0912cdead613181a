"""The bytes of a document as text, and the text as Markdown, line by line, by the reader of its ending.

So a document is Markdown for everything behind its reader (headings, chunks, summaries, snippets, the web page), and
a line of it is the line of the file with the same number, which is what is cited. Another kind is one entry:

    READERS[".org"] = read_org
"""

import codecs
import hashlib
import string
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

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


BINARY_PROBE_BYTES = 8192  # a NUL this early means that the file is binary; git looks at as much (buffer_is_binary)
MOST_ACCENTED = 0.3  # of the letters of a text in Windows-1252: French has .04, what is in Cyrillic nearly 1
MAX_LINES = 2_000_000  # more are data, not a document: a line costs the parser 100 bytes, however short it is

_ASCII = bytes(range(0x80))
_LETTERS = string.ascii_letters.encode()


class NotTextError(Exception):
    """The bytes are no text; the message is a clause."""


@dataclass(frozen=True, slots=True)
class DecodedText:
    """Text made of bytes."""

    text: str  # without byte order mark and NUL; every line end is LF
    warnings: tuple[str, ...]  # what was replaced, as clauses


def digest_of(raw: bytes) -> str:
    """SHA-256, 64 hex digits."""
    return hashlib.sha256(raw).hexdigest()


def decode(raw: bytes) -> DecodedText:
    """UTF-8, UTF-16 with a byte order mark, or Windows-1252; NotTextError for a NUL in the first 8 KB, or many lines.

    Bytes that are none of them are replaced, and the warnings say where.
    """
    is_utf16 = raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    encoding = "utf-16" if is_utf16 else "utf-8"
    warnings: tuple[str, ...] = ()
    raw = raw.removeprefix(codecs.BOM_UTF8)
    try:
        text = raw.decode(encoding)
    except UnicodeDecodeError as error:
        western = None if is_utf16 else _decode_western(raw)
        text = raw.decode(encoding, "replace") if western is None else western
        place = f" at byte {error.start}" if is_utf16 else f", first in line {_count_line(raw[: error.start])}"
        warnings = (f"not {encoding.upper()}{place}: {'replaced' if western is None else 'read as Windows-1252'}",)
    if "\0" in text[:BINARY_PROBE_BYTES]:
        raise NotTextError("binary: it holds NUL bytes")
    if "\0" in text:
        warnings = (*warnings, f"{text.count(chr(0))} NUL replaced")
        text = text.replace("\0", "\ufffd")
    text = with_lf(text)
    if "\n\ufeff" in text:  # files that were joined: behind the mark no heading would be one
        count = text.count("\n\ufeff")
        warnings = (*warnings, f"{count} byte order mark{'s' if count > 1 else ''} inside left out")
        text = text.replace("\n\ufeff", "\n")
    if text.count("\n") > MAX_LINES:
        raise NotTextError(f"more than {MAX_LINES:,} lines")
    return DecodedText(text, warnings)


def _decode_western(raw: bytes) -> str | None:
    """The text of old files of Western Europe and America, in Windows-1252 or Latin-1; None where it is none.

    Such a file has no character of UTF-8 above ASCII, and few of its letters have accents. A file in UTF-8 with a
    broken byte has others that are whole, and the 8-bit encodings of other scripts have hardly any letter in ASCII.
    """
    high = len(raw.translate(None, _ASCII))
    letters = high + len(raw) - len(raw.translate(None, _LETTERS))
    if not raw.decode("utf-8", "ignore").isascii() or high > MOST_ACCENTED * letters:
        return None
    try:
        return raw.decode("cp1252")
    except UnicodeDecodeError:
        return None


def with_lf(text: str) -> str:
    """The text with CRLF and lone CR as LF; other separators (U+2028, U+0085, form feed) end no line in an editor."""
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def _count_line(raw: bytes) -> int:
    """The number of the line that follows these bytes of UTF-8, from 1."""
    return with_lf(raw.decode()).count("\n") + 1
