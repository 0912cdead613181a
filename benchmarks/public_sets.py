"""How well an encoder answers questions that others wrote, over documents that others cut.

    uv run python benchmarks/public_sets.py COOKBOOK                       # with the encoder that the program takes
    uv run python benchmarks/public_sets.py COOKBOOK --model MODEL ...     # each of these beside it

COOKBOOK is a clone of github.com/anthropics/anthropic-cookbook, or a folder with these four of its files:
anthropic_docs.json and docs_evaluation_dataset.json (100 questions on 232 pieces of documentation),
codebase_chunks.json and evaluation_set.jsonl (248 questions on 737 pieces of code). Each piece becomes a file, so
that what is found can be compared with the pieces that the sets call right. The measures are the sets' own: MRR and
recall over the first 3, and Pass@k, the share of the right pieces among the first k. Neither set is trained on.
"""

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from statistics import mean
from tempfile import TemporaryDirectory

sys.path.insert(0, str(Path(__file__).parents[1]))

from retriever import open_retriever
from retriever.evaluation.statistics import difference

Asked = list[tuple[str, frozenset[str]]]
"""Questions, each with the files that answer it."""


def find_file(folder: Path, name: str) -> Path:
    """The file of this name below the folder."""
    found = next(iter(sorted(folder.rglob(name))), None)
    if found is None:
        sys.exit(f"{folder} holds no {name}: clone github.com/anthropics/anthropic-cookbook, and name that folder")
    return found


def make_documentation(cookbook: Path, folder: Path) -> Asked:
    """A file for each piece, in a folder for each page."""
    names: dict[str, str] = {}
    pages: dict[str, str] = {}
    for number, piece in enumerate(json.loads(find_file(cookbook, "anthropic_docs.json").read_text())):
        page = pages.setdefault(piece["chunk_link"].partition("#")[0], f"page{len(pages)}")
        names[piece["chunk_link"]] = f"{page}/{number}.md"
        body = piece["text"].removeprefix(piece["chunk_heading"]).strip()
        write_piece(folder / page / f"{number}.md", piece["chunk_heading"], body)
    asked = json.loads(find_file(cookbook, "docs_evaluation_dataset.json").read_text())
    return [(one["question"], frozenset(names[link] for link in one["correct_chunks"])) for one in asked]


def make_code(cookbook: Path, folder: Path) -> Asked:
    """A file with one code block for each piece, in a folder for each file of code."""
    names = {}
    for file in json.loads(find_file(cookbook, "codebase_chunks.json").read_text()):
        for number, piece in enumerate(file["chunks"]):
            names[file["original_uuid"], number] = name = f"{file['doc_id']}/{number}.md"
            write_piece(folder / name, f"Part {number + 1}", f"~~~~~~~~\n{piece['content']}\n~~~~~~~~")
    asked = [json.loads(line) for line in find_file(cookbook, "evaluation_set.jsonl").read_text().splitlines()]
    return [(one["query"], frozenset(names[uuid, place] for uuid, place in one["golden_chunk_uuids"])) for one in asked]


def write_piece(path: Path, title: str, body: str) -> None:
    """A document of one section."""
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"# {title}\n\n{body}\n", encoding="utf-8")


def ask(folder: Path, asked: Asked, model: str | None) -> list[list[str]]:
    """The files found for each question, best first."""
    settings: dict[str, object] = {"top_k": 20} | ({"encoder": {"model": model}} if model else {})
    with TemporaryDirectory() as place, open_retriever([folder], index=Path(place) / "x", settings=settings) as opened:
        return [list(dict.fromkeys(hit.file for hit in opened.search(question).hits)) for question, _ in asked]


def reciprocal(found: Sequence[str], right: frozenset[str]) -> float:
    """1 / the place of the first right one among the first 3, else 0."""
    return next((1 / place for place, name in enumerate(found[:3], 1) if name in right), 0.0)


def share(found: Sequence[str], right: frozenset[str], k: int) -> float:
    """How many of the right ones are among the first k."""
    return len(right.intersection(found[:k])) / len(right)


def main() -> None:
    """Print a row for each set and measure, a column for each encoder, and whether the last differs from the first."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cookbook", type=Path)
    parser.add_argument("--model", action="append", default=[], help="an encoder beside the program's own")
    args = parser.parse_args()
    models = [None, *args.model]
    print("set            measure     " + "".join(f"{Path(model or 'default').name:>26}" for model in models))
    for name, make in (("documentation", make_documentation), ("code", make_code)):
        with TemporaryDirectory() as place:
            folder = Path(place)
            asked = make(args.cookbook, folder)
            runs = [ask(folder, asked, model) for model in models]
        measures: dict[str, Callable[[Sequence[str], frozenset[str]], float]] = (
            {"MRR@3": reciprocal} if name == "documentation" else {}
        )
        measures |= {f"Pass@{k}": partial(share, k=k) for k in (3, 5, 10, 20)}
        for measure, score in measures.items():
            scores = [[score(found, right) for found, (_, right) in zip(run, asked, strict=True)] for run in runs]
            row = f"{name:14} {measure:10}  {mean(scores[0]):26.3f}"
            for other in scores[1:]:
                change = difference(other, scores[0])
                row += f"{mean(other):9.3f} {change.mean:+.3f} p={change.p:.3f}".rjust(26)
            print(row)


if __name__ == "__main__":
    main()
