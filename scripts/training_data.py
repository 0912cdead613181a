r"""Cut the documents that the training questions are about into sections and chunks, as the search cuts them.

    uv run scripts/training_data.py DATA --sources FOLDER

`scripts/training/corpora.yaml` names the documents: repository, commit, paths, licence. They are not part of this
project: `scripts/prepare_corpora.py` makes FOLDER/NAME of clones of their repositories, or of those that are wanted.
Writes DATA/sections.jsonl.gz, {id, corpus, crumb, words, text}, and DATA/chunks.jsonl.gz, {sid, text}, and says which
questions have no section there.
"""

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from random import Random

import click
import yaml

from pageindex.document import parse_document
from pageindex.node import Node
from retriever.embedding import bundled_counter
from retriever.indexing.chunk import chunk_nodes
from retriever.settings.schema import ChunkSettings

TRAINING = Path(__file__).parent / "training"


@click.command()
@click.argument("data", type=click.Path(file_okay=False, path_type=Path))
@click.option("--sources", required=True, type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--others", default=600, show_default=True, help="Sections of each corpus beside those with questions.")
def main(data: Path, sources: Path, others: int) -> None:
    """Write sections and chunks of all corpora below SOURCES into the folder DATA."""
    data.mkdir(parents=True, exist_ok=True)
    asked = {json.loads(line)["section"] for path in TRAINING.glob("questions/*.jsonl") for line in path.open()}
    count = bundled_counter()
    with (
        gzip.open(data / "sections.jsonl.gz", "wt", encoding="utf-8") as sections,
        gzip.open(data / "chunks.jsonl.gz", "wt", encoding="utf-8") as chunks,
    ):
        for corpus in yaml.safe_load((TRAINING / "corpora.yaml").read_text(encoding="utf-8")):
            name, folder = corpus["name"], sources / corpus["name"]
            if not folder.is_dir():
                continue
            found = {f"{name}/{node.id}": node for node in read_nodes(folder, corpus["glob"]) if node.body.strip()}
            wanted = {key for key in asked if key.startswith(f"{name}/")}
            rest = sorted(found.keys() - wanted)
            chosen = {*Random(name).sample(rest, min(others, len(rest))), *wanted}
            nodes = [node for key, node in found.items() if key in chosen]
            for node, made in zip(nodes, chunk_nodes(nodes, count, ChunkSettings()), strict=True):
                key = f"{name}/{node.id}"
                crumb = [*node.breadcrumb, node.title]
                row = {"id": key, "corpus": name, "crumb": crumb, "words": len(node.text.split()), "text": node.text}
                sections.write(json.dumps(row, ensure_ascii=False) + "\n")
                for chunk in made:
                    chunks.write(json.dumps({"sid": key, "text": chunk.embedded_text}, ensure_ascii=False) + "\n")
            lost = len(wanted - found.keys())
            print(f"{name}: {len(nodes)} of {len(found)} sections; {len(wanted)} with questions, {lost} of them lost")


def read_nodes(folder: Path, pattern: str) -> Iterator[Node]:
    """Yield the nodes of all documents, in the order of their paths; files that are not UTF-8 are skipped."""
    for path in sorted(folder.glob(pattern)):
        try:
            text = path.read_text(encoding="utf-8")
        except (UnicodeDecodeError, IsADirectoryError):
            continue
        for placed in parse_document(path.relative_to(folder).as_posix(), text).nodes:
            yield placed.node


if __name__ == "__main__":
    main()
