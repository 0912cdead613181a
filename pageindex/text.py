"""The bytes of a document as text with LF line ends, and what had to be replaced."""

import codecs
import hashlib
from collections import Counter
from dataclasses import dataclass
from typing import Any

import yaml

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
    """SHA-256, 64 hex digits."""
    return hashlib.sha256(raw).hexdigest()


def decode(raw: bytes) -> DecodedText:
    """UTF-8, or UTF-16 with a byte order mark; NotTextError for a NUL in the first 8 KB, or too many lines."""
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
    if text.count("\n") > MAX_LINES:
        raise NotTextError(f"more than {MAX_LINES:,} lines")
    return DecodedText(text, warnings)


def with_lf(text: str) -> str:
    """The text with CRLF and lone CR as LF; other separators (U+2028, U+0085, form feed) end no line in an editor."""
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def _count_line(raw: bytes) -> int:
    """The number of the line that follows these bytes of UTF-8, from 1."""
    return with_lf(raw.decode()).count("\n") + 1


# YAML as people write it: no aliases, no deep nesting, no key twice. What else YAML can do is only ever used to harm.
#
# Pure Python on purpose: libyaml's stack overflows on nested brackets, which ends the process.

# Python refuses to print an integer of more than 4,300 digits, and a hexadecimal one can be made of any length.
MAX_NUMBER_CHARS = 100
MAX_NESTING = 20  # what people write is two or three deep; the parser recurses once for each level


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
            keys = Counter(key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode))
            for key, count in keys.items():  # two keys are one when they are written alike
                if count > 1:
                    raise PlainYamlError(f"it has the key {key!r} twice")
        return node

    def construct_scalar(self, node: yaml.ScalarNode | yaml.MappingNode) -> Any:  # noqa: ANN401 - as PyYAML declares it
        """Make a value of a scalar."""
        if node.tag.endswith((":int", ":float")) and len(node.value) > MAX_NUMBER_CHARS:
            raise PlainYamlError(f"it has a number of more than {MAX_NUMBER_CHARS} characters")
        return super().construct_scalar(node)


def read_plain_yaml(text: str) -> object:
    """The value of a YAML text; None for an empty one. Raises PlainYamlError when it is no YAML, or not plain."""
    try:
        return yaml.load(text, Loader=PlainLoader)
    except PlainYamlError:
        raise
    # Of a month 13, of `!!bool perhaps`, of `!!int`: PyYAML lets through whatever its constructors raise.
    except (yaml.YAMLError, ValueError, LookupError, AttributeError, TypeError, OverflowError) as error:
        raise PlainYamlError(" ".join(str(error).split())) from error
