"""Is a text on one line answered as the same text in paragraphs is? Many note programs write each paragraph on one.

    uv run python benchmarks/flattened.py benchmarks/data/lines.jsonl benchmarks/data/lines

The paragraphs of each section become one line; headings, lists, tables and code stay. Printed: how often both have the
same verdict, and how often the text of the first hit holds a sentence that answers, of questions about paragraphs.
"""

import argparse
import json
import shutil
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pageindex.blocks import BlockKind, read_blocks
from retriever import open_retriever


def main(arguments: Sequence[str] | None = None) -> None:
    """Ask each question of both kinds of files and print the counts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("questions", type=Path)
    parser.add_argument("documents", type=Path, help="a folder with one folder for each corpus")
    given = parser.parse_args(arguments)
    asked = [json.loads(line) for line in given.questions.read_text(encoding="utf-8").splitlines()]
    asked = [item for item in asked if item["kind"] == "none" or is_prose(given.documents, item)]
    verdicts: Counter[tuple[str, str]] = Counter()
    held = [0, 0]
    with tempfile.TemporaryDirectory() as folder:
        for corpus in dict.fromkeys(item["corpus"] for item in asked):
            flat = Path(folder) / corpus
            shutil.copytree(given.documents / corpus, flat)
            for file in flat.rglob("*.md"):
                file.write_text(flatten(file.read_text(encoding="utf-8")), encoding="utf-8")
            own = [item for item in asked if item["corpus"] == corpus]
            answers = [
                ask(docs, own, Path(folder) / f"{corpus}-{docs.parent.name}")
                for docs in (given.documents / corpus, flat)
            ]
            for item, *pair in zip(own, *answers, strict=True):
                verdicts[pair[0][0], pair[1][0]] += 1
                for place, (_, text) in enumerate(pair):
                    held[place] += item["kind"] != "none" and holds(given.documents, item, text)
    total, same = sum(verdicts.values()), sum(count for (one, other), count in verdicts.items() if one == other)
    print(f"{total} questions; the same verdict {same / total:.3f}")
    for (one, other), count in verdicts.most_common():
        print(f"  {one} in paragraphs, {other} on one line: {count}")
    print(f"the text of the first hit holds the answer: {held[0]} in paragraphs, {held[1]} on one line")


def is_prose(documents: Path, item: dict[str, Any]) -> bool:
    """Return whether a paragraph answers a question."""
    text = (documents / str(item["corpus"]) / str(item["file"])).read_text(encoding="utf-8")
    first, last = item["lines"]
    return any(
        block.kind is BlockKind.PARAGRAPH and block.first <= last and first <= block.last for block in read_blocks(text)
    )


def flatten(text: str) -> str:
    """Return a text with neighboring paragraphs on one line."""
    lines, made = text.split("\n"), list[str]()
    blocks = read_blocks(text)
    for number, block in enumerate(blocks):
        above = blocks[number - 1] if number else None
        own = lines[block.first - 1 : block.last]
        if block.kind is BlockKind.PARAGRAPH and above is not None and above.kind is BlockKind.PARAGRAPH:
            made[-2] += " " + " ".join(map(str.strip, own))
        else:
            made += [" ".join(map(str.strip, own)), ""] if block.kind is BlockKind.PARAGRAPH else [*own, ""]
    return "\n".join(made)


def ask(docs: Path, questions: Sequence[dict[str, Any]], index: Path) -> list[tuple[str, str]]:
    """Return (verdict, text of the first hit) of each question."""
    with open_retriever([docs], index) as retriever:
        answers = [retriever.search(item["question"]) for item in questions]
    return [(answer.verdict, answer.hits[0].text if answer.hits else "") for answer in answers]


def holds(documents: Path, item: dict[str, Any], text: str) -> bool:
    """Return whether a text holds the words of the first line that answers, one after another."""
    lines = (documents / str(item["corpus"]) / str(item["file"])).read_text(encoding="utf-8").split("\n")
    first, _ = item["lines"]
    return " ".join(lines[first - 1].split()) in " ".join(text.split())


if __name__ == "__main__":
    main()
