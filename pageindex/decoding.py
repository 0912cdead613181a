"""The bytes of a document as text with LF line ends, and what had to be replaced."""

import codecs
import hashlib
from dataclasses import dataclass

BINARY_PROBE_BYTES = 8192
"""A NUL this early means that the file is binary; git looks at as much (buffer_is_binary)."""

MAX_LINES = 2_000_000
"""More are data, not a document. A line costs the parser 100 bytes of memory, however short it is."""


class NotTextError(Exception):
    """The bytes are no text; the message is a clause."""


@dataclass(frozen=True, slots=True)
class DecodedText:
    """Text made of bytes."""

    text: str
    """Without byte order mark and NUL; every line end is LF."""
    warnings: tuple[str, ...]
    """What was replaced, as clauses."""


def digest_of(raw: bytes) -> str:
    """SHA-256, 64 hex digits."""
    return hashlib.sha256(raw).hexdigest()


def decode(raw: bytes) -> DecodedText:
    """UTF-8, or UTF-16 with a byte order mark; what is invalid becomes U+FFFD.

    Raises:
        NotTextError: a NUL in the first 8 KB, or more lines than a document has.
    """
    text, warnings = _decode_utf16(raw) if raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) else _utf8(raw)
    if "\0" in text[:BINARY_PROBE_BYTES]:
        raise NotTextError("binary: it holds NUL bytes")
    if "\0" in text:
        warnings = (*warnings, f"{text.count(chr(0))} NUL replaced")
        text = text.replace("\0", "\ufffd")
    text = with_lf(text)
    if text.count("\n") > MAX_LINES:
        raise NotTextError(f"more than {MAX_LINES:,} lines")
    return DecodedText(text, warnings)


def with_lf(text: str) -> str:
    """The text with CRLF and lone CR as LF; other separators (U+2028, U+0085, form feed) end no line in an editor."""
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def _decode_utf16(raw: bytes) -> tuple[str, tuple[str, ...]]:
    try:
        return raw.decode("utf-16"), ()
    except UnicodeDecodeError as error:
        return raw.decode("utf-16", "replace"), (f"not UTF-16 at byte {error.start}: replaced",)


def _utf8(raw: bytes) -> tuple[str, tuple[str, ...]]:
    """The text, and a warning that gives the place of the first wrong byte."""
    raw = raw.removeprefix(codecs.BOM_UTF8)
    try:
        return raw.decode(), ()
    except UnicodeDecodeError as error:
        line = with_lf(raw[: error.start].decode()).count("\n") + 1
        return raw.decode("utf-8", "replace"), (f"not UTF-8, first in line {line}: replaced",)
