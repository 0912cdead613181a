"""Documents as MCP resources: the tree, and each document by its path."""

from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

from mcp import types

from retriever.browse import load_tree, read_excerpt
from retriever.errors import UsageError
from retriever.store import reading

if TYPE_CHECKING:
    from retriever.serving.pool import ServedIndex

TREE = "hybrid-retrieve://tree"
DOCUMENT = "hybrid-retrieve://document/"
PER_PAGE = 200
MOST_CHARACTERS = 200_000
"""Of one resource; the tools read larger ones in parts."""


class Resources:
    """The resources of one library; safe to share between threads."""

    def __init__(self, library: "ServedIndex") -> None:
        self._library = library

    def page(self, cursor: str) -> types.ListResourcesResult:
        """Some of them, by path; the cursor is the number of those before.

        Raises:
            UsageError: it is no such number.
        """
        if not ((cursor.isascii() and cursor.isdigit() and len(cursor) < 10) or not cursor):
            raise UsageError("this cursor is none of this server's; list the resources without it")
        first = int(cursor or 0)
        with self._library.retriever() as retriever, retriever.view() as view:
            documents = [
                (folder.prefix + document.path, document.size)
                for folder in reading.folders(view.connection)
                for document in reading.documents(view.connection, folder.key).values()
            ]
        listed = [_document(node_id, size) for node_id, size in documents[first : first + PER_PAGE]]
        tree = [types.Resource(uri=TREE, name="tree", title="The outline of all documents", mime_type="text/plain")]
        more = str(first + PER_PAGE) if first + PER_PAGE < len(documents) else None
        return types.ListResourcesResult(resources=[*([] if first else tree), *listed], next_cursor=more)

    def read(self, uri: str) -> types.ReadResourceResult:
        """The text of one.

        Raises:
            UsageError: there is no such resource, or it is too large to be sent whole.
        """
        text = self._tree() if uri == TREE else self._document_text(uri)
        if len(text) > MOST_CHARACTERS:
            raise UsageError(f"this resource has {len(text):,} characters; use the tools outline and read, with cursor")
        kind = "text/plain" if uri == TREE else "text/markdown"
        sendable = text.encode("utf-8", "backslashreplace").decode("utf-8")
        return types.ReadResourceResult(contents=[types.TextResourceContents(uri=uri, mime_type=kind, text=sendable)])

    def _tree(self) -> str:
        with self._library.retriever() as retriever, retriever.view() as view:
            return load_tree(view.connection).pretty()

    def _document_text(self, uri: str) -> str:
        if not uri.startswith(DOCUMENT):
            raise UsageError("there is no such resource; list them first")
        node_id = unquote(uri.removeprefix(DOCUMENT), errors="surrogateescape")
        with self._library.retriever() as retriever, retriever.view() as view:
            if reading.document_of_node(view.connection, node_id) is None:
                raise UsageError("there is no such document; list the resources, or call outline")
            return read_excerpt(view.connection, node_id, retriever.access).text


def _document(node_id: str, size: int) -> types.Resource:
    uri = DOCUMENT + quote(node_id, errors="surrogateescape")
    name = node_id.encode("utf-8", "backslashreplace").decode("utf-8")
    return types.Resource(uri=uri, name=name, mime_type="text/markdown", size=size)
