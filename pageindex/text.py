"""The bytes of a document as text with LF line ends, and what had to be replaced."""

import codecs
import hashlib
from dataclasses import dataclass
from typing import Any

import yaml

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


# YAML as people write it: no aliases, no deep nesting, no key twice. What else YAML can do is only ever used to harm.
#
# Pure Python on purpose: libyaml's stack overflows on nested brackets, which ends the process.

MAX_NUMBER_CHARS = 100
"""Python refuses to print an integer of more than 4,300 digits, and a hexadecimal one can be made of any length."""
MAX_NESTING = 20
"""What people write is two or three deep; the parser recurses once for each level."""


class PlainYamlError(ValueError):
    """It is YAML, and not plain; the message is a clause."""


class PlainLoader(yaml.SafeLoader):
    """Composes and constructs values, refusing what a hostile text would use.

    Raises:
        PlainYamlError: for an alias, for what is nested too deep, for a key that a mapping has twice.
    """

    nesting = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        """Compose one value."""
        if self.check_event(yaml.AliasEvent):
            raise PlainYamlError("it uses YAML aliases")
        self.nesting += 1
        if self.nesting > MAX_NESTING:
            raise PlainYamlError(f"it is nested more than {MAX_NESTING} deep")
        node = super().compose_node(parent, index)
        self.nesting -= 1
        if isinstance(node, yaml.MappingNode):
            _refuse_repeated_keys(node)
        return node

    def construct_scalar(self, node: yaml.ScalarNode | yaml.MappingNode) -> Any:  # noqa: ANN401 - as PyYAML declares it
        """Make a value of a scalar."""
        if node.tag.endswith((":int", ":float")) and len(node.value) > MAX_NUMBER_CHARS:
            raise PlainYamlError(f"it has a number of more than {MAX_NUMBER_CHARS} characters")
        return super().construct_scalar(node)


def _refuse_repeated_keys(mapping: yaml.MappingNode) -> None:
    """Two keys are one when they are written alike."""
    seen: set[str] = set()
    for key in [key.value for key, _ in mapping.value if isinstance(key, yaml.ScalarNode)]:
        if key in seen:
            raise PlainYamlError(f"it has the key {key!r} twice")
        seen.add(key)


def read_plain_yaml(text: str) -> object:
    """The value that a YAML text stands for; None for an empty one.

    Raises:
        PlainYamlError: it is no YAML, or not plain.
    """
    try:
        return yaml.load(text, Loader=PlainLoader)
    except PlainYamlError:
        raise
    # Of a month 13, of `!!bool perhaps`, of `!!int`: PyYAML lets through whatever its constructors raise.
    except (yaml.YAMLError, ValueError, LookupError, AttributeError, TypeError, OverflowError) as error:
        raise PlainYamlError(" ".join(str(error).split())) from error
