"""Markdown as the plain text that a page shows of it.

As a page shows it, links are their text, emphasis is gone, a table's row is its cells, code is as it stands. Left out
are the fences of code, comments, tags, attributes, footnote marks, templates. Each pattern is bounded, so the time is
linear in the text.
"""

import re
from collections.abc import Iterator, Sequence

from pageindex.markdown import (
    COMPONENT,
    TEMPLATE,
    References,
    drop_icons,
    drop_notation,
    fence_after,
    show_component,
)

CELL, NO_CELL = " \u00b7 ", "\u2013"  # between two cells of a table; an empty one

_CODE_SPAN = re.compile(r"(`[^`\n]*`)")
_HIDDEN, _RESTORED = str.maketrans("*[", "\ue000\ue001"), str.maketrans("\ue000\ue001", "*[")
_COMMENT = re.compile(r"<!--.{0,2000}?(?:-->|\Z)", re.DOTALL)
# What programs that make pages add to Markdown, and no page shows.
_UNSEEN = re.compile(
    rf"(\*\*|)(?:{TEMPLATE})\1"
    r"""
      | <[a-z]\w{0,30}[ ](?:[^<>\n={]|=(?!\{)){0,300}=\{[^<>\n]{0,500}> # tags of JSX: `<p style={{ color: "red" }}>`
      | \{\*[^{}\n]{0,300}\*\}                                 # a file that is put in: `{* ../a.py hl[1] *}`
      | (?:(?<=[)\]])|^)\{:?[ ]?(?:[.#]|[\w-]{1,50}=)[^{}\n]{0,200}\} # attributes: `{.wide}`, `{ align=right }`
      | (?<=\s)\{:?[ ]?[.#][^{}\n]{0,200}\}
      | ^[ \t]*(?:\{:[^{}\n]{1,200}\} | \([\w./:-]{1,100}\)= | \[{1,2}_?(?i:toc)_?\]{1,2})[ \t]*$
      | \[\^[^\[\]\s]{1,99}\](?::[ ])?                           # marks of footnotes
      | (?<=\s)\^[\w-]{1,60}(?=[ \t]*$)                          # `^name`, a block's in Obsidian
    """,
    re.VERBOSE,
)
# Code, or a role of MyST: a text, with where it leads, or a name, of which `~` shows the last part.
_ROLE = re.compile(
    r"`[^`\n]*`|(?<!\$)\{[a-z][\w:.+-]{0,60}\}`(?:~[\w.]{0,200}\.)?([^`<\n]{1,300}?)(?:\s?<[^<>`\n]{0,300}>)?`"
)
# A link without a text shows where it leads.
_BARE_LINK = re.compile(r"(?<!!)\[\]\((?!\w+://)[^()\s#]{0,100}?#?([^()\s#]{1,100}?)(?:\.md)?\)")
_SIGNS = {"white_check_mark": "\u2705", "heavy_check_mark": "\u2714", "x": "\u274c", "warning": "\u26a0"}
_SIGN = re.compile(rf"(?<![\w:]):({'|'.join(_SIGNS)}):(?![\w:])")
# Tags between two texts that a page sets apart.
_BREAK = re.compile(
    r"</?(?:br|p|t[dhr]|li|[uod]l|d[dt]|div|h[1-6]|summary|hr)(?:[ \t][^<>\n]{0,500})?/?>", re.IGNORECASE
)
# What every line has that one of these patterns changes.
_SUSPECT = re.compile(r"[<{^]|==|\[\]\(|:[fmoshwx]|^[ \t]*[>!?:([]")
_HIGHLIGHT = re.compile(r"==(?=[^\s=])([^=\n]{1,300})(?<=\S)==")
# Titles of callouts: `> [!note] Title`, `!!! note "Title"`, `::: tip Title`, `:::tip[Title]`, `=== "Tab"`.
_CALLOUT = re.compile(r"^[ \t]*(?:>[ \t]?)++\[!(\w{1,30})[^\]\n]{0,60}\][-+]?[ \t]*([^\n]*)$")
_ADMONITION = re.compile(
    r"""^[ \t]*(?:!!!|\?\?\?\+?|:{3,}+|===[!+]?(?=[ ]+"))[ \t]*\{?([\w:-]{0,40})\}?[ \t]*
        (?:"([^"\n]*)"|\[([^\]\n]*)\]|([^"\[\]{}\n]*))[ \t]*$""",
    re.VERBOSE,
)
MOST_WRAPPED = 4  # lines of a code span: with a backtick too many, all that follows would be searched for its end
# `<img` and `<a href="x"` at a line's end: what it is given stands in the lines below.
_OPEN_TAG = re.compile(r"<(?:a|img|p|div|span|source|video|iframe|kbd|td|th)(?:[ \t][^<>`]{0,500})?$")
_BEGINS_BLOCK = re.compile(r"[ \t>]*(?:$|(?:[-*+]|#{1,6}|\d{1,9}[.)])[ \t]|\||[`~]{3})")
_HEADING = re.compile(r"[ \t>]*#{1,6}(?:[ \t]|$)")  # not a line that begins with a tag
_RULE = re.compile(r"[ \t>]*(?:[-*_=][ \t]*+){3,}+$|[ \t>]*[|:-][-|: \t]*+$|[ \t]*\[[^\[\]]{1,999}\]:[ \t]*\S")
_IMPORT = re.compile(r"import (?:['\"]|\S.{0,300} from ['\"])|export (?:const|default|function) |<<<[ ]?[@./]")
_ROW = re.compile(r"[ \t>]*\|.*\|[ \t]*$")
_CELL_END = re.compile(r"(?<!\\)\|")
# What a line begins with that is no text of it: quotes, an item and its box.
_BEGINNING = re.compile(r"[ \t]*(?:>[ \t]?)*+(?:(?:[-*+]|\d{1,9}[.)])[ \t]+(?:[-*+][ \t]+)*+(?:\[.\][ \t]+)?)?")
# `[text][label]` and `[text][]`, whose definition mostly stands outside of the lines; not `rows[i][j]`.
_REFERENCE = re.compile(r"(?<![\w\])])\[(?:([^\[\]]+)\]\[[^\[\]]*|\]\[([A-Za-z_]\w*\.[\w.]+))\]")
_PICTURE = re.compile(r"!\[([^\[\]]*)\]\[[^\[\]]*\]")
# A link or emphasis that begins in one line and ends in another, once both are on one.
_WRAPPED = re.compile(
    r"(?<![\w\])])\[([^\[\]]{1,300})\](?:\[[^\[\]]*\]|\([ ]?[^()\s]{1,500}\))"
    r"|(?<![\w*])(?P<mark>\*{1,3})(?=[^\s*])([^*]{1,500})(?<=\S)(?P=mark)(?![\w*])"
)
_SPACES = re.compile(r"\s+")


