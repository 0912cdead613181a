"""Whether the lines that are cited still hold, on the disk, what was indexed; if not, where that has moved."""

from collections.abc import Collection
from dataclasses import dataclass
from functools import cache
from hashlib import sha256

from pageindex.corpus import MAX_FILE_BYTES, UnreadableDocumentError, find_document, read_document, read_file
from pageindex.node import Span
from retriever.indexing.request import FolderAccess
from retriever.store.database import Connection
from retriever.store.reading import GIVEN, select
from retriever.types import CitationState, Cited


@dataclass(frozen=True)
class CitedDocument:
    """A document as it was indexed, and how its file is cited."""

    path: str
    """Relative to its folder."""
    digest: str
    folder: str
    """Absolute."""
    name: str
    """Its id: its path in the folder, after the folder's prefix; `retriever.looking.browse` reads it back."""


_CITED = (
    "SELECT document_key, documents.path, digest, folders.path, prefix || documents.path"
    f" FROM documents JOIN folders USING (folder_key) WHERE document_key {GIVEN}"
)


class Anchors:
    """Compares the files of one answer with what was indexed: each is read, once, whatever its size and times say.

    Args:
        connection: of the index.
        document_keys: of the documents that are cited.
        access: which of the folders may be looked at, and which of their files are documents.
    """

    def __init__(self, connection: Connection, document_keys: Collection[int], access: FolderAccess) -> None:
        self._access = access
        rows = select(connection, _CITED, document_keys)
        self.documents = {key: CitedDocument(*columns) for key, *columns in rows}  # by their keys
        self.look_at = cache(self._look_at)

    def cite(self, document_key: int, node_id: str, span: Span, text: str) -> Cited:
        """Return lines of a document where they are now, ready to be cited.

        Args:
            document_key: of the document.
            node_id: of the section that they are in.
            span: where they were when it was indexed.
            text: exactly these lines; empty for what has none of its own, which is not looked for elsewhere.
        """
        state, now = self.look_at(document_key)
        if state == "stale" and text:
            span, state = find_anchor(span, text, now)
        document = self.documents[document_key]
        return Cited(
            node_id=node_id,
            folder=document.folder,
            file=document.path,
            span=span,
            citation_state=state,
            cited_as=document.name,
        )

    def _look_at(self, document_key: int) -> tuple[CitationState, str]:
        """Return `exact`, `stale`, `gone` or `unchecked` for the whole file, and its text, empty unless `stale`."""
        known = self.documents[document_key]
        if known.folder not in self._access.folders:
            return "unchecked", ""
        try:
            file = find_document(known.folder, known.path, self._access.ignore)
            digest = sha256(read_file(file.absolute, MAX_FILE_BYTES)).hexdigest()
            # What has not changed is not decoded.
            return ("exact", "") if digest == known.digest else ("stale", read_document(file).text)
        except (UnreadableDocumentError, OSError):
            return "gone", ""


def find_anchor(span: Span, text: str, now: str) -> tuple[Span, CitationState]:
    """Find where lines are in a document that has changed; `stale` unless they are there exactly once.

    Args:
        span: where they were.
        text: these lines.
        now: the whole document.

    >>> find_anchor(Span(3, 3), "Salt.", "Salt.")
    (Span(first=1, last=1), 'moved')
    """
    whole, lines = now.removesuffix("\n").split("\n"), text.removesuffix("\n").split("\n")
    if whole[span.first - 1 : span.first - 1 + len(lines)] == lines:
        return span, "exact"
    if not text.strip():
        return span, "stale"
    # The first two places where these lines begin now: with more than one, no place can be cited.
    sought, searched = "\n".join(["", *lines, ""]), "\n".join(["", *whole, ""])
    first = searched.find(sought)
    if first < 0 or searched.find(sought, first + 1) >= 0:
        return span, "stale"
    line = 1 + searched.count("\n", 0, first)
    return Span(line, line + span.last - span.first), "moved"
