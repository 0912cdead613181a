"""The metadata block at the beginning of a document: YAML between `---` lines or TOML between `+++` lines.

Nothing in it is executed or converted: scalars are kept as they were written, so that `version: 2.10` stays 2.10 and
`date: 2024-13-01` is no error. Whatever is wrong with a block is a warning, and the block is text, so that no word is
lost.
"""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time
from itertools import islice, takewhile
from typing import Any
from urllib.parse import unquote

MAX_CHARS = 65_536  # longer blocks are not read: PyYAML takes 0.7 s for 500 KB
MAX_FIELDS = 200  # of one document
MAX_DOTS = 100  # in one line of TOML: a key of 30,000 dotted parts takes tomllib 15 s and 3 GB

_NULLS = ("~", "null")


@dataclass(frozen=True)
class FrontMatter:
    """The metadata of a document, before its text."""

    lines: int = 0  # how many lines the block has, both fences counted; 0 without one
    title: str = ""  # `title`, or empty
    date: str = ""  # `date` as it was written, or empty
    aliases: tuple[str, ...] = ()  # `aliases` or `alias`: other names for wikilinks; a single string is split at commas
    tags: tuple[str, ...] = ()  # `tags` or `tag`, without `#`; a string is split at commas, one without any at blanks
    # (key, value) of everything in it, in its order, at most MAX_FIELDS: keys in lower case, with dots where they are
    # nested (`author.name`), one for each item of a list, of which one within it is joined; values on one line, empty
    # for null.
    fields: tuple[tuple[str, str], ...] = ()
    # What was not understood, as a clause; empty when all was, and when there is none. With one, the lines are text
    # like any other.
    warning: str = ""

    @property
    def dated(self) -> int | None:
        """Return the date in seconds since 1970, of UTC where it names no zone; None when no ISO date begins it."""
        for text in (self.date, self.date[:10]):  # the day alone of `2024-05-01 10:00 UTC`
            with suppress(ValueError):
                moment = datetime.fromisoformat(text)
                return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp())
        return None


def read_front_matter(text: str) -> FrontMatter:
    """Read the block that begins `text` (LF line ends), if it is closed, short enough and a mapping; never raise."""
    opening, _, rest = text.partition("\n")
    parse = _PARSERS.get(opening.rstrip())
    below = rest.split("\n") if parse else []
    end = next((number for number, line in enumerate(below) if line.rstrip() in (opening.rstrip(), "...")), None)
    if parse is None or end is None:
        return FrontMatter()
    block = "\n".join(below[:end])
    if len(block) > MAX_CHARS:
        return FrontMatter(warning=f"front matter longer than {MAX_CHARS:,} characters is read as text")
    warning = ""
    try:
        values = parse(f"\n{block}\n")  # with a line above it, so that lines are counted as in the file
    except (ValueError, OverflowError, RecursionError) as error:
        values, warning = {}, f"front matter is read as text: {error}"
    if block.startswith("\n#") or ("#" in block and not values):  # a heading between two rules rather than a comment
        return FrontMatter(warning=warning)
    if not isinstance(values, dict):
        return FrontMatter(warning="front matter is read as text: it is no mapping")
    return _build(values, end + 2, warning)


def read_page_properties(text: str, name: str) -> FrontMatter:
    r"""Read the lines `key:: value` that begin a page of Logseq, without the brackets of links; its name is its title.

    >>> page = read_page_properties("tags:: [[Bread]], oven\nalias:: Rye\n\n- # Loaf", "Bread___Who%3F")
    >>> page.title, page.tags, page.fields
    ('Bread/Who?', ('Bread', 'oven'), (('tags', 'Bread, oven'), ('alias', 'Rye')))
    """
    pairs = (line.partition("::") for line in text.split("\n"))
    found = [(key, value) for key, sign, value in takewhile(lambda pair: pair[1] and " " not in pair[0], pairs)]
    values = {key: value.replace("[[", "").replace("]]", "").strip() for key, value in found}
    matter = _build(values, len(found), "")
    return replace(matter, title=matter.title or unquote(name).replace("___", "/"))


def _build(values: dict[str, Any], lines: int, warning: str) -> FrontMatter:
    """Return what a mapping of so many lines says."""
    named = {str(key).lower(): value for key, value in values.items()}
    tags = (tag.removeprefix("#").strip("/") for name in ("tags", "tag") for tag in _read_list(named.get(name), " "))
    return FrontMatter(
        lines=lines,
        title=_read_line(named.get("title")),
        date=_read_line(named.get("date")),
        aliases=tuple(alias for name in ("aliases", "alias") for alias in _read_list(named.get(name))),
        tags=tuple(dict.fromkeys(filter(None, tags))),
        fields=tuple(islice(_flatten(values), MAX_FIELDS)),
        warning=warning,
    )


def _read_line(value: object) -> str:
    """Return a scalar on one line; empty for null and for collections."""
    if isinstance(value, bool):  # of TOML, as are the types below
        return str(value).lower()
    text = str(value) if isinstance(value, str | int | float | date | time) else ""
    # JSON writes a sign as two surrogates, and nothing can store a lone one.
    text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return "" if text in _NULLS else " ".join(text.split())


def _read_list(value: object, separator: str | None = None) -> list[str]:
    """Return the texts of a list, or of one string: split at commas, and where it has none at `separator`."""
    if isinstance(value, str):
        value = value.split("," if "," in value or separator is None else separator)
    return [text for text in map(_read_line, value) if text] if isinstance(value, list) else []


def _flatten(value: object, key: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for name, item in value.items():
            yield from _flatten(item, f"{key}.{_read_line(name)}".strip(".").lower())
    elif isinstance(value, list):
        for item in value:
            if key and isinstance(item, list):  # `["tofu", 175, "g"]` is one thing
                yield key, " ".join(text for _, text in _flatten(item, key) if text)
            else:
                yield from _flatten(item, key)
    elif key:
        yield key, _read_line(value)


def _parse_yaml(block: str) -> object:
    # A question reads texts without front matter, and does without the 15 ms that PyYAML takes.
    from pageindex.plain_yaml import read_plain_yaml

    # PyYAML takes a tab for a blank nowhere, YAML 1.2 except where it indents; here it is one there as well.
    values = read_plain_yaml(block.replace("\t", " "), as_written=True)
    return {} if values is None else values


def _parse_toml(block: str) -> object:
    import tomllib

    if any(line.count(".") > MAX_DOTS for line in block.split("\n")):
        raise ValueError(f"it has a line with more than {MAX_DOTS} dots")
    return tomllib.loads(block)


_PARSERS = {"---": _parse_yaml, "+++": _parse_toml}
