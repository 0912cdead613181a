"""Arrays of one dimension in files of a derived folder, mapped into memory by whoever searches them."""

from pathlib import Path
from tokenize import TokenError
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from pageindex.corpus import require_regular
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