def plain_text(lines: Sequence[str]) -> str:
    """Return lines of Markdown as a page shows them, on one line; stars and brackets in code are none of Markdown."""
    shown = " ".join(plain_lines(_CODE_SPAN.sub(lambda code: code[0].translate(_HIDDEN), "\n".join(lines))))
    has_code = any(fence_after("", line) for line in lines)
    return (shown if has_code or len(lines) == 1 else _WRAPPED.sub(r"\1\3", shown)).translate(_RESTORED)


def plain_lines(text: str) -> Iterator[str]:
    """Yield the lines of Markdown as plain text; without headings and lines that show nothing."""
    for line, is_code in read_lines(text):
        if is_code:
            shown = _SPACES.sub(" ", line)
        elif _ROW.match(line):
            row = join_cells(split_row(line))
            shown = f"{row};" if row else ""
        else:
            shown = References().plain_text(line.rstrip().removesuffix("\\"))  # which breaks the line
        if shown := shown.strip():
            yield shown


def split_row(line: str) -> list[str]:
    """Return the cells of a row of a table as a page shows them, empty ones too."""
    row = next((text for text, _ in read_lines(line)), "").strip(" \t>").removeprefix("|").removesuffix("|")
    return [References().plain_text(cell.replace("\\|", "|")) for cell in _CELL_END.split(row)]


