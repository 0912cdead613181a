"""What a run of indexing did."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SummaryReport:
    """What became of the summaries that a language model was to write."""

    writer: str
    """The model."""
    written: int
    known: int
    """Texts whose summaries had been written before, or could not be used before."""
    unusable: int
    """What it wrote for so many texts cannot be used: they keep their first sentences."""
    missing: int
    """Texts that it has not read yet, because it failed; the next `index` goes on with them."""
    reason: str
    """Why it failed last; empty when it did not."""
    snapshot: int
    """The one in force with these summaries."""


@dataclass(frozen=True, slots=True)
class IndexReport:
    """What indexing did."""

    path: str
    """The index's folder."""
    folders: tuple[str, ...]
    """All folders that it holds, absolute."""
    added: int
    """New files; a moved one counts here and in `removed` too."""
    changed: int
    moved: int
    removed: int
    unchanged: int
    documents: int
    sections: int
    chunks: int
    embedded: int
    """Texts that the encoder read."""
    reused_vectors: int
    """Texts of new chunks whose vectors were there already."""
    skipped: tuple[tuple[str, str], ...]
    """Files that could not be read, and why."""
    seconds: float
    snapshot: int
    summaries: SummaryReport | None = None
    """None where sections are summarised by their first sentences."""
    prefixes: str = ""
    """What a served embedding model is given before each text, in words; empty for other kinds."""
