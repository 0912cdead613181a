"""What a run of indexing did."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class IndexReport:
    """What indexing did."""

    path: str
    """The index's folder."""
    folders: tuple[str, ...]
    """All folders that it holds, absolute."""
    added: int
    """New files; a moved one counts here and in `removed`."""
    changed: int
    removed: int
    unchanged: int
    documents: int
    sections: int
    chunks: int
    embedded: int
    """Texts that the encoder read."""
    skipped: tuple[tuple[str, str], ...]
    """Files that could not be read, and why."""
    seconds: float
    snapshot: int
    prefixes: str = ""
    """What a served embedding model is given before each text, in words; empty for other kinds."""
