"""How large an index is beside its documents, and which part of it takes how much.

    uv run python benchmarks/size.py FOLDER...
    uv run python benchmarks/size.py FOLDER --model models/l12     # with another encoder

Bytes of the Markdown files are 1; all else is printed as a multiple of them.
"""

import argparse
import sqlite3
import sys
from collections import Counter
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

sys.path.insert(0, str(Path(__file__).parents[1]))

from retriever.api import index_folders

PARTS = {"vectors": "vectors", "tokens": "token signs", "nodes": "sections", "chunks": "chunks"}


def measure_parts(index: Path) -> Counter[str]:
    """Bytes by part: the large tables of index.sqlite with their indexes, and the folders of the snapshot."""
    sizes: Counter[str] = Counter()
    with closing(sqlite3.connect(index / "index.sqlite")) as connection:
        tables = "SELECT tbl_name, sum(pgsize) FROM dbstat JOIN sqlite_master USING (name) GROUP BY 1"
        for table, size in connection.execute(tables):
            sizes[PARTS.get(table, "other tables")] += size
    for file in index.glob("snapshot-*/**/*"):
        if file.is_file():
            part = file.relative_to(index).parts[1]
            sizes[{"chroma": "ChromaDB", "lexical": "words", "spellings": "words"}.get(part, "other")] += (
                file.stat().st_size
            )
    return sizes


def main() -> None:
    """Print a table for each folder."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--model", default="", help="an encoder's name or folder")
    args = parser.parse_args()
    for folder in args.folders:
        documents = sum(file.stat().st_size for file in folder.rglob("*.md"))
        with TemporaryDirectory() as place:
            index = Path(place) / "index"
            report = index_folders([folder], index=index, settings={"encoder": {"model": args.model}})
            whole = sum(file.stat().st_size for file in index.rglob("*") if file.is_file())
            print(f"{folder.name}: {documents / 1e6:.2f} MB of Markdown, {report.chunks:,} chunks")
            print(f"  {'whole index':14} {whole / 1e6:7.2f} MB {whole / documents:6.2f} times")
            for part, size in measure_parts(index).most_common():
                print(f"  {part:14} {size / 1e6:7.2f} MB {size / documents:6.2f}")


if __name__ == "__main__":
    main()
