"""How much of an answer fits, and how the next call goes on where this one ended."""

import hashlib
import hmac
import json
import math
import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterable, Sequence

from retriever.errors import UsageError

DEFAULT_TOKENS = 4_000
MIN_TOKENS = 300
MAX_TOKENS = 10_000
"""Clients warn about larger answers, and refuse those above 25,000."""

CHARACTERS_PER_TOKEN = 3
TOKENS_PER_OTHER_CHARACTER = 1.5
_SEAL_BYTES = 8


def estimated_tokens(text: str) -> int:
    """About how many tokens a language model reads in a text.

    Every model counts in its own way. This counts three ASCII characters as one token and each other character as one
    and a half, which is more than most models need for prose (English has four to five characters to a token).
    """
    ascii_count = sum(map(str.isascii, text)) if not text.isascii() else len(text)
    return math.ceil(ascii_count / CHARACTERS_PER_TOKEN + (len(text) - ascii_count) * TOKENS_PER_OTHER_CHARACTER)


def compact_json(content: object) -> str:
    """JSON as it is counted and sent."""
    return json.dumps(content, ensure_ascii=False, separators=(",", ":"))


def fitting_lines(lines: Sequence[str], most: int) -> int:
    """How many of the lines fit into so many tokens; at least one when there is any."""
    spent = 0
    for number, line in enumerate(lines):
        spent += estimated_tokens(f"{line}\n")
        if spent > most:
            return max(number, 1)
    return len(lines)


def fitting_text(text: str, most: int) -> str:
    """The beginning of a text that fits into so many tokens: whole lines, or a part of the first one; never empty."""
    if estimated_tokens(text) <= most:
        return text
    low, high = 1, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if estimated_tokens(text[:middle]) <= most else (low, middle - 1)
    line_end = text.rfind("\n", 0, low)
    return text[: line_end + 1] if line_end > 0 else text[:low]


class Cursors:
    """Makes cursors and reads them again: opaque, sealed with a key of this process, each for one call alone."""

    def __init__(self) -> None:
        self._key = secrets.token_bytes(32)

    def make(self, call: Iterable[object], snapshot: int, offset: int) -> str:
        """A cursor for the same call, which goes on at `offset` while the index has that snapshot."""
        body = json.dumps([snapshot, offset]).encode()
        return urlsafe_b64encode(self._hash_manifest(call, body) + body).decode().rstrip("=")

    def offset(self, cursor: str, call: Iterable[object], snapshot: int) -> int:
        """Where the call goes on; 0 without a cursor.

        Raises:
            UsageError: it is none of ours, belongs to another call, or the documents have changed since.
        """
        if not cursor:
            return 0
        try:
            raw = urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
        except ValueError:
            raw = b""
        seal, body = raw[:_SEAL_BYTES], raw[_SEAL_BYTES:]
        if not hmac.compare_digest(seal, self._hash_manifest(call, body)):
            raise UsageError(
                "this cursor belongs to another call; repeat the call that gave it with all its arguments, or call "
                "without cursor"
            )
        made_at, offset = json.loads(body)
        if made_at != snapshot:
            raise UsageError("the documents changed since this cursor was given; call again without cursor")
        return int(offset)

    def _hash_manifest(self, call: Iterable[object], body: bytes) -> bytes:
        content = json.dumps(list(call)).encode() + body
        return hmac.new(self._key, content, hashlib.sha256).digest()[:_SEAL_BYTES]
