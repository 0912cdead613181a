"""Rules of markdown-it for what dialects add to CommonMark; `pageindex/dialects.py` says which of them has what.

Each rule is a plugin (`parser.use(rule)`), or gives one. A rule reads only what is whole: a container is closed, a
comment ends. Text that only begins like one stays text.

Tokens of these rules: `container_open` (`meta` has kind, title, fold), `component` (what a page shows of tags of MDX),
`hidden` and `hidden_block` (what no page shows, as it is written), `wikilink` and `mark_open`.
"""

import re
from collections.abc import Callable
from itertools import takewhile

from markdown_it import MarkdownIt
from markdown_it.ruler import RuleOptionsType
from markdown_it.rules_block import StateBlock, lheading
from markdown_it.rules_inline import StateInline

from pageindex.text import WIKILINK

# The pictures that a page shows, by their endings.
PICTURE_TYPES = {
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".gif": "image/gif",
    ".webp": "image/webp",
    ".avif": "image/avif",
    ".svg": "image/svg+xml",
}


def split_words(words: str) -> frozenset[str]:
    """Return the words of a list that is written as text."""
    return frozenset(words.split())


LONGEST_FENCE = 20  # of each length the end is looked for once
MOST_LINES = 100  # of a tag or a comment that goes over several
INTERRUPTS: RuleOptionsType = {"alt": ["paragraph", "reference", "blockquote", "list", "footnote_def"]}

# Elements of HTML: what else stands in angle brackets (`Vec<T>`, `<name>`) is text.
HTML_TAGS = split_words(
    """a abbr acronym address area article aside audio b base bdi bdo big blockquote body br button canvas caption
    center cite code col colgroup data datalist dd del details dfn dialog div dl dt em embed fieldset figcaption
    figure font footer form g h1 h2 h3 h4 h5 h6 head header hgroup hr html i iframe img input ins kbd label legend
    li link main map mark menu meta meter nav noscript object ol optgroup option output p param path picture pre
    progress q rp rt ruby s samp script search section select small source span strike strong style sub summary
    sup svg table tbody td template textarea tfoot th thead time title tr track tt u ul var video wbr"""
)
# Elements that need no closing tag. Any other is a word where its closing tag is missing: `cp <source> <path>`.
UNCLOSED = split_words("""area br col dd dt embed hr img input li p td th tr wbr""")


class PlainAddresses(MarkdownIt):
    """Leaves addresses as they are: nobody follows them here, and encoding them takes a fifth of the time."""

    def normalizeLink(self, url: str) -> str:
        """Return the address."""
        return url

    def validateLink(self, url: str) -> bool:
        """Return True."""
        return True


def find_name(text: str, signs: str) -> str:
    """Return the letters, digits and other `signs` that a text begins with.

    >>> find_name("py:class: x", ":-")
    'py:class:'
    """
    return "".join(takewhile(lambda sign: sign.isalnum() or sign in signs, text))


def line_of(state: StateBlock, line: int) -> str:
    """Return a line of a block parser's text without its indentation."""
    return state.src[state.bMarks[line] + state.tShift[line] : state.eMarks[line]]


def is_html(text: str, begin: int, end: int, *, closes_later: bool) -> bool:
    """Return whether an element of HTML begins or ends at `begin`, or a comment begins there.

    >>> texts = ["<b>x</B>", "<br>", "</x>", "<!-- x", "<?php", '<my-x key="v">', "<b>x", "<T>", '<T> = "="', "b"]
    >>> [is_html(text, 0, len(text), closes_later=False) for text in texts]
    [True, True, True, True, True, True, False, False, False, False]
    >>> is_html("a <p", 2, 4, closes_later=False), is_html("<div", 0, 4, closes_later=True)
    (True, True)
    """
    if not text.startswith("<", begin):
        return False
    if text[begin + 1 : begin + 2] in ("!", "?"):
        return True
    is_closing = text.startswith("/", begin + 1)
    name = find_name(text[begin + 1 + is_closing : min(end, begin + 30)], "-").lower()
    if is_closing or name in UNCLOSED:
        return True
    if name not in HTML_TAGS:  # nobody writes `<name key="value">` of anything else than an element
        return '="' in text[begin : max(begin, text.find(">", begin, end))]
    return closes_later or f"</{name}" in text[begin:].lower()


