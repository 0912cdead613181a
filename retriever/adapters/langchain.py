"""A retriever for LangChain (the extra `langchain`): its documents are sections, cited by file and lines."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from retriever.adapters.metadata import describe_hit, explain_missing, open_for_framework
from retriever.files import Closing
from retriever.query import EVERYWHERE, AskRequest, Scope
from retriever.retriever import Retriever
from retriever.settings.layers import DEFAULT_PROFILE

try:
    from langchain_core.callbacks import CallbackManagerForRetrieverRun
    from langchain_core.documents import Document
    from langchain_core.retrievers import BaseRetriever
    from pydantic import PrivateAttr
except ModuleNotFoundError as error:
    raise explain_missing("langchain", "langchain_core", error) from error


class SectionRetriever(Closing, BaseRetriever):
    """Opens an index when it is made, and keeps it open; a context manager, safe to share between threads and tasks.

    `ainvoke` and its kind run in LangChain's executor. The verdict on an answer is in each document's metadata, and
    with `none` the documents say nothing on the question.
    """

    docs: Sequence[str | Path] = ()
    """Folders of Markdown, index, profile and settings: see `open_retriever`."""
    index: str | Path | None = None
    profile: str = DEFAULT_PROFILE
    settings: dict[str, Any] | None = None
    top_k: int | None = None
    """How many sections; None for the profile's."""
    scope: Scope | None = None
    """What may be found by every question, beside the filters in it (docs/guide/scope.md)."""
    _opened: Retriever = PrivateAttr()

    def model_post_init(self, context: object, /) -> None:
        """Opens the index.

        Raises:
            RetrieverError: as `open_retriever`.
        """
        super().model_post_init(context)
        self._opened = open_for_framework(self.docs, self.index, self.profile, self.settings, self.top_k)

    def _get_relevant_documents(self, query: str, *, run_manager: CallbackManagerForRetrieverRun) -> list[Document]:
        answer = self._opened.search(AskRequest(query, scope=self.scope or EVERYWHERE))
        return [
            Document(id=hit.node_id, page_content=hit.text, metadata=describe_hit(answer, hit)) for hit in answer.hits
        ]

    def close(self) -> None:
        """Closes the index."""
        self._opened.close()
