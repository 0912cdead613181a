"""A retriever for LlamaIndex (the extra `llamaindex`): its nodes are sections, cited by file and lines."""

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from retriever.adapters.metadata import describe_hit, explain_missing, open_for_framework
from retriever.files import Closing
from retriever.query import EVERYWHERE, AskRequest, Scope
from retriever.settings.layers import DEFAULT_PROFILE
from retriever.types import Answer, Hit

try:
    from llama_index.core.retrievers import BaseRetriever
    from llama_index.core.schema import NodeRelationship, NodeWithScore, QueryBundle, RelatedNodeInfo, TextNode
except ModuleNotFoundError as error:
    raise explain_missing("llamaindex", "llama_index", error) from error

# The metadata that a language model is shown beside a section's text.
READ_KEYS = frozenset({"citation", "citation_state", "title"})


class SectionRetriever(Closing, BaseRetriever):
    """Opens an index when it is made, and keeps it open; a context manager, safe to share between threads and tasks.

    The verdict on an answer is in each node's metadata, and with `none` the nodes say nothing on the question.

    Args:
        docs: folders of Markdown: they are indexed first, only what changed. Empty for those of an index.
        index: the index's folder, found as in `open_retriever`.
        profile: a name in configs/ or the path of a YAML file.
        settings: settings over those of the profile, nested as in a profile file.
        top_k: how many sections; None for the profile's.
        scope: what may be found by every question, beside the filters in it (docs/guide/scope.md).
    """

    def __init__(
        self,
        docs: Sequence[str | Path] = (),
        index: str | Path | None = None,
        profile: str = DEFAULT_PROFILE,
        settings: Mapping[str, Any] | None = None,
        top_k: int | None = None,
        scope: Scope | None = None,
    ) -> None:
        super().__init__()
        self._scope = scope
        self._opened = open_for_framework(docs, index, profile, settings, top_k)

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        answer = self._opened.search(AskRequest(query_bundle.query_str, scope=self._scope or EVERYWHERE))
        return [NodeWithScore(node=_node(answer, hit), score=hit.score) for hit in answer.hits]

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return await asyncio.to_thread(self._retrieve, query_bundle)

    def close(self) -> None:
        """Closes the index."""
        self._opened.close()


def _node(answer: Answer, hit: Hit) -> TextNode:
    known = describe_hit(answer, hit)
    return TextNode(
        id_=hit.node_id,
        text=hit.text,
        metadata=known,
        excluded_llm_metadata_keys=sorted(known.keys() - READ_KEYS),
        excluded_embed_metadata_keys=sorted(known),
        relationships={NodeRelationship.SOURCE: RelatedNodeInfo(node_id=known["source"])},
    )
