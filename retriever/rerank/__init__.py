"""The last order of the candidates, by who has read them beside the question: a language model or a cross-encoder."""

from collections.abc import Callable

from retriever.llm.generator import Generator
from retriever.rerank.reranker import Judgement, Reranker, Shown
from retriever.rerank.stage import Reranking, reranked
from retriever.settings.profile import Profile

__all__ = ["Judgement", "Reranker", "Reranking", "Shown", "open_reranker", "reranked"]


def open_reranker(profile: Profile, generator: Callable[[], Generator]) -> Reranker | None:
    """The reranker that the profile asks for; None for the kind `none`, and for `llm` without `use_llm`.

    No model is loaded and no server asked yet: whatever is wrong with them is an error of `judge`.

    Args:
        profile: the settings.
        generator: opens the language model.
    """
    # Each kind is imported when it is asked for.
    if profile.rerank.kind == "llm" and profile.use_llm:
        from retriever.rerank.llm import ListwiseReranker

        return ListwiseReranker(generator(), profile.rerank)
    if profile.rerank.kind == "cross-encoder":
        from retriever.rerank.cross_encoder import CrossEncoderReranker

        return CrossEncoderReranker(profile.rerank)
    return None
