"""What a model said before, so that it need not say it again."""

from collections import OrderedDict
from collections.abc import Hashable
from hashlib import sha256
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class Remembered(Generic[Key, Value]):
    """A dictionary of bounded size, in memory: the entry that was used longest ago gives way."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._entries: OrderedDict[Key, Value] = OrderedDict()

    def get(self, key: Key) -> Value | None:
        """What was put there, if it still is."""
        if key not in self._entries:
            return None
        self._entries.move_to_end(key)
        return self._entries[key]

    def put(self, key: Key, value: Value) -> None:
        """Remembers it."""
        self._entries[key] = value
        self._entries.move_to_end(key)
        if len(self._entries) > self._size:
            self._entries.popitem(last=False)


def digest(text: str) -> bytes:
    """32 bytes in place of a text; lone surrogates are told apart."""
    return sha256(text.encode("utf-8", "surrogatepass")).digest()
