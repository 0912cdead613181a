"""Times what reads documents on the worst of them: the table of docs/internals/reliability.md.

    uv run python benchmarks/hostile.py [--only WORD] [--scale N]

Each case is timed at its size and at four times that. The ratio is of the times for each character: about 1 where time
is linear in the input, 4 where it is its square. CPU time, the least of three runs; what remembers words or patterns
forgets them before each.
"""

import re
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import click

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from pageindex.blocks import read_blocks
from pageindex.corpus import IgnoreRules, read_ignore_file
from pageindex.document import parse_document
from pageindex.front_matter import read_front_matter
from pageindex.node import Node
from pageindex.units import read_units
from retriever.display import find_highlights, sanitize
from retriever.embedding.encoder import bundled_tokens
from retriever.indexing.chunk import chunk_nodes
from retriever.lexical.tokens import _terms, tokenize
from retriever.serving.section_html import RenderOptions, render_markdown

RATIO = 4
SUSPICIOUS = 1.6
"""Above it a row is marked: noise of a shared machine stays below."""
ENOUGH_S = 2.0
"""No further run of a case that took so long."""
LEAST_S = 0.001
"""The shortest time that the clock can tell."""
WORDS = frozenset({"zebra", "stripe"})


@dataclass(frozen=True)
class Case:
    """One worst case."""

    stage: str
    """A key of STAGES."""
    what: str
    """The input, for people."""
    size: int
    """How often its part is repeated, the first time."""
    text: Callable[[int], str]
    """The input of a size."""


def read(text: str) -> object:
    """Turn a text into a tree: front matter, blocks, sections, links, summaries."""
    return parse_document("a.md", text)


def chunk(text: str) -> object:
    """Turn a text into a tree and that into chunks, with the bundled model's tokenizer."""
    nodes: list[Node] = [placed.node for placed in parse_document("a.md", text).nodes]
    return chunk_nodes(nodes, bundled_tokens().count)


def ignore(text: str) -> object:
    """Match a long name against a .gitignore."""
    spec, _ = read_ignore_file(text)
    return IgnoreRules().below("", spec).ignores("a" * 250 + ".md")


def show(text: str) -> object:
    """Make what is shown of a text: its units, its marks, its signs."""
    return [*read_units(read_blocks(text))], find_highlights(text, WORDS), sanitize(text)


STAGES: dict[str, Callable[[str], object]] = {
    "read": read,
    "chunk": chunk,
    "front matter": read_front_matter,
    "words": tokenize,
    "ignore": ignore,
    "show": show,
    "web page": lambda text: render_markdown(text, RenderOptions()),
}

