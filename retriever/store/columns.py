"""The files of a derived folder: arrays of one dimension, mapped into memory; and checksums of them."""

from collections.abc import Iterable, Mapping
from io import FileIO
from pathlib import Path
from tokenize import TokenError
from typing import TypeVar
from zlib import crc32

import numpy as np
import numpy.typing as npt

from pageindex.corpus import open_regular, require_regular
from retriever.errors import SnapshotError
from retriever.files import writing_to

Number = TypeVar("Number", bound=np.generic)


def save_column(folder: Path, name: str, values: npt.NDArray[np.generic]) -> None:
    with writing_to(folder):
        np.save(folder / f"{name}.npy", values, allow_pickle=False)


def load_column(folder: Path, name: str, dtype: type[Number]) -> npt.NDArray[Number]:
    """Maps `name`.npy into memory: nothing is read before it is used. SnapshotError if it is not such an array."""
    path = folder / f"{name}.npy"
    try:
        require_regular(path)
        # A plain array over the map: slicing numpy's own class for maps is ten times slower.
        values: npt.NDArray[Number] = np.asarray(np.load(path, mmap_mode="r", allow_pickle=False))
    except (OSError, EOFError, ValueError, TypeError, SyntaxError, TokenError, OverflowError) as error:
        # All but the first come from a header that is cut or overwritten.
        raise SnapshotError(f"{path}: cannot be read ({error}); index the documents again") from error
    if values.ndim != 1 or values.dtype != dtype:
        raise SnapshotError(f"{path}: holds something else; index the documents again")
    return values


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
