"""The tree of documents that no index holds."""

from pageindex.document import Document
from pageindex.node import DocumentTree


def build_tree(*documents: Document) -> DocumentTree:
    """Return the tree of documents, which come by their paths, and of their folders."""
    tree = DocumentTree()
    for document in documents:
        folder = tree.add_folders("", document.path)
        for placed in document.nodes:
            tree.add(placed.node, placed.parent_id or folder)
    return tree
