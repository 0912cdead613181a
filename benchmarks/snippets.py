"""Counts the snippets that show Markdown's source: a figure of docs/searching.md.

    uv run python benchmarks/snippets.py ../shared/eval/corpora

Cuts the documents into pieces of about 500 characters and makes a snippet of every fifth, for three of its words.
"""

import random
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from retriever.lexical.tokens import tokenize
from retriever.text import snippet

# Marks of links, emphasis, tables, code, HTML, templates, callouts and footnotes.
SOURCE = re.compile(
    r"\]\(|\*\*\S|\| *\||\|[-:]{2,}|```|</?[a-zA-Z][\w-]*[^<>]*>|\{%|\{\{|:::|^!!!|\[!\w+\]|<!--|\[\^|&[a-z]+;|\{[.#]\w"
)
CODE = re.compile(r"```.*?```|`[^`\n]*`", re.DOTALL)
PIECE_CHARS = 500


def cut_pieces(text: str) -> Iterator[str]:
    """The paragraphs, as many together as make a piece; none that ends inside of code."""
    piece: list[str] = []
    for paragraph in text.split("\n\n"):
        piece.append(paragraph)
        whole = "\n\n".join(piece)
        if len(whole) >= PIECE_CHARS and whole.count("```") % 2 == 0:
            yield whole
            piece.clear()


def main() -> None:
    """Prints how many snippets were made, how many show source, and which."""
    chance, made, shown = random.Random(1), 0, Counter[str]()
    for path in sorted(Path(sys.argv[1]).rglob("*.md")):
        for piece in cut_pieces(path.read_text(encoding="utf-8", errors="replace")):
            words = sorted(set(tokenize(piece)))
            if chance.random() < 0.8 or len(words) < 3:
                continue
            made += 1
            code = "".join(CODE.findall(piece))  # it is shown as it stands
            marks = [mark[0] for mark in SOURCE.finditer(snippet(piece, chance.sample(words, 3), tokenize))]
            shown.update(next(([mark] for mark in marks if mark not in code), []))
    print(f"{made} snippets, {shown.total()} show source ({shown.total() / made:.1%}): {shown.most_common(8)}")


if __name__ == "__main__":
    main()
