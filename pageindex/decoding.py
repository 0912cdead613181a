"""The bytes of a document as text with LF line ends, and what had to be replaced."""

import codecs
import hashlib
from dataclasses import dataclass

BINARY_PROBE_BYTES = 8192  # a NUL this early means that the file is binary; git looks at as much (buffer_is_binary)
MAX_LINES = 2_000_000  # more are data, not a document: a line costs the parser 100 bytes, however short it is


class NotTextError(Exception):
    """The bytes are no text; the message is a clause."""


@dataclass(frozen=True, slots=True)
class DecodedText:
    """Text made of bytes."""

    text: str  # without byte order mark and NUL; every line end is LF
    warnings: tuple[str, ...]  # what was replaced, as clauses


def digest_of(raw: bytes) -> str:
    """Return the SHA-256, 64 hex digits."""
    return hashlib.sha256(raw).hexdigest()


def decode(raw: bytes) -> DecodedText:
    """Return UTF-8, or UTF-16 with a byte order mark, as text; bytes that are neither are replaced, with a warning.

    Raises:
        NotTextError: for a NUL in the first 8 KB, or more than MAX_LINES lines.
    """
    is_utf16 = raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    encoding = "utf-16" if is_utf16 else "utf-8"
    warnings: tuple[str, ...] = ()
    raw = raw.removeprefix(codecs.BOM_UTF8)
    try:
        text = raw.decode(encoding)
    except UnicodeDecodeError as error:
        text = raw.decode(encoding, "replace")
        place = f" at byte {error.start}" if is_utf16 else f", first in line {_count_line(raw[: error.start])}"
        warnings = (f"not {encoding.upper()}{place}: replaced",)
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


def with_lf(text: str) -> str:
    """Return the text with CRLF and lone CR as LF; other separators (U+2028, U+0085) end no line in an editor."""
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def _count_line(raw: bytes) -> int:
    """Return the number of the line that follows these bytes of UTF-8, from 1."""
    return with_lf(raw.decode()).count("\n") + 1
