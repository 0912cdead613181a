"""Markdown as the text that a page shows of it, for the few lines that are quoted of a section.

Links are their text, emphasis is gone, a table's row is its cells, code is as it stands. What a page does not show is
left out: the fences of code and front matter, comments, tags, attributes, footnote marks, templates. Each pattern is
bounded, so the time is linear in the text.
"""

import re
from collections.abc import Iterator

from pageindex.front_matter import read_front_matter
from pageindex.markdown import References, drop_icons, fence_after

CELL = " · "  # between two cells of a table

_CODE_SPAN = re.compile(r"(`[^`\n]*`)")
_COMMENT = re.compile(r"<!--.{0,2000}?(?:-->|\Z)|%%[^%\n]{0,500}%%", re.DOTALL)
# What programs that make pages add to Markdown, and no page shows.
_UNSEEN = re.compile(
    r"""(?<!\\)</?[A-Z][\w.]{0,60}(?:[ \t][^<>\n]{0,500})?/?>     # a component of MDX: `<Tabs items={["a"]}>`
      | \{\{[^{}\n]{0,300}\}\} | \{%[^{}\n]{0,300}%\}            # templates of Hugo, Jekyll, Liquid
      | \{\*[^{}\n]{0,300}\*\}                                 # a file that is put in: `{* ../a.py hl[1] *}`
      | (?<=[)\]`])\{:?[ ]?(?:[.#]|[\w-]{1,50}=)[^{}\n]{0,200}\} # attributes: `{.wide}`, `{ align=right }`
      | (?<=\s)\{:?[ ]?[.#][^{}\n]{0,200}\}
      | \[\^[^\[\]\s]{1,99}\](?::[ ])?                           # marks of footnotes
      | (?<=\s)\^[\w-]{1,60}(?=[ \t]*$)                          # `^name`, a block's in Obsidian
    """,
    re.VERBOSE,
)
# Tags between two texts that a page sets apart.
_BREAK = re.compile(
    r"</?(?:br|p|t[dhr]|li|[uod]l|d[dt]|div|h[1-6]|summary|hr)(?:[ \t][^<>\n]{0,500})?/?>", re.IGNORECASE
)
_SUSPECT = re.compile(r"[<{^]|==|:[fmos]|^[ \t]*[>!?:]")  # what every line has that one of these patterns changes
_HIGHLIGHT = re.compile(r"==(?=[^\s=])([^=\n]{1,300})(?<=\S)==")
# Titles of callouts: `> [!note] Title`, `!!! note "Title"`, `::: tip Title`, `:::tip[Title]`.
_CALLOUT = re.compile(r"^[ \t]*(?:>[ \t]?)++\[!(\w{1,30})[^\]\n]{0,60}\][-+]?[ \t]*([^\n]*)$")
_ADMONITION = re.compile(
    r"""^[ \t]*(?:!!!|\?\?\?\+?|:{3,}+)[ \t]*\{?(\w{0,30})\}?[ \t]*
        (?:"([^"\n]*)"|\[([^\]\n]*)\]|([^"\[\]{}\n]*))[ \t]*$""",
    re.VERBOSE,
)
_RULE = re.compile(r"[ \t>]*(?:[-*_=][ \t]*+){3,}+$|[ \t>]*[|:-][-|: \t]*+$|[ \t]*\[[^\[\]]{1,999}\]:[ \t]*\S")
_IMPORT = re.compile(r"(?:import (?:['\"]|\S.{0,300} from ['\"])|export (?:const|default|function) )")
_ROW = re.compile(r"[ \t>]*\|.*\|[ \t]*$")
_CELL_END = re.compile(r"(?<!\\)\|")
# What a line begins with that is no text of it: quotes, an item and its box.
_BEGINNING = re.compile(r"[ \t]*(?:>[ \t]?)*+(?:(?:[-*+]|\d{1,9}[.)])[ \t]+(?:\[.\][ \t]+)?)?")
# `[text][label]` and `[text][]`, whose definition mostly stands outside of the lines; not `rows[i][j]`.
_REFERENCE = re.compile(r"(?<![\w\])])\[([^\[\]]+)\]\[[^\[\]]*\]")
_SPACES = re.compile(r"\s+")


def drop_unseen(text: str) -> str:
    """Markdown without front matter, and without what other programs than CommonMark's read in it; code stays."""
    if text.startswith(("---\n", "+++\n")):
        lines = read_front_matter(text).lines
        text = text.split("\n", lines)[-1] if text.count("\n") >= lines else ""
    kept, fence = [], ""
    for line in (_COMMENT.sub("", text) if "<!--" in text or "%%" in text else text).split("\n"):
        before, fence = fence, fence_after(fence, line)
        if before or fence or not _SUSPECT.search(line):
            kept.append(line)
            continue
        if callout := _CALLOUT.match(line) or _ADMONITION.match(line):
            kind, *titles = callout.groups("")
            line = "".join(titles).strip() or kind.capitalize()
            line = f"\n{line}:" if line else ""
        parts = _CODE_SPAN.split(line)  # code stands at the odd places
        parts[::2] = [_HIGHLIGHT.sub(r"\1", _BREAK.sub(" ", _UNSEEN.sub("", drop_icons(part)))) for part in parts[::2]]
        kept.append("".join(parts))
    return "\n".join(kept)


def plain_lines(text: str) -> Iterator[str]:
    """The lines of Markdown that `drop_unseen` gave, as plain text; without headings and lines that show nothing."""
    fence = ""
    for line in text.split("\n"):
        before, fence = fence, fence_after(fence, line)
        is_code = bool(before and fence)
        shown = line if is_code else "" if before or fence else _plain_line(line)
        if shown := _SPACES.sub(" ", shown).strip():
            yield shown


def _plain_line(line: str) -> str:
    """Return a line outside of code."""
    if line.lstrip(" \t>").startswith("#") or _RULE.match(line) or _IMPORT.match(line):
        return ""
    plain = References().plain_text
    line = _REFERENCE.sub(r"\1", line)
    if _ROW.match(line):
        cells = (plain(cell.replace("\\|", "|")) for cell in _CELL_END.split(line.strip(" \t>").strip("|")))
        row = CELL.join(filter(None, cells))
        return f"{row};" if row else ""
    beginning = _BEGINNING.match(line)
    return plain(line[beginning.end() if beginning else 0 :])