LONGEST_TITLE = 40  # characters of one that ends with a full stop, above `---`


def read_underlined(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """Read what stands above `===` as a heading; above `---` one line alone that is no sentence.

    To CommonMark all of it is a heading. More lines were meant as a paragraph above a rule.
    """
    above = len(state.tokens)
    if not lheading(state, start, end, silent):
        return False
    heading, title = state.tokens[above : above + 2]
    is_sentence = len(title.content) > LONGEST_TITLE and title.content.endswith((".", "\u3002"))
    if heading.markup == "-" and (is_sentence or "\n" in title.content):
        del state.tokens[above:]
        state.line = start
        return False
    return True


# Containers: notes, tips, tabs.


def containers(*marks: str) -> Callable[[MarkdownIt], None]:
    """Return a plugin for `:::note Title`, `/// note | Title`, `:::{note} Title` and, of MyST, the same with backticks.

    Args:
        marks: the characters that fence them.
    """

    def read(state: StateBlock, start: int, end: int, silent: bool) -> bool:
        opening = line_of(state, start)
        mark = opening[:1]
        if mark not in marks or not opening.startswith(mark * 3):
            return False
        params = opening.lstrip(mark)
        fence = opening[: len(opening) - len(params)]
        named = _read_container(params.strip())
        if named is None or (mark in "`~" and not (params.startswith("{") and named[0] in _PROSE)):
            return False
        close = len(fence) <= LONGEST_FENCE and _find_closing(
            state, start, end, fence, lambda line: line.startswith(fence) and not line.strip(mark)
        )
        if not close:
            return False
        if not silent:
            below = _skip_options(state, start + 1, close) if params.startswith("{") else start + 1
            _push_container(state, start, (below, close), close + 1, *named)
        return True

    return lambda parser: parser.block.ruler.before("fence", f"container_{marks[0]}", read, INTERRUPTS)


# Directives of MyST that hold text, though they may be fenced as code is.
_PROSE = split_words(
    """note tip hint important warning caution attention danger error seealso admonition dropdown margin sidebar
    topic versionadded versionchanged versionremoved deprecated figure tab-set tab-item grid grid-item
    grid-item-card card epigraph"""
)


def _read_container(params: str) -> tuple[str, str] | None:
    """Return the kind and the title of `{note} Title`, `note Title`, `note[Title]`, `note | Title`, `note "Title"`.

    Pandoc writes `{.note title="Title"}`.
    """
    bare = params.removeprefix("{")
    is_pandoc = bare[:1] in {".", "#"}
    kind = find_name(bare[is_pandoc:], "_-:")
    if not kind[:1].isalpha():
        return None
    if is_pandoc:
        return kind, bare.partition('title="')[2].partition('"')[0]
    rest = bare.removeprefix(kind).removeprefix("}").strip().removeprefix("|").strip()
    return kind, rest.removeprefix('"').removesuffix('"').removeprefix("[").removesuffix("]").strip()


def _find_closing(state: StateBlock, start: int, end: int, key: str, closes: Callable[[str], bool]) -> int:
    """Return the line that closes what begins in the line `start`, 0 where none does."""
    unclosed = state.env.setdefault("unclosed", set())
    for line in () if (key, end) in unclosed else range(start + 1, end):
        if closes(line_of(state, line).strip()):
            return line
    unclosed.add((key, end))  # not looked for to the end again
    return 0


def _skip_options(state: StateBlock, line: int, end: int) -> int:
    """Return the line behind the options of a directive of MyST: `:name: value`, or lines between two `---`."""
    if line_of(state, line).strip() == "---":
        close = next((place for place in range(line + 1, end) if line_of(state, place).strip() == "---"), None)
        return line if close is None else close + 1
    while is_option(line_of(state, line)):  # the line that closes it is none
        line += 1
    return line


def is_option(line: str) -> bool:
    """Return whether a line is an option of a directive: `:name: value`."""
    name, colon, _ = line.lstrip().removeprefix(":").partition(":")
    return line.lstrip().startswith(":") and bool(colon and name) and not any(map(str.isspace, name))


def read_indented_containers(parser: MarkdownIt) -> None:
    """Read `!!! note "Title"`, `??? tip` and `=== "Tab"` of MkDocs: each holds the lines below that are indented."""

    def read(state: StateBlock, start: int, end: int, silent: bool) -> bool:
        opening = line_of(state, start)
        mark = opening[:3]
        if mark not in ("!!!", "???", "==="):
            return False
        params = opening[3:].lstrip("+!" if mark == "===" else "+")
        if not params.startswith(" ") or (mark == "===" and not params.lstrip().startswith('"')):
            return False
        named = ("tab", params.strip().strip('"')) if mark == "===" else _read_container(params.strip())
        if named is None or (mark == "===" and not opening.rstrip().endswith('"')):
            return False
        if silent:
            return True
        indentation, close = state.sCount[start] + 4, start + 1
        while close < end and (state.isEmpty(close) or state.sCount[close] >= indentation):
            close += 1
        above, state.blkIndent = state.blkIndent, indentation
        fold = "" if mark != "???" else "+" if opening[3:4] == "+" else "-"
        _push_container(state, start, (start + 1, close), close, *named, fold)
        state.blkIndent = above
        return True

    parser.block.ruler.before("fence", "container", read, INTERRUPTS)


def _push_container(
    state: StateBlock, start: int, inside: tuple[int, int], end: int, kind: str, title: str, fold: str = ""
) -> None:
    """Push a container of the lines `start` to `end`, and read what stands inside of it."""
    parent, bottom = state.parentType, state.lineMax
    state.parentType, state.lineMax = "container", inside[1]
    token = state.push("container_open", "div", 1)
    token.map, token.meta = [start, end], {"kind": kind, "title": title, "fold": fold}
    state.md.block.tokenize(state, *inside)
    state.push("container_close", "div", -1)
    state.parentType, state.lineMax, state.line = parent, bottom, end


# What no page shows.


def hide_between(opening: str, closing: str) -> Callable[[MarkdownIt], None]:
    """Return a plugin that hides what stands between two marks, in a line or over lines of its own."""

    def read_inline(state: StateInline, silent: bool) -> bool:
        if not state.src.startswith(opening, state.pos):
            return False
        end = state.src.find(closing, state.pos + len(opening), state.posMax)
        if end < 0:
            return False
        return _push_hidden(state, end + len(closing), silent)

    def read_block(state: StateBlock, start: int, end: int, silent: bool) -> bool:
        if not line_of(state, start).startswith(opening):
            return False
        begin, limit = state.bMarks[start] + state.tShift[start], state.eMarks[min(end, start + MOST_LINES) - 1]
        close = state.src.find(closing, begin + len(opening), limit)
        line = start + state.src.count("\n", begin, close)
        if close < 0 or state.src[close + len(closing) : state.eMarks[line]].strip():
            return False
        return silent or _push_block(state, "hidden_block", start, line + 1)

    def use(parser: MarkdownIt) -> None:
        parser.inline.ruler.before("link", f"hidden_{opening}", read_inline)
        parser.block.ruler.before("fence", f"hidden_{opening}", read_block, INTERRUPTS)

    return use


def hide_lines(*beginnings: str, kind: str = "hidden_block", to_blank: bool = False) -> Callable[[MarkdownIt], None]:
    """Return a plugin that hides lines which begin so; one that begins with a brace has to end with one.

    Those of the kind `include` stand for what a program puts in their place, with the indented lines below: they are
    text, of which nothing is known. `to_blank` hides the lines down to the next blank one, outside of other blocks:
    `import`s of MDX.
    """

    def read(state: StateBlock, start: int, end: int, silent: bool) -> bool:
        line = line_of(state, start).rstrip()
        if not line.startswith(beginnings) or (line[0] == "{" and line[-1] != "}"):
            return False
        if to_blank and (silent or state.level or state.sCount[start]):
            return False
        close = start + 1
        while close < end and (
            not state.isEmpty(close) if to_blank else kind == "include" and state.sCount[close] > state.sCount[start]
        ):
            close += 1
        return silent or _push_block(state, kind, start, close)

    return lambda parser: parser.block.ruler.before("fence", kind, read, INTERRUPTS)


def hide_block_ids(parser: MarkdownIt) -> None:
    """Hide `^name` at the end of a block, where Obsidian reads the block's name."""

    def read(state: StateInline, silent: bool) -> bool:
        name = state.src[state.pos + 1 :]
        is_behind = state.src[state.pos - 1].isspace()
        if state.src[state.pos] != "^" or not is_behind or not name.replace("-", "").isalnum():
            return False
        return _push_hidden(state, len(state.src), silent)

    parser.inline.ruler.before("link", "block_id", read)


def _push_hidden(state: StateInline, end: int, silent: bool) -> bool:
    if not silent:
        state.push("hidden", "", 0).content = state.src[state.pos : end]
    state.pos = end
    return True


def _push_block(state: StateBlock, kind: str, start: int, end: int, meta: dict[str, str] | None = None) -> bool:
    """Push a block of the lines `start` to `end`, as they are written; return that it was read."""
    token = state.push(kind, "", 0)
    token.map, token.content, token.meta = [start, end], state.getLines(start, end, state.blkIndent, False), meta or {}
    state.line = end
    return True


# Components of MDX.

COMPONENT = re.compile(r"</?(?:[A-Z][\w.]{0,60})?(?:[ \t][^<>\n]{0,500})?/?>")
_COMPONENTS = re.compile(rf"[ \t]*(?:{COMPONENT.pattern}[ \t]*){{1,20}}+$")
_SHOWN_OF_IT = re.compile(
    r"""\s(?:title|label|caption|name|path|query|body|header|text)=\{?(["'`])([^"`\n]{1,200}?)\1"""
)


def read_components(parser: MarkdownIt) -> None:
    """Read lines of tags alone as what a page shows of them; what stands below one is Markdown, also if indented."""

    def read(state: StateBlock, start: int, end: int, silent: bool) -> bool:
        first = line_of(state, start)
        sign = first.lstrip("</")[:1]
        if not first.startswith("<") or not (sign.isupper() or sign == ">"):
            return False
        lines = range(start, min(end, start + MOST_LINES))
        last = next((line for line in lines if line_of(state, line).rstrip().endswith(">")), None)
        if last is None:
            return False
        tags = " ".join(line_of(state, line) for line in range(start, last + 1))
        if not _COMPONENTS.match(tags):
            return False
        if silent:
            return True
        shown = " ".join(filter(None, map(show_component, COMPONENT.findall(tags))))
        kind = "text" if tags.rstrip().endswith("/>") else "closing" if tags.startswith("</") else ""
        meta = {"title": shown, "kind": kind}
        return _push_block(state, "component", start, last + 1, meta)

    parser.block.ruler.before("fence", "component", read, INTERRUPTS)


def indent_freely(parser: MarkdownIt) -> None:
    """Read indented lines as text, not as code: MDX and the like indent what stands in a tag."""
    parser.disable("code")


def show_component(tag: str) -> str:
    """Return what a page shows of a tag of MDX: a title, a label, the parameter that it describes; or nothing."""
    shown = _SHOWN_OF_IT.search(tag)
    return shown[2] if shown else ""


# Code that is no fence.


def read_code_tags(parser: MarkdownIt) -> None:
    """Read `{% highlight sh %}` to `{% endhighlight %}` and `{{< highlight sh >}}` to `{{< /highlight >}}` as code."""

    def read(state: StateBlock, start: int, end: int, silent: bool) -> bool:
        words = line_of(state, start).strip("{}<>%- \t").split()
        if not line_of(state, start).startswith(("{%", "{{")) or not words or words[0] not in ("highlight", "code"):
            return False
        endings = (f"end{words[0]}", f"/{words[0]}", f"/ {words[0]}")
        close = _find_closing(state, start, end, words[0], lambda line: line.strip("{}<>%- \t") in endings)
        if not close:
            return False
        if not silent:
            token = state.push("fence", "code", 0)
            token.info, token.map = " ".join(words[1:2]), [start, close + 1]
            token.content = state.getLines(start + 1, close, state.blkIndent, True)
            state.line = close + 1
        return True

    parser.block.ruler.before("fence", "code_tag", read, INTERRUPTS)


# Within a line.


def read_marks(parser: MarkdownIt) -> None:
    """Read `==text==` as marked text."""

    def read(state: StateInline, silent: bool) -> bool:
        begin, end = state.pos + 2, state.src.find("==", state.pos + 2, state.posMax)
        if not state.src.startswith("==", state.pos) or end < begin + 1 or "\n" in state.src[begin:end]:
            return False
        if state.src[begin] in " \t=" or state.src[end - 1].isspace():
            return False
        if not silent:
            bottom, state.pos, state.posMax = state.posMax, begin, end
            state.push("mark_open", "mark", 1).attrs = {"class": "written"}
            state.md.inline.tokenize(state)
            state.push("mark_close", "mark", -1)
            state.posMax = bottom
        state.pos = end + 2
        return True

    parser.inline.ruler.before("link", "mark", read)


def keep_words(rule: Callable[[StateInline, bool], bool]) -> Callable[[StateInline, bool], bool]:
    """Return the rule of formulas for `$x$` in a line: `$HOME ... $PATH` over code, lines and words is no formula."""

    def read(state: StateInline, silent: bool) -> bool:
        begin = state.pos
        # Silent at first: what it writes would take the text before it along when it is undone.
        if not state.src.startswith("$", begin) or not rule(state, True):
            return False
        within, behind = state.src[begin : state.pos], state.src[state.pos : state.pos + 1]
        state.pos = begin
        # In Japanese, Chinese and Korean words stand right behind formulas.
        is_word = behind.isascii() and behind.isalnum()
        return not is_word and "`" not in within and "\n" not in within and rule(state, silent)

    return read


def parse_wikilink(state: StateInline, silent: bool) -> bool:
    """Read `[[note#Part|label]]` and `![[picture.png]]` as one token with its label, which a picture has none of."""
    found = WIKILINK.match(state.src, state.pos)
    if found is None:
        return False
    if not silent:
        note, label = found.groups()
        token = state.push("wikilink", "", 0)
        is_picture = found[0].startswith("!") and note.partition("#")[0].lower().endswith(tuple(PICTURE_TYPES))
        token.content = "" if is_picture else label or name_target(note)
        token.meta = {"note": note}
    state.pos = found.end()
    return True


def name_target(note: str) -> str:
    """Return what a page shows of a wikilink without a label, as Obsidian does.

    >>> name_target("Plants#Beans"), name_target("#Beans")
    ('Plants > Beans', 'Beans')
    """
    return note.removesuffix("\\").removeprefix("#").replace("#", " > ")


# Logseq.


def unfold_outline(text: str) -> str:
    r"""Return an outline whose headings are items as a document, line by line: what stands below one is not indented.

    Without what Logseq alone reads.

    >>> unfold_outline("- ## Oven\n\tid:: 6f\n\t- Heat it.\n\t\t- To 220.")
    '## Oven\n\n- Heat it.\n\t- To 220.'
    """
    lines, depth = [], len(text)  # tabs before the items below the last heading; of an excerpt, before the first item
    for line in text.split("\n"):
        content = line.lstrip("\t")
        tabs = len(line) - len(content)
        if content.startswith("- #") and content[2:].lstrip("#").startswith(" "):
            depth, line = tabs + 1, content[2:]
        elif content.lstrip().startswith(("id:: ", "collapsed:: ", "logseq.order-list-type:: ")):
            line = ""
        else:
            depth = min(depth, tabs) if content.startswith("- ") else depth
            line = line[min(depth, tabs) :]
        lines.append(line)
    return "\n".join(lines)
