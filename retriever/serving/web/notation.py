"""What people write in notes beside CommonMark: callouts, task lists, footnotes, embedded pictures and math.

Rules for markdown-it that make tokens of it; `render` says what each becomes. Every rule reads a line, or up
to a bound, once, so that hostile text costs no more than other text.

A formula becomes text that people read: Greek letters, signs, powers, fractions; what is not known stays. No library
does this without a script or style of its own in the page, and the page loads nothing from elsewhere.
"""

import re
from html import escape
from html.entities import html5
from typing import TYPE_CHECKING

from markdown_it.rules_block import StateBlock
from markdown_it.rules_core import StateCore
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token

if TYPE_CHECKING:
    from markdown_it import MarkdownIt

MAX_MATH_CHARS = 2_000  # of a formula
MAX_FOOTNOTES = 500  # of one text

# How a callout is drawn, by its type: what is not named here is drawn as a note.
CALLOUTS = {
    "abstract": "note", "summary": "note", "tldr": "note", "info": "note", "todo": "note", "example": "note",
    "quote": "note", "cite": "note",
    "tip": "tip", "hint": "tip", "success": "tip", "check": "tip", "done": "tip",
    "question": "doubt", "help": "doubt", "faq": "doubt", "important": "doubt", "warning": "doubt", "caution": "doubt",
    "attention": "doubt",
    "failure": "danger", "fail": "danger", "missing": "danger", "danger": "danger", "error": "danger", "bug": "danger",
}  # fmt: skip

_CALLOUT = re.compile(r"\[!([A-Za-z][A-Za-z0-9_ -]{0,30})\]([+-]?)(?:[ \t]+(.*))?$")
_TASK = re.compile(r"\[([ xX/-])\][ \t]+(?=\S)")
_FOOTNOTE = re.compile(r"\[\^([^\[\]\s]{1,100})\]:[ \t]*(.*)$")
_REFERENCE = re.compile(r"\[\^([^\[\]\s]{1,100})\]")
_EMBED = re.compile(r"!\[\[([^\[\]\n|]{1,999}+)(?:\|([^\[\]\n]{0,999}+))?\]\]")


def add_notation(parser: "MarkdownIt") -> None:
    """Adds the rules."""
    interrupted = ["paragraph", "reference", "blockquote", "list"]
    parser.block.ruler.before("reference", "math_block", parse_math_block, {"alt": interrupted})
    parser.block.ruler.before("reference", "footnote", parse_footnote, {"alt": ["paragraph", "reference"]})
    parser.core.ruler.before("inline", "callout", mark_callouts)
    parser.core.ruler.after("inline", "notes", add_footnotes)
    parser.core.ruler.after("inline", "task", mark_tasks)
    parser.inline.ruler.before("link", "footnote_reference", parse_reference)
    parser.inline.ruler.before("image", "embed", parse_embed)
    parser.inline.ruler.after("escape", "math", parse_math)


# Blocks


def parse_math_block(state: StateBlock, first: int, end: int, silent: bool) -> bool:
    """`$$` on a line of its own, or a whole `$$ ... $$`, up to the line that ends with `$$`."""
    if state.is_code_block(first) or not _line(state, first).startswith("$$"):
        return False
    begun, length = _line(state, first)[2:], 0
    lines: list[str] = []
    for place in range(first, end):
        line = begun if place == first else _line(state, place)
        length += len(line)
        if length > MAX_MATH_CHARS or (place > first and not line.strip() and not lines):
            return False
        closed = line.rstrip().endswith("$$")
        lines.append(line.rstrip()[:-2] if closed else line)
        if closed:
            break
    else:
        return False
    if not "".join(lines).strip():
        return False
    if not silent:
        token = state.push("math_block", "", 0)
        token.content, token.map = "\n".join(lines).strip(), [first, place + 1]
        state.line = place + 1
    return True