def join_cells(cells: Sequence[str]) -> str:
    """Return cells on one line, a dash for an empty one, so that each stands in its column; none behind the last.

    >>> join_cells(["cmd", "", "yes", ""])
    'cmd \u00b7 \u2013 \u00b7 yes'
    """
    last = max((number for number, cell in enumerate(cells, start=1) if cell), default=0)
    return CELL.join(cell or NO_CELL for cell in cells[:last])


def read_lines(text: str) -> Iterator[tuple[str, bool]]:
    """Yield (line, whether it is code) without what no page shows, and without the marks of quotes and items."""
    fence, end = "", 0
    lines = drop_notation(_COMMENT.sub("", text) if "<!--" in text else text).split("\n")
    while end < len(lines):
        start, end = end, end + 1 if fence else _find_end_of_span(lines, end)
        line = " ".join([lines[start], *(line.lstrip(" \t>") for line in lines[start + 1 : end])])
        before, fence = fence, fence_after(fence, line)
        if before and fence:
            yield line, True
        elif not (before or fence):
            line = _drop_unseen(line)
            if not (_HEADING.match(line) or _RULE.match(line) or _IMPORT.match(line)):
                line = _REFERENCE.sub(lambda found: found[1] or found[2], _PICTURE.sub(r"\1", line))
                beginning = None if _ROW.match(line) else _BEGINNING.match(line)
                yield line[beginning.end() if beginning else 0 :], False


def _find_end_of_span(lines: Sequence[str], start: int) -> int:
    """Return the end of the lines that a code span or a tag which begins in the first goes over; else of that line."""
    if _OPEN_TAG.search(lines[start]):
        rest = range(start + 1, min(start + 5 * MOST_WRAPPED, len(lines)))  # a tag of a picture is long
        return next((end + 1 for end in rest if ">" in lines[end]), start + 1)
    marks = lines[start].count("`")
    for end in range(start + 1, min(start + MOST_WRAPPED, len(lines))):
        if marks % 2 == 0 or _BEGINS_BLOCK.match(lines[end]) or fence_after("", lines[start]):
            break
        marks += lines[end].count("`")
        if marks % 2 == 0:
            return end + 1
    return start + 1


def _drop_unseen(line: str) -> str:
    """Return a line without what other programs than CommonMark's read in it; code stays."""
    if not _SUSPECT.search(line):
        return line
    line = _ROLE.sub(lambda role: f"`{role[1]}`" if role[1] else role[0], line)
    if callout := _CALLOUT.match(line) or _ADMONITION.match(line):
        kind, *titles = callout.groups("")
        title = "".join(titles).strip()
        if not any(map(str.isalpha, title)):  # `::: code-group` shows nothing, `:::{deprecated} 1.2` both
            title = "" if "-" in kind else f"{kind.capitalize()} {title}".strip()
        return as_label(title)
    parts = _CODE_SPAN.split(line)  # code stands at the odd places
    parts[::2] = [_HIGHLIGHT.sub(r"\1", _BREAK.sub(" ", _UNSEEN.sub("", _drop_tags(part)))) for part in parts[::2]]
    return "".join(parts)


def _drop_tags(text: str) -> str:
    """Return text without icons and tags of MDX, but what a page shows of them."""
    text = _BARE_LINK.sub(r"\1", _SIGN.sub(lambda sign: _SIGNS[sign[1]], drop_icons(text)))
    return COMPONENT.sub(lambda tag: (str if tag[0].endswith("/>") else as_label)(show_component(tag[0])), text)


def as_label(text: str) -> str:
    """Return a title as it stands before what it is the title of."""
    return f"{text}: " if text and text[-1].isalnum() else f"{text} " if text else ""
