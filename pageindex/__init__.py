r"""Markdown documents as one tree of folders, files and sections: the PageIndex.

No models, no network, no settings files: text in, nodes with line spans out.

    from pageindex import DocumentTree, parse_document

    document = parse_document("guide.md", "# Guide\n\nText.\n")
    print(DocumentTree.from_documents([document]).pretty())
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pageindex.document import Document, parse_document
    from pageindex.node import Node, NodeKind, Span
    from pageindex.tree import DocumentTree

__all__ = ["Document", "DocumentTree", "Node", "NodeKind", "Span", "parse_document"]

_MODULES = {
    "Document": "document",
    "DocumentTree": "tree",
    "Node": "node",
    "NodeKind": "node",
    "Span": "node",
    "parse_document": "document",
}


def __getattr__(name: str) -> Any:  # noqa: ANN401 - any of the names above
    """Import what is used: the parser takes 60 ms, the tree 165."""
    if name not in _MODULES:
        raise AttributeError(f"module 'pageindex' has no attribute {name!r}")
    return getattr(import_module(f"pageindex.{_MODULES[name]}"), name)
