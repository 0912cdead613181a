r"""Words of a question that the documents lack: everyday ones of five languages must stay, typos must be corrected.

    uv run python benchmarks/words.py fastapi:../shared/eval/corpora/fastapi rustbook:../shared/eval/corpora/rustbook

NAME:FOLDER for each set of documents; those of tests/data/languages, in German, French and Spanish, come besides. The
words and the typos are tests/data/words.json: two hundred words of each language, and what is wrong by a letter or two.
Counted are words that become another one, and typos that become what was meant, of those that the documents lack, and
hold. Each is asked alone, where nothing says which language it is in.
"""

import json
import sqlite3
import sys
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from pageindex.corpus import list_files, read_document
from pageindex.document import parse_document
from retriever.lexical.spelling import Spellings, correct, write_words
from retriever.lexical.tokens import remove_accents
from retriever.store.database import FileConnection, make_schema
from retriever.store.writing import NODE_BITS

DATA = Path(__file__).parents[1] / "tests" / "data"
NOTES = {"German notes": ("de", "german"), "French notes": ("fr", "french"), "Spanish notes": ("es", "spanish")}


def count_changed(words: Sequence[str], spellings: Spellings, documents: tuple[str, ...]) -> tuple[list[str], int]:
    """Return the words that become another one, with that, and how many the documents lack."""
    lacking = [word for word in words if not spellings.holds(word.lower())]
    corrected = [item for word in lacking for item in correct(word, spellings, documents).corrections]
    return [f"{item.wrote} > {item.searched}" for item in corrected], len(lacking)


def count_corrected(
    typos: Sequence[tuple[str, str]], spellings: Spellings, documents: tuple[str, ...]
) -> tuple[int, int]:
    """Return how many typos become what was meant, and of how many the documents hold that."""
    held = [(wrote, meant) for wrote, meant in typos if spellings.holds(meant.lower())]
    found = [(correct(wrote, spellings, documents).text, meant) for wrote, meant in held]
    return sum(remove_accents(text) == remove_accents(meant.lower()) for text, meant in found), len(held)


def measure(name: str, folder: Path, documents: tuple[str, ...], sets: Mapping[str, Mapping[str, list]]) -> None:  # type: ignore[type-arg]  # as JSON has it
    """Print the row of some documents, then what was changed."""
    parsed = [parse_document(file.path, read_document(file).text) for file in list_files(folder).files]
    nodes = [placed.node for document in parsed for placed in document.nodes]
    texts = {key << NODE_BITS: f"{node.title}\n{node.body}" for key, node in enumerate(nodes)}
    with closing(sqlite3.connect(":memory:", factory=FileConnection)) as connection:
        make_schema(connection)
        write_words(connection, texts)
        spellings = Spellings(connection)
        changed = [count_changed(words, spellings, documents) for words in sets["words"].values()]
        pairs = [pair for typos in sets["typos"].values() for pair in typos]
        corrected, held = count_corrected(pairs, spellings, documents)
    cells = [f"{len(own)} of {lacking}" for own, lacking in changed]
    listed = ", ".join(word for own, _ in changed for word in own)
    print(f"| {name} | {' | '.join(cells)} | {corrected} of {held} | {listed} |")


def main(arguments: Sequence[str]) -> None:
    """Print the table."""
    sets = json.loads((DATA / "words.json").read_text(encoding="utf-8"))
    print(f"| documents | {' | '.join(f'{name}: changed' for name in sets['words'])} | typos corrected | changed |")
    print("|---" * (len(sets["words"]) + 3) + "|")
    for name, folder in (argument.split(":", 1) for argument in arguments):
        measure(name, Path(folder), (), sets)
    for name, (code, language) in NOTES.items():
        measure(name, DATA / "languages" / code, (language,), sets)


if __name__ == "__main__":
    main(sys.argv[1:])
