"""A question -> its answer and the context for a prompt, of one state of the index."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass

from retriever.context.assembling import Context, assembled, bundled_count
from retriever.context.gathering import gathered
from retriever.errors import IndexLockedError
from retriever.indexing.consent import FolderAccess
from retriever.searching.open_index import View
from retriever.types import Answer

ATTEMPTS = 3
"""How often the question is asked again because the index changed between the search and the reading of the texts."""


@dataclass(frozen=True, slots=True)
class AnswerInContext:
    """An answer, and its sections for a prompt."""

    answer: Answer
    context: Context


def ask_for_context(
    ask: Callable[[], Answer],
    view_of: Callable[[], AbstractContextManager[View]],
    max_tokens: int,
    access: FolderAccess,
) -> AnswerInContext:
    """Searches, and assembles what was found.

    Args:
        ask: searches for the question.
        view_of: opens the index in one state.
        max_tokens: of the context.
        access: which of the folders may be looked at, and which of their files are documents.

    Raises:
        UsageError: `max_tokens` is less than `LEAST_CONTEXT_TOKENS`.
        IndexLockedError: the index changed again and again meanwhile.
        RetrieverError: as of the search.
    """
    for _ in range(ATTEMPTS):
        answer = ask()
        with view_of() as view:
            if view.number == answer.index.generation:
                sections = gathered(view, answer, access)
                return AnswerInContext(answer, assembled(sections, answer.verdict, max_tokens, bundled_count()))
    raise IndexLockedError("the index changed again and again while it was read; try again when indexing has finished")
