"""Questions to the sections of Markdown that answer them, each cited by file and lines.

    from retriever import open_retriever

    with open_retriever(["docs"]) as retriever:
        for hit in retriever.search("how are the two rankings fused?").hits:
            print(hit.citation, hit.title, hit.snippet)

`retriever.api` has what else a program does with an index: `index_folders`, `watch_folders` ...
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from retriever.api import open_retriever
    from retriever.errors import RetrieverError
    from retriever.query import AskRequest, Scope
    from retriever.retriever import Retriever
    from retriever.types import Answer, Hit

__all__ = ["Answer", "AskRequest", "Hit", "Retriever", "RetrieverError", "Scope", "open_retriever"]

_MODULES = {
    "Answer": "types",
    "AskRequest": "query",
    "Hit": "types",
    "Retriever": "retriever",
    "RetrieverError": "errors",
    "Scope": "query",
    "open_retriever": "api",
}


def __getattr__(name: str) -> Any:  # noqa: ANN401 - any of the names above
    """Import what is used: a retriever with all that it needs takes 0.3 s.

    >>> from retriever import *
    """
    if name not in _MODULES:
        raise AttributeError(f"module 'retriever' has no attribute {name!r}")
    return getattr(import_module(f"retriever.{_MODULES[name]}"), name)
