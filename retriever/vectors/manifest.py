"""What stands beside files derived from vectors: the snapshot they are of, checksums; and which of them a search asks.

A module of its own, because it needs neither numpy nor ChromaDB: that nothing has changed is known without them.
"""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal, Self, TypeAlias

from pageindex.files import read_file, require_regular
from retriever.errors import SnapshotError
from retriever.store.manifest import MANIFEST_NAME, MAX_MANIFEST_BYTES, check_contents, check_names

DATABASE_NAME = "chroma.sqlite3"
# Chunks. All vectors of so many are read in 0.15 s by the first question of a process, and compared in 5 ms.
EXACT_UP_TO = 20_000


VectorChoice: TypeAlias = Literal["auto", "exact", "chroma", "hnsw"]
VectorPart: TypeAlias = Literal["signs", "chroma"]
"""A folder of a snapshot that finds what is near without a look at all vectors."""
SIGNS: Final = "signs"
CHROMA: Final = "chroma"


def is_approximate(vector_search: VectorChoice, chunks: int) -> bool:
    """Whether a search by that setting, among so many chunks, looks at fewer than all vectors."""
    return vector_search in ("chroma", "hnsw") or (vector_search == "auto" and chunks > EXACT_UP_TO)


def choose_part(vector_search: VectorChoice, chunks: int) -> VectorPart | None:
    """What such a search asks of a snapshot; None: all vectors."""
    if not is_approximate(vector_search, chunks):
        return None
    return SIGNS if vector_search == "auto" else CHROMA


@dataclass(frozen=True, slots=True)
class VectorsManifest:
    snapshot: str  # the manifest hash of the snapshot whose chunks these are
    fingerprint: str  # of the encoder
    count: int  # how many vectors
    dimension: int  # the length of a vector
    database_bytes: int = 0  # of chroma.sqlite3, which opening changes, but never makes smaller
    # Checksums of the vector files. Below `sync_threshold` vectors there is none: all are in chroma.sqlite3 then.
    files: dict[str, tuple[int, int]] = field(default_factory=dict)

    @classmethod
    def read(cls, folder: Path) -> Self:
        """The manifest; SnapshotError when it is damaged, or missing because the folder was not finished."""
        try:
            values = json.loads(read_file(folder / MANIFEST_NAME, MAX_MANIFEST_BYTES))
            found = cls(
                str(values["snapshot"]),
                str(values["fingerprint"]),
                int(values["count"]),
                int(values["dimension"]),
                int(values["database_bytes"]),
                dict(values["files"]),
            )
            check_names(found.files)
        except (OSError, ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
            raise SnapshotError(f"{folder}: not a whole folder of vectors; index the documents again") from error
        return found

    def check_chroma(self, folder: Path) -> None:
        # ChromaDB writes its vector files without a checksum. It reads a missing one as "no vectors", silently, and a
        # changed byte may end the process with a signal (measured). So every one of them is read before ChromaDB sees
        # it: 50 ms at 100,000 vectors, and ChromaDB then finds them in the system's cache.
        try:
            for file in folder.rglob("*"):  # a pipe would block SQLite and ChromaDB, a link lead elsewhere
                if file.is_symlink() or not file.is_dir():
                    require_regular(file)
            names = {file.relative_to(folder).as_posix() for file in find_vector_files(folder)}
            is_cut = (folder / DATABASE_NAME).stat().st_size < self.database_bytes
        except OSError as error:
            raise SnapshotError(f"{folder} cannot be read ({error.strerror}); index the documents again") from error
        if is_cut or names != self.files.keys():
            raise SnapshotError(f"{folder}: a file is missing, cut, or one too many; index the documents again")
        check_contents(folder, self.files)


def find_vector_files(folder: Path) -> list[Path]:
    """The vector files that count."""
    # Below `sync_threshold` vectors nothing has been flushed, and there is no metadata file: each opening then makes
    # the other files anew, with whatever was in memory.
    flushed = [metadata.parent for metadata in folder.glob("*/index_metadata.pickle")]
    return sorted(file for segment in flushed for file in segment.iterdir())