def parse_footnote(state: StateBlock, first: int, end: int, silent: bool) -> bool:
    """`[^name]: text`, with the lines that go on, up to a blank one that no indented line follows."""
    found = None if state.is_code_block(first) else _FOOTNOTE.match(_line(state, first))
    notes: dict[str, str] = state.env.setdefault("footnotes", {})
    if found is None or len(notes) >= MAX_FOOTNOTES:
        return False
    if silent:
        return True
    lines, place = [found[2]], first + 1
    while place < end:
        line = _line(state, place)
        if not line.strip():
            goes_on = place + 1 < end and state.sCount[place + 1] >= state.blkIndent + 4
            if not (goes_on and _line(state, place + 1).strip()):
                break
        elif _FOOTNOTE.match(line) or state.sCount[place] < state.blkIndent:
            break
        lines.append(line.strip())
        place += 1
    notes.setdefault(found[1], "\n".join(lines).strip())
    state.line = place
    return True


def _line(state: StateBlock, number: int) -> str:
    """A line without its indentation and the marks of what it stands in."""
    return state.src[state.bMarks[number] + state.tShift[number] : state.eMarks[number]]


# The tokens of a whole text


def mark_callouts(state: StateCore) -> None:
    """`> [!note] Title`: the quote becomes a callout with that title; `+` and `-` make one that folds."""
    tokens = state.tokens
    opened: list[Token] = []
    kept: list[Token] = []
    place = 0
    while place < len(tokens):
        token = tokens[place]
        kept.append(token)
        place += 1
        if token.type == "blockquote_close":
            token.meta = opened.pop().meta
        if token.type != "blockquote_open":
            continue
        opened.append(token)
        if place + 1 >= len(tokens) or tokens[place].type != "paragraph_open":
            continue
        inline = tokens[place + 1]
        first, _, rest = inline.content.partition("\n")
        found = _CALLOUT.match(first)
        if found is None:
            continue
        kind = found[1].strip().lower()
        title = (found[3] or "").strip() or kind.capitalize()
        token.meta = {"callout": CALLOUTS.get(kind, "note"), "fold": found[2]}
        said = Token("inline", "", 0, content=title, children=[], map=inline.map)
        kept += [_meant("callout_title_open", 1, token), said, _meant("callout_title_close", -1, token)]
        if rest.strip():
            inline.content = rest
        else:
            place += 3  # the paragraph held the title alone
    state.tokens = kept


def _meant(kind: str, nesting: int, callout: Token) -> Token:
    token = Token(kind, "", nesting)  # type: ignore[arg-type]  # -1 and 1 are the two that there are
    token.meta = callout.meta
    return token


def mark_tasks(state: StateCore) -> None:
    """`- [ ] text` and `- [x] text`."""
    for place, token in enumerate(state.tokens[2:], start=2):
        if token.type != "inline" or state.tokens[place - 2].type != "list_item_open" or not token.children:
            continue
        first, found = token.children[0], _TASK.match(token.content)
        if found is None or first.type != "text" or not first.content.startswith("["):
            continue
        # A text token may hold only a part of the mark: brackets are read one by one.
        left = found.end()
        while left and token.children and token.children[0].type == "text":
            taken = token.children[0].content[:left]
            token.children[0].content = token.children[0].content[left:]
            left -= len(taken)
            if not token.children[0].content:
                token.children.pop(0)
        token.children.insert(0, Token("task", "", 0, content=found[1].lower()))


def add_footnotes(state: StateCore) -> None:
    """The footnotes that the text refers to, at its end, in the order of the references."""
    notes: dict[str, str] = state.env.get("footnotes", {})
    numbers: dict[str, int] = {}
    for token in state.tokens:
        for child in token.children or ():
            if child.type == "footnote_reference":
                child.meta["number"] = numbers.setdefault(child.content, len(numbers) + 1)
    if not numbers:
        return
    state.tokens.append(Token("footnotes_open", "", 1))
    for name in numbers:
        children: list[Token] = []
        state.md.inline.parse(notes[name].replace("[^", "[ ^"), state.md, state.env, children)
        state.tokens += [
            Token("footnote_open", "", 1),
            Token("inline", "", 0, content=notes[name], children=children),
            Token("footnote_close", "", -1),
        ]
    state.tokens.append(Token("footnotes_close", "", -1))