CASES = [
    Case("read", "open brackets", 100_000, lambda n: "[" * n),
    Case("read", "open brackets in lines", 50_000, lambda n: "[\n" * n),
    Case("read", "open brackets of images", 50_000, lambda n: "![" * n),
    Case("read", "closed brackets", 50_000, lambda n: "[]" * n),
    Case("read", "nested brackets", 20_000, lambda n: "[" * n + "]" * n),
    Case("read", "nested links", 20_000, lambda n: "[" * n + "](b)" * n),
    Case("read", "stars", 40_000, lambda n: "*a **a " * n),
    Case("read", "stars in a heading", 40_000, lambda n: "# " + "*a **a " * n),
    Case("read", "runs of backticks, each longer", 500, lambda n: "".join("`" * k + " " for k in range(1, n))),
    Case("read", "backticks", 40_000, lambda n: "[a](" + "` `` " * n),
    Case("read", "tags without an end", 50_000, lambda n: "<a " * n),
    Case("read", "comments without an end", 50_000, lambda n: "<!-- " * n),
    Case("read", "comments", 50_000, lambda n: "<!-- -->" * n),
    Case("read", "lone carriage returns, read as line ends", 500_000, lambda n: "\n" * n),
    Case("read", "quotes in one line", 100_000, lambda n: ">" * n + " x"),
    Case(
        "read",
        "quotes of 200 levels and lines that continue them",
        20_000,
        lambda n: ">" * 200 + " x\n" + "a\n" * n,
    ),
    Case("read", "lists in one line", 20_000, lambda n: "- " * n + "x"),
    Case("read", "list items", 50_000, lambda n: "- a\n" * n),
    Case("read", "list items with blank lines", 30_000, lambda n: "- a\n\n" * n),
    Case("read", "list items of two paragraphs", 20_000, lambda n: "- a\n\n  b\n" * n),
    Case("read", "ordered items", 30_000, lambda n: "1. a\n" * n),
    Case("read", "headings", 20_000, lambda n: "# a\n" * n),
    Case("read", "headings of six levels", 10_000, lambda n: "# a\n###### b\n" * n),
    Case("read", "underlined headings", 20_000, lambda n: "a\n=\n" * n),
    Case("read", "a paragraph of many lines", 50_000, lambda n: "a\n" * n),
    Case("read", "a paragraph of many links", 30_000, lambda n: "[a](b.md) " * n),
    Case("read", "wikilinks", 30_000, lambda n: "[[a|b]] " * n),
    Case("read", "wikilinks without an end", 50_000, lambda n: "[[a|" * n),
    Case("read", "links without an end", 50_000, lambda n: "[a](<" * n),
    Case("read", "destinations without an end", 50_000, lambda n: "[a](b" * n),
    Case("read", "titles without an end", 50_000, lambda n: '[a](b "' * n),
    Case("read", "titles in parentheses", 50_000, lambda n: "[a](b (" * n),
    Case("read", "destinations with parentheses", 50_000, lambda n: "[a](" + "(" * n + ")" * n),
    Case("read", "definitions", 10_000, lambda n: "".join(f"[a{k}]: b\n" for k in range(n))),
    Case("read", "definitions without an end", 10_000, lambda n: '[a]: b "\n' * n),
    Case("read", "definitions whose label does not end", 30_000, lambda n: "[a\n" * n),
    Case("read", "uses of a definition", 30_000, lambda n: "[a]: b\n\n" + "[a] " * n),
    Case("read", "a table of many columns", 20_000, lambda n: "|a" * n + "|\n"),
    Case("read", "rows of a table", 20_000, lambda n: "|a|b|\n|-|-|\n" + "|a|b|\n" * n),
    Case("read", "fences", 20_000, lambda n: "```\na\n```\n" * n),
    Case("read", "a fence without an end", 50_000, lambda n: "```\n" + "# a\n" * n),
    Case("read", "a script without an end", 30_000, lambda n: "<script>\n" + "# a\n\n" * n),
    Case("read", "HTML blocks", 20_000, lambda n: "<div>\n\n" * n),
    Case("read", "rules", 30_000, lambda n: "- - -\n" * n),
    Case("read", "dashes in a line", 50_000, lambda n: "- " * n + "- -"),
    Case("read", "stars and spaces in a line", 50_000, lambda n: "* " * n + "x"),
    Case("read", "underscores and spaces in a line", 50_000, lambda n: "_ " * n + "x"),
    Case("read", "spaces in a heading", 100_000, lambda n: "# a" + " " * n + "b"),
    Case("read", "spaces in prose", 100_000, lambda n: "a." + " " * n + "b"),
    Case("read", "tabs and spaces in lines", 30_000, lambda n: " \t a\n" * n),
    Case("read", "ends of sentences", 50_000, lambda n: "a. " * n),
    Case("read", "quotes after an end of a sentence", 100_000, lambda n: "a." + '"' * n + "b"),
    Case("read", "attributes", 50_000, lambda n: "# a " + "{#a}" * n),
    Case("read", "braces", 100_000, lambda n: "# a" + "{" * n + "}"),
    Case("read", "repeats of one slug", 10_000, lambda n: "# a-1\n# a\n" * n),
    Case(
        "read",
        "headings that take one another's anchor",
        10_000,
        lambda n: "".join(f"# a\n# a-{k}\n" for k in range(n)),
    ),
    Case("read", "backslashes", 100_000, lambda n: "\\" * n + "`[a]"),
    Case("read", "backslashes and backticks", 50_000, lambda n: "\\`" * n),
    Case("read", "callouts", 20_000, lambda n: "> [!a]\n" * n),
    Case("read", "colons and dashes", 50_000, lambda n: ":-|" * n),
    Case("read", "one long word", 1_000_000, lambda n: "a" * n),
    Case("chunk", "one long line", 200_000, lambda n: "x" * n),
    Case("chunk", "one line of words", 40_000, lambda n: "word " * n),
    Case("chunk", "blank lines", 500_000, lambda n: "\n" * n),
    Case("chunk", "blank lines between two words", 200_000, lambda n: "a" + "\n" * n + "b"),
    Case("chunk", "list items", 20_000, lambda n: "- a\n" * n),
    Case("chunk", "list items, each deeper", 150, lambda n: "".join("  " * k + "- x\n" for k in range(n))),
    Case("chunk", "rows of a table", 20_000, lambda n: "|a|b|\n|-|-|\n" + "|a|b|\n" * n),
    Case("chunk", "a table of many columns", 10_000, lambda n: "|a" * n + "|\n"),
    Case("chunk", "a paragraph of many lines", 20_000, lambda n: "a\n" * n),
    Case("chunk", "sentences", 30_000, lambda n: "a. " * n),
    Case("chunk", "code of many lines", 20_000, lambda n: "```\n" + "a\n" * n),
    Case("chunk", "code with blank lines", 20_000, lambda n: "```\n" + "a\n\n" * n),
    Case("chunk", "stars", 20_000, lambda n: "*a **a " * n),
    Case("chunk", "open brackets", 50_000, lambda n: "[" * n),
    Case("chunk", "signs of tags", 50_000, lambda n: "<" * n),
    Case("chunk", "headings", 5_000, lambda n: "# a\n" * n),
    Case("chunk", "a heading of many words", 20_000, lambda n: "# " + "word " * n),
    Case("chunk", "definitions", 5_000, lambda n: "".join(f"[a{k}]: b\n" for k in range(n))),
    Case("chunk", "quotes in one line", 50_000, lambda n: ">" * n + " x"),
    Case("chunk", "ideographs", 20_000, lambda n: "\u4f60\u597d" * n),
    Case("chunk", "combining marks", 30_000, lambda n: "a\u0301" * n),
    Case("front matter", "keys", 1_000, lambda n: "---\n" + "".join(f"a{k}: b\n" for k in range(n)) + "---\n"),
    Case("front matter", "items in brackets", 7_000, lambda n: "---\na: [" + "a," * n + "]\n---\n"),
    Case("front matter", "open brackets", 15_000, lambda n: "---\na: " + "[" * n + "\n---\n"),
    Case("front matter", "items", 3_500, lambda n: "---\na:\n" + "- a\n" * n + "---\n"),
    Case("front matter", "spaces in a quotation", 15_000, lambda n: '---\na: "' + " " * n + '"\n---\n'),
    Case("front matter", "folded lines", 3_000, lambda n: "---\na: >\n" + "  a\n\n" * n + "---\n"),
    Case("front matter", "no closing line", 50_000, lambda n: "---\n" + "--- a\n" * n),
    Case("front matter", "spaces before a colon", 7_000, lambda n: "---\n" + "a " * n + ": b\n---\n"),
    Case("front matter", "question marks", 1_200, lambda n: "---\n" + "".join(f"? a{k}\n" for k in range(n)) + "---\n"),
    Case("front matter", "keys of TOML", 1_300, lambda n: "+++\n" + "".join(f"a{k} = 1\n" for k in range(n)) + "+++\n"),
    Case("front matter", "tables of TOML", 1_500, lambda n: "+++\n" + "".join(f"[a{k}]\n" for k in range(n)) + "+++\n"),
    Case(
        "front matter",
        "dotted tables of TOML",
        120,
        lambda n: (
            "+++\n"
            + "".join(
                f"[a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a{k}]\n"
                for k in range(n)
            )
            + "+++\n"
        ),
    ),
    Case("front matter", "arrays of tables of TOML", 2_500, lambda n: "+++\n" + "[[a]]\n" * n + "+++\n"),
    Case("front matter", "strings of TOML", 7_000, lambda n: '+++\na = "' + "\\\\" * n + '"\n+++\n'),
    Case("words", "dots between letters", 50_000, lambda n: "a." * n),
    Case("words", "dots", 200_000, lambda n: "." * n),
    Case("words", "humps", 50_000, lambda n: "aB" * n),
    Case("words", "capitals and an s", 50_000, lambda n: "As" * n),
    Case("words", "digits and letters", 50_000, lambda n: "1a" * n),
    Case("words", "ideographs", 100_000, lambda n: "\u4f60" * n),
    Case("words", "ideographs and letters", 50_000, lambda n: "\u4f60a" * n),
    Case("words", "combining marks", 100_000, lambda n: "a" + "\u0301" * n),
    Case("words", "ligatures that become many letters", 30_000, lambda n: "\ufdfa" * n),
    Case("words", "invisible characters", 50_000, lambda n: "a\xad" * n),
    Case("words", "different words", 30_000, lambda n: "".join(f"w{k} " for k in range(n))),
    Case("ignore", "patterns", 500, lambda n: "".join(f"a{k}.md\n" for k in range(n))),
    Case("ignore", "patterns with three wildcards", 50, lambda n: "".join(f"*a*a*b{k}\n" for k in range(n))),
    Case("ignore", "question marks", 1_000, lambda n: "?" * n),
    Case("ignore", "brackets", 1_000, lambda n: "[a-" * n),
    Case("ignore", "negations", 500, lambda n: "".join(f"!a{k}\n" for k in range(n))),
    Case("ignore", "stars and slashes", 1_000, lambda n: "*/" * n),
    Case("ignore", "double stars", 1_000, lambda n: "**/" * n),
    Case("ignore", "three stars and a long name", 100, lambda n: "*a*a*b\n" * n),
    Case("show", "words that match", 20_000, lambda n: "zebra " * n),
    Case("show", "sentences that match", 10_000, lambda n: "a zebra. " * n),
    Case("show", "ideographs", 20_000, lambda n: "\u4f60\u597d" * n),
    Case("show", "controls", 40_000, lambda n: "\x1b[31m" * n),
    Case("show", "open brackets", 100_000, lambda n: "[" * n),
    Case("show", "stars", 30_000, lambda n: "*a **a " * n),
    Case("show", "images", 30_000, lambda n: "![a](b" * n),
    Case("show", "bars", 100_000, lambda n: "|" * n),
    Case("web page", "open brackets", 20_000, lambda n: "[" * n),
    Case("web page", "stars", 10_000, lambda n: "*a **a " * n),
    Case("web page", "signs of tags", 20_000, lambda n: "<" * n),
    Case("web page", "list items", 10_000, lambda n: "- a\n" * n),
    Case("web page", "rows of a table", 5_000, lambda n: "|a|b|\n|-|-|\n" + "|a|b|\n" * n),
    Case("web page", "quotes in one line", 20_000, lambda n: ">" * n + " x"),
]


