"""The sizes and checksums of the files of a derived folder, by which damage is found before a library reads them."""

from collections.abc import Iterable, Mapping
from io import FileIO
from pathlib import Path
from zlib import crc32

from pageindex.corpus import open_regular, require_regular
from retriever.errors import SnapshotError

MANIFEST_NAME = "manifest.json"
MAX_MANIFEST_BYTES = 1_000_000  # some 20 files, a name and two numbers each

# Size in bytes and CRC-32 of each file, by its path in the folder, with `/` on every system.
Checksums = Mapping[str, tuple[int, int]]


def describe_files(folder: Path, files: Iterable[Path]) -> dict[str, tuple[int, int]]:
    """The checksums of some files below a folder, at 2 GB/s."""
    return {file.relative_to(folder).as_posix(): _describe(file) for file in sorted(files)}


def check_names(checksums: Checksums) -> None:
    """ValueError when a manifest names files of other folders."""
    if any(not {"", ".", ".."}.isdisjoint(name.split("/")) for name in checksums):
        raise ValueError("a file of another folder")


def check_sizes(folder: Path, checksums: Checksums) -> None:
    """Looks at every file, without reading it: SnapshotError when one is cut, OSError when one is missing."""
    for name, (size, _) in checksums.items():
        require_regular(folder / name)  # before a library opens it by its name
        if (folder / name).stat().st_size != size:
            raise SnapshotError(f"{folder / name} has not the size that it was written with; index the documents again")


def check_contents(folder: Path, checksums: Checksums) -> None:
    """Reads every file, as a bit that flipped would give wrong answers; SnapshotError when one did."""
    try:
        for name, described in checksums.items():
            if _describe(folder / name) != tuple(described):
                raise SnapshotError(f"{folder / name} is damaged; index the documents again")
    except OSError as error:
        raise SnapshotError(f"{folder} cannot be read ({error.strerror}); index the documents again") from error


def _describe(path: Path) -> tuple[int, int]:
    checksum = 0
    block = memoryview(bytearray(1 << 20))
    with FileIO(open_regular(path), "r") as file:
        while length := file.readinto(block):
            checksum = crc32(block[:length], checksum)
        return file.tell(), checksum