# Inside a line


def parse_reference(state: StateInline, silent: bool) -> bool:
    """`[^name]`, where this text has the footnote."""
    found = _REFERENCE.match(state.src, state.pos)
    notes: dict[str, str] = state.env.get("footnotes", {})
    if found is None or found[1] not in notes:
        return False
    if not silent:
        token = state.push("footnote_reference", "", 0)
        token.content, token.meta = found[1], {"text": notes[found[1]]}
    state.pos = found.end()
    return True


def parse_embed(state: StateInline, silent: bool) -> bool:
    """`![[picture.png|300]]`, of names that a picture may have."""
    from retriever.serving.web.pictures import PICTURE_SUFFIXES

    found = _EMBED.match(state.src, state.pos)
    if found is None or not found[1].strip().lower().endswith(PICTURE_SUFFIXES):
        return False
    if not silent:
        token = state.push("embed", "", 0)
        token.content = found[1].strip()
    state.pos = found.end()
    return True


def parse_math(state: StateInline, silent: bool) -> bool:
    """`$x^2$` and `$$x^2$$`; a price is none: no blank inside the marks, no digit behind them (as Pandoc reads it)."""
    source, start = state.src, state.pos
    if not source.startswith("$", start):
        return False
    mark = "$$" if source.startswith("$$", start) else "$"
    begin = start + len(mark)
    end = source.find(mark, begin, begin + MAX_MATH_CHARS)
    while end > begin and source[end - 1] == "\\":
        end = source.find(mark, end + 1, begin + MAX_MATH_CHARS)
    if end <= begin:
        return False
    inside, behind = source[begin:end], source[end + len(mark) : end + len(mark) + 1]
    if inside[0].isspace() or inside[-1].isspace() or behind.isdigit() or "\n\n" in inside:
        return False
    if not silent:
        token = state.push("math", "", 0)
        token.content = inside
    state.pos = end + len(mark)
    return True


# Formulas.

MAX_DEPTH = 12

_TOKEN = re.compile(r"\\[A-Za-z]+\*?|\\.|[{}^_&~']|[ \t\n]+|[^\\{}^_&~' \t\n]", re.DOTALL)

# HTML has most of LaTeX's names, from the same old lists; these it has not, or for another sign.
SYMBOLS = {
    "cdot": "\u00b7", "circ": "\u2218", "star": "\u22c6", "ast": "\u2217", "neq": "\u2260", "infty": "\u221e",
    "partial": "\u2202", "exists": "\u2203", "to": "\u2192", "iff": "\u21d4", "implies": "\u21d2", "ldots": "\u2026",
    "dots": "\u2026", "cdots": "\u22ef", "ddots": "\u22f1", "vdots": "\u22ee", "neg": "\u00ac", "lnot": "\u00ac",
    "land": "\u2227", "lor": "\u2228", "epsilon": "\u03f5", "varepsilon": "\u03b5", "phi": "\u03d5", "varphi": "\u03c6",
    "degree": "\u00b0", "iint": "\u222c", "oint": "\u222e", "gets": "\u2190", "gg": "\u226b", "ll": "\u226a",
}  # fmt: skip
# Names of functions, which are read as words.
NAMES = frozenset(
    ("sin", "cos", "tan", "log", "ln", "exp", "lim", "max", "min", "sup", "inf", "arg", "det", "dim", "gcd")
)
# What only arranges.
PASSED = frozenset(("left", "right", "big", "Big", "bigl", "bigr", "displaystyle", "textstyle", "limits", "nolimits"))
# What says how its argument is set.
WORDS = frozenset(
    ("text", "textrm", "textbf", "mathrm", "mathbf", "mathit", "mathsf", "mathcal", "mathbb", "operatorname")
)
ACCENTS = {"hat": "\u0302", "bar": "\u0304", "overline": "\u0304", "tilde": "\u0303", "vec": "\u20d7", "dot": "\u0307"}
SPACES = {"\\,": " ", "\\;": " ", "\\:": " ", "\\!": "", "\\ ": " ", "\\\\": "<br>", "\\quad": " ", "\\qquad": " "}
PLAIN = {"&": " ", "~": " ", "'": "\u2032", "-": "\u2212"}