@dataclass(frozen=True)
class Timing:
    """The time that a case took."""

    characters: int
    """Of the larger input."""
    seconds: float
    """For the larger one."""
    ratio: float
    """Of the larger one's time for a character to the smaller one's."""


def timed(case: Case, scale: float) -> Timing:
    """Return the least of three runs at both sizes; of one run where it takes long."""
    work = STAGES[case.stage]
    small, large = (case.text(max(1, int(case.size * scale)) * factor) for factor in (1, RATIO))
    first, second = _least(work, small), _least(work, large)
    return Timing(len(large), second, second * len(small) / (max(first, LEAST_S) * len(large)))


def _least(work: Callable[[str], object], text: str) -> float:
    times: list[float] = []
    while len(times) < 3 and sum(times) < ENOUGH_S:
        re.purge()
        _terms.cache_clear()
        begun = time.process_time()
        work(text)
        times.append(time.process_time() - begun)
    return min(times)


def rows(only: str, scale: float) -> Iterator[tuple[Case, Timing]]:
    """Yield each case whose description holds the word, with its times."""
    for case in CASES:
        if only in f"{case.stage} {case.what}":
            yield case, timed(case, scale)


@click.command()
@click.option("--only", default="", help="Cases with this in their stage or name.")
@click.option("--scale", default=1.0, show_default=True, help="Of all sizes.")
def main(only: str, scale: float) -> None:
    """Print the table."""
    for work in STAGES.values():
        work("# warm\n\nup [a](b) zebra.\n")
    sys.stdout.write("| stage | input | characters | seconds | ratio |\n|---|---|---|---|---|\n")
    for case, timing in rows(only, scale):
        mark = " !" if timing.ratio > SUSPICIOUS else ""
        cells = (case.stage, case.what, f"{timing.characters:,}", f"{timing.seconds:.2f}", f"{timing.ratio:.2f}{mark}")
        sys.stdout.write(f"| {' | '.join(cells)} |\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
