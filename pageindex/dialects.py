"""The dialects of Markdown: what each reads beside CommonMark; `markers.py` knows them by their files.

Everything is read as CommonMark with what GitHub adds (tables, footnotes, strikethrough, math) and with wikilinks. What
the programs that make sites add is read only in the folders of such a site: elsewhere `^k`, `{{ x }}` and `%%` are
words of somebody's text. Their rules are markdown-it's, so that what none of them understands stays as it is written.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache

from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock
from markdown_it.rules_block.html_block import html_block
from markdown_it.rules_inline import StateInline
from markdown_it.rules_inline.html_inline import html_inline
from mdit_py_plugins.attrs import attrs_plugin
from mdit_py_plugins.deflist import deflist_plugin
from mdit_py_plugins.dollarmath import dollarmath_plugin
from mdit_py_plugins.dollarmath.index import math_inline_dollar
from mdit_py_plugins.footnote import footnote_plugin
from mdit_py_plugins.myst_blocks import myst_block_plugin
from mdit_py_plugins.myst_role import myst_role_plugin

from pageindex import rules
from pageindex.formats import find_ending

MAX_NESTING = 50  # levels that are opened: a quote is one, a list two; what is deeper is left out

Plugin = Callable[[MarkdownIt], None]


@dataclass(frozen=True)
class Dialect:
    """The Markdown of one program: its additions to CommonMark."""

    name: str
    plugins: tuple[Plugin, ...] = ()
    """Rules of markdown-it."""
    hides: tuple[tuple[str, str], ...] = ()
    """The beginning and the end of a text that no page shows."""
    components: bool = False
    """Whether `<Tab title="npm">` is a component: elsewhere it is text, as `Vec<T>` is."""
    unfold: Callable[[str], str] = str
    """Makes of an outline, line by line, what is read in its place."""
    hides_in_code: str = ""
    """The beginning of a line of code that a program replaces by a file; empty where none does."""


COMMONMARK = Dialect("commonmark")
_MDX = Dialect(
    "mdx",
    plugins=(
        rules.read_components,
        rules.indent_freely,
        rules.containers(":"),
        rules.hide_lines("import ", "export ", to_blank=True),
    ),
    hides=(("{/*", "*/}"),),
    components=True,
)
_QUARTO = Dialect(
    "quarto",
    plugins=(rules.containers(":"), attrs_plugin, deflist_plugin),
    hides=(("{{<", ">}}"),),
)
_OF_ENDINGS = {".mdx": _MDX, ".qmd": _QUARTO}

DIALECTS = (
    COMMONMARK,
    Dialect(
        "obsidian",
        plugins=(rules.read_marks, rules.hide_block_ids),
        hides=(("%%", "%%"),),
    ),
    Dialect("logseq", unfold=rules.unfold_outline),
    Dialect(
        "mkdocs",
        plugins=(
            rules.read_indented_containers,
            rules.containers("/"),
            rules.read_marks,
            rules.hide_lines("{:", "{.", "{#", "[TOC]"),
            rules.hide_lines("{*", "{!", "--8<--", "::: ", kind="include"),
            attrs_plugin,
            deflist_plugin,
        ),
        hides=(("{%", "%}"),),
    ),
    Dialect(
        "mdbook",
        plugins=(rules.read_components,),  # preprocessors read tags
        hides=(("{{#", "}}"),),
        hides_in_code="{{#",
    ),
    Dialect(
        "myst",
        plugins=(
            rules.containers(":", "`", "~"),
            myst_block_plugin,
            myst_role_plugin,
            rules.hide_lines("{.", "{#"),
            attrs_plugin,
            deflist_plugin,
        ),
    ),
    Dialect(
        "hugo",
        plugins=(rules.read_code_tags, rules.hide_lines("{.", "{#", "{style="), deflist_plugin),
        hides=(("{{<", ">}}"), ("{{%", "%}}")),
    ),
    Dialect(
        "jekyll",
        plugins=(rules.read_code_tags, rules.hide_lines("{:"), deflist_plugin),
        hides=(("{%", "%}"), ("{{", "}}")),
    ),
    replace(_MDX, name="docusaurus"),
    _QUARTO,
    Dialect(
        "vitepress",
        plugins=(
            rules.containers(":"),
            rules.read_components,
            rules.indent_freely,
            rules.read_marks,
            rules.hide_lines("[[toc]]", "<<<"),
        ),
        hides=(("{{", "}}"),),
        components=True,
    ),
    _MDX,
)
NAMES = tuple(dialect.name for dialect in DIALECTS)


def get_dialect(name: str, path: str = "") -> Dialect:
    """Return the dialect of that name; in a folder without one that of the file's ending, such as `.mdx`.

    Raises:
        KeyError: there is no such dialect.
    """
    dialect = {dialect.name: dialect for dialect in DIALECTS}[name]
    return _OF_ENDINGS.get(find_ending(path), dialect) if dialect is COMMONMARK else dialect


@cache
def open_parser(dialect: Dialect) -> MarkdownIt:
    """Return markdown-it as an index reads documents of a dialect, made once."""
    return add_rules(rules.PlainAddresses("commonmark", {"maxNesting": MAX_NESTING}), dialect)


def add_rules(parser: MarkdownIt, dialect: Dialect) -> MarkdownIt:
    """Return a parser of CommonMark with what all dialects have, and what this one has."""
    parser.enable(["table", "strikethrough"])
    parser.block.ruler.at("lheading", rules.read_underlined)
    parser.use(footnote_plugin, inline=False, move_to_end=False)
    parser.use(dollarmath_plugin, allow_labels=False, allow_blank_lines=False)
    formula = math_inline_dollar(allow_space=False, allow_digits=False, allow_double=True)
    parser.inline.ruler.at("math_inline", rules.keep_words(formula))
    parser.inline.ruler.before("link", "wikilink", rules.parse_wikilink)
    parser.use(rules.hide_lines("[//]:"))  # people's way to comment
    if not dialect.components:
        parser.block.ruler.at("html_block", _only_known(html_block), {"alt": ["paragraph", "reference", "blockquote"]})
        parser.inline.ruler.at("html_inline", _only_known(html_inline))
    for plugin in dialect.plugins:
        parser.use(plugin)
    for opening, closing in dialect.hides:
        parser.use(rules.hide_between(opening, closing))
    return parser


def _only_known(rule: Callable[..., bool]) -> Callable[..., bool]:
    """Return a rule of HTML that leaves `Vec<Option<T>>` and `<name>` alone: no browser knows such tags."""

    def read(state: StateBlock | StateInline, *place: int) -> bool:
        if isinstance(state, StateInline):
            begin, end = state.pos, state.posMax
        else:
            begin, end = state.bMarks[place[0]] + state.tShift[place[0]], state.eMarks[place[0]]
        is_block = isinstance(state, StateBlock)
        return rules.is_html(state.src, begin, end, closes_later=is_block) and rule(state, *place)

    return read