class _UnknownError(Exception):
    """Something that this does not know."""


def write_formula(latex: str) -> str | None:
    """A formula as HTML of text, `sup`, `sub` and `br`; None where it has something that this does not know."""
    tokens = _TOKEN.findall(latex)
    try:
        html, end = _read(tokens, 0, 0)
    except (_UnknownError, IndexError):
        return None
    return html.strip() if end == len(tokens) and html.strip() else None


def _read(tokens: list[str], place: int, depth: int) -> tuple[str, int]:
    """What stands up to the end, or up to the brace that closes; and the place of that."""
    if depth > MAX_DEPTH:
        raise _UnknownError
    pieces: list[str] = []
    while place < len(tokens) and tokens[place] != "}":
        if tokens[place] in ("^", "_"):
            name = "sup" if tokens[place] == "^" else "sub"
            inside, place = _read_argument(tokens, place + 1, depth)
            pieces.append(f"<{name}>{inside}</{name}>")
        else:
            piece, place = _read_one(tokens, place, depth)
            pieces.append(piece)
    return "".join(pieces), place


def _read_argument(tokens: list[str], place: int, depth: int) -> tuple[str, int]:
    """What a command or a mark applies to: a group in braces, else the next sign."""
    while tokens[place].isspace():
        place += 1
    if tokens[place] in ("^", "_", "}"):
        raise _UnknownError
    return _read_one(tokens, place, depth)


def _read_one(tokens: list[str], place: int, depth: int) -> tuple[str, int]:
    token = tokens[place]
    if token == "{":
        inside, end = _read(tokens, place + 1, depth + 1)
        if end >= len(tokens):
            raise _UnknownError
        return inside, end + 1
    if token.startswith("\\"):
        return _read_command(tokens, place, depth + 1)
    plain = PLAIN.get(token, " " if token.isspace() else escape(token))
    return plain, place + 1


def _read_command(tokens: list[str], place: int, depth: int) -> tuple[str, int]:
    token, name = tokens[place], tokens[place][1:]
    place += 1
    if depth > MAX_DEPTH:
        raise _UnknownError
    if token in SPACES:
        return SPACES[token], place
    if name in PASSED:  # `\\right.` closes nothing
        return "", place + (name in ("left", "right") and tokens[place] == ".")
    if name in WORDS or name in ACCENTS or name in ("frac", "dfrac", "tfrac", "sqrt"):
        inside, place = _read_argument(tokens, place, depth)
        if "frac" in name:
            below, place = _read_argument(tokens, place, depth)
            return f"{_bracket(inside)}/{_bracket(below)}", place
        if name in ACCENTS:
            return f"{_bracket(inside)}{ACCENTS[name]}", place
        return (f"\u221a{_bracket(inside)}" if name == "sqrt" else inside), place
    sign = f" {name} " if name in NAMES else SYMBOLS.get(name) or html5.get(f"{name};")
    if sign is None and not name.isalnum():  # an escaped sign
        sign = "\u2016" if name == "|" else name
    if sign is None:
        raise _UnknownError
    return escape(sign), place


def _bracket(html: str) -> str:
    """In brackets, unless it is one word."""
    text = html.strip()
    return text if text.isalnum() else f"({text})"
