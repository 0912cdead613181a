r"""Where a hit is opened: the lines that it cites beside the line that answers, for questions about one line of a page.

    uv run python benchmarks/passages.py ../shared/eval/corpora/fastapi [--index FOLDER]

benchmarks/passages.jsonl has the questions, each with a line of those documents, most in sections of 25 lines and more.
Of those whose section is among the first five hits: how often the cited lines hold the answer's line, how many lines
are cited, and how often the sentence is of that line; for the section, the chunk that matched, and the passage.
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from statistics import mean

from pageindex.node import Span
from retriever import Hit, open_retriever

QUESTIONS = Path(__file__).with_suffix(".jsonl")


def main(arguments: Sequence[str] | None = None) -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("docs", type=Path)
    parser.add_argument("--index")
    parser.add_argument("--verbose", action="store_true", help="every question with what is cited")
    given = parser.parse_args(arguments)
    asked = [json.loads(line) for line in QUESTIONS.read_text(encoding="utf-8").splitlines()]
    cited: dict[str, list[tuple[bool, int]]] = {"section": [], "chunk": [], "passage": []}
    sentences = []
    with open_retriever([given.docs], given.index, settings={"top_k": 5}) as retriever:
        for item in asked:
            text = (given.docs / item["file"]).read_text(encoding="utf-8")
            wanted = 1 + text[: text.index(item["quote"])].count("\n")
            answer = retriever.search(item["question"])
            hit = next((hit for hit in answer.hits if hit.file == item["file"] and holds(hit.span, wanted)), None)
            if hit is None:
                continue
            for name, span in (("section", hit.span), ("chunk", find_chunk(hit)), ("passage", hit.passage)):
                cited[name].append((holds(span, wanted), len(span)))
            line = text.split("\n")[wanted - 1]
            sentences.append(overlap(hit.sentence, line))
            if given.verbose:
                print(f"{wanted} {hit.citation} in {hit.span} | {item['question']} | {hit.sentence}")
    print(f"{len(sentences)} of {len(asked)} sections among the first five hits")
    for name, found in cited.items():
        right = sum(is_there for is_there, _ in found)
        print(f"{name:<8}{right:>3} hold the line, {mean(length for _, length in found):5.1f} lines cited")
    print(f"sentence{sum(share > 0.5 for share in sentences):>3} are of the line")


def holds(span: Span, line: int) -> bool:
    """Whether it has the line."""
    return span.first <= line <= span.last


def find_chunk(hit: Hit) -> Span:
    """The lines of the chunk that the semantic search found; of the section where it found none."""
    return next((item.matched for item in hit.evidence if item.matched), hit.span)


def overlap(sentence: str, line: str) -> float:
    """The share of the sentence's words that stand in the line."""
    words = sentence.lower().split()
    return mean(word.strip(".,`*") in line.lower() for word in words) if words else 0.0


if __name__ == "__main__":
    main()
