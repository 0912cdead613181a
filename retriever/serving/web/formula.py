"""LaTeX's math as text that people read: Greek letters, signs, powers, fractions. What it does not know stays.

No library does this without a script or style of its own in the page, and the page loads nothing from elsewhere.
"""

import re
from html import escape
from html.entities import html5

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
