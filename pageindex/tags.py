"""Tags in a document's text, `#project/alpha`, as Obsidian reads them."""

import re
from collections.abc import Iterable, Iterator

from pageindex.links import blank_code
from pageindex.markdown import InlineText

MAX_TAG_CHARS = 100
# At the beginning or behind a blank: letters, digits, `_`, `-` and `/` of any script, but no number (`#12`).
_TAG = re.compile(r"(?<!\S)#([\w/-]+)")
_ATTRIBUTES = re.compile(r"\{:?\s*[#.][^{}\n]*\}")  # `{ #anchor .wide }`


def find_tags(texts: Iterable[InlineText]) -> Iterator[str]:
    """The tags without their `#`, in the order of the text; those in code, links, attributes and HTML are none."""
    for text in texts:
        if "#" in text.text and not text.is_html:
            for found in _TAG.finditer(_ATTRIBUTES.sub("", blank_code(text.text))):
                tag = found[1].strip("/")
                if len(tag) <= MAX_TAG_CHARS and any(sign.isalpha() for sign in tag):
                    yield tag
