"""What stands beside the vectors in ChromaDB: the snapshot they are of, and checksums.

A module of its own, because it needs neither numpy nor ChromaDB: that nothing has changed is known without them.
"""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Self

from pageindex.corpus import read_file, require_regular
from retriever.errors import SnapshotError
from retriever.files import writing_to
from retriever.store.checksums import MANIFEST_NAME, MAX_MANIFEST_BYTES, check_contents, check_names, describe_files

DATABASE_NAME = "chroma.sqlite3"


@dataclass(frozen=True, slots=True)
class VectorsManifest:
    snapshot: str  # the manifest hash of the snapshot whose chunks these are
    fingerprint: str  # of the encoder
    count: int  # how many vectors
    dimension: int  # the length of a vector
    database_bytes: int = 0  # of chroma.sqlite3, which opening changes, but never makes smaller
    files: dict[str, tuple[int, int]] = field(default_factory=dict)  # size and CRC-32 of the vector files

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Read the manifest; SnapshotError when it is damaged, or missing because the folder was not finished."""
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

    def write(self, folder: Path) -> None:
        """Write the manifest, with the checksums of the files as they are: the folder is whole now."""
        with writing_to(folder):
            size, files = (folder / DATABASE_NAME).stat().st_size, describe_files(folder, _list_vector_files(folder))
            content = asdict(self) | {"database_bytes": size, "files": files}
            (folder / MANIFEST_NAME).write_text(json.dumps(content), encoding="utf-8")

    def check(self, folder: Path) -> None:
        """Read every vector file; SnapshotError where one is not as it was written."""
        # ChromaDB writes its vector files without a checksum. It reads a missing one as "no vectors", silently, and a
        # changed byte may end the process with a signal (measured). So every one of them is read before ChromaDB sees
        # it: 50 ms at 100,000 vectors, and ChromaDB then finds them in the system's cache.
        try:
            for file in folder.rglob("*"):  # a pipe would block SQLite and ChromaDB, a link lead elsewhere
                if file.is_symlink() or not file.is_dir():
                    require_regular(file)
            names = {file.relative_to(folder).as_posix() for file in _list_vector_files(folder)}
            is_cut = (folder / DATABASE_NAME).stat().st_size < self.database_bytes
        except OSError as error:
            raise SnapshotError(f"{folder} cannot be read ({error.strerror}); index the documents again") from error
        if is_cut or names != self.files.keys():
            raise SnapshotError(f"{folder}: a file is missing, cut, or one too many; index the documents again")
        check_contents(folder, self.files)


def _list_vector_files(folder: Path) -> list[Path]:
    return sorted(file for segment in folder.iterdir() if segment.is_dir() for file in segment.iterdir())
