"""The functions for programs: make an index, open it for questions, follow its folders, take documents out.

    from retriever.api import index_folders, open_retriever

    report = index_folders(["docs"])
    with open_retriever(index=report.path) as retriever:
        print(retriever.search("how are the two rankings fused?").verdict)

Every function raises a RetrieverError (retriever/errors.py) that says what to do.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from retriever.errors import RetrieverError, UsageError
from retriever.indexing.request import IndexReport
from retriever.looking.indexes import find_holder, index_request
from retriever.settings import DEFAULT_PROFILE
from retriever.text import as_tuple
from retriever.trace import NO_PROGRESS
from retriever.types import Encoder, Progress

if TYPE_CHECKING:
    from retriever.indexing.forget import ForgetReport
    from retriever.retriever import Retriever

LOOK_S = 2.0  # between two looks at folders that are watched
IDLE_SHARE = 20  # times as long as a look takes is waited until the next: 5 % of a core for the largest folders


def open_retriever(
    docs: Sequence[str | Path] = (),
    index: str | Path | None = None,
    profile: str = DEFAULT_PROFILE,
    settings: Mapping[str, Any] | None = None,
    progress: Progress = NO_PROGRESS,
    encoder: Encoder | None = None,
    on_words: "Callable[[Retriever], object] | None" = None,
) -> "Retriever":
    """Open an index for questions; a context manager.

    Args:
        docs: folders of Markdown: they are indexed first, only what changed. Empty for those of an index.
        index: its folder, or the name of a known one; None for HYBRID_RETRIEVE_INDEX, else the one that holds `docs`,
            else the one that covers the current folder (docs/guide/indexes.md).
        profile: a name in configs/ or the path of a YAML file.
        settings: settings over those of the profile, nested as in a profile file.
        progress: told how far indexing has come.
        encoder: the caller's own embedding model, in place of the profile's.
        on_words: called, where many texts of `docs` are to be embedded, with a retriever that answers by words
            until they are.

    Raises:
        RetrieverError: the kinds in errors.py; the message says what to do.
    """
    from retriever.retriever import Retriever  # 100 ms that `index` does not spend

    # Without folders nothing is indexed: the answer comes from what is there.
    request = index_request(docs, index, profile, settings, encoder)
    if request.docs:
        from retriever.indexing.update import update_index

        def ask_early() -> None:
            if on_words is not None:
                with Retriever(request, profile) as early:
                    on_words(early)

        update_index(request, progress, ask_early)
    return Retriever(request, profile)


def index_folders(
    docs: Sequence[str | Path],
    index: str | Path | None = None,
    profile: str = DEFAULT_PROFILE,
    settings: Mapping[str, Any] | None = None,
    progress: Progress = NO_PROGRESS,
    *,
    everything: bool = False,
    enqueue: bool = False,
) -> IndexReport:
    """Index folders, only what changed.

    Args as in `open_retriever`, and:
        docs: folders of Markdown; those that the index holds already are looked at too.
        settings: the index remembers those that decide what is in it.
        everything: allow the user's home folder, or one that holds it.
        enqueue: leave the embedding to workers, of an index in a database.

    Raises:
        UsageError: a folder is the user's home folder, `docs` and `index` do not belong together, or workers are meant
            and the index is a folder.
        DocumentsError: a folder is missing, or holds no document.
        IndexUnusableError: the index is locked, damaged, or cannot be written.
        EncoderError: a text cannot be embedded.
    """
    from retriever.indexing.update import update_index

    request = index_request(docs, index, profile, settings, everything=everything)
    if enqueue:
        if request.store.embeds_itself:
            raise UsageError(f"{request.store} is a folder, which has no workers: they are of a database")
        request = replace(request, embeds="none")
    return update_index(replace(request, with_chroma=True), progress)


def watch_folders(
    docs: Sequence[str | Path],
    index: str | Path | None = None,
    profile: str = DEFAULT_PROFILE,
    settings: Mapping[str, Any] | None = None,
    progress: Progress = NO_PROGRESS,
    *,
    everything: bool = False,
    enqueue: bool = False,
) -> Iterator[IndexReport | RetrieverError]:
    """Index folders at once and after every change, until the caller stops; the arguments are those of `index_folders`.

    Yields:
        Each update that changed something, the first one too; each later failure, one that repeats itself once.

    Raises:
        RetrieverError: the first update failed, as `index_folders`.
    """
    update = partial(
        index_folders,
        profile=profile,
        settings=settings,
        progress=progress,
        everything=everything,
        enqueue=enqueue,
    )
    last = update(docs, index)
    yield last
    # No file system fails to report a change to one who looks, and what is half saved is read again.
    pause_s, failed = LOOK_S, ""
    while True:
        time.sleep(pause_s)
        try:
            report = update((), last.path)
        except RetrieverError as error:
            if str(error) != failed:
                yield error
            failed = str(error)
            continue
        failed = ""
        if report.added or report.changed or report.removed or report.skipped != last.skipped:
            yield report
        else:
            pause_s = max(LOOK_S, IDLE_SHARE * report.seconds)
        last = report


def forget_documents(
    references: Sequence[str], index: str | Path | None = None, *, undo: bool = False
) -> "ForgetReport":
    """Remove documents from every file of an index and keep them out; with `undo`, lets them be indexed again.

    Args:
        references: paths of documents or folders; an indexed folder leaves the index altogether.
        index: the index's folder, found as in `open_retriever`.
        undo: take back what was forgotten.

    Raises:
        UsageError: a reference names nothing in the index, or could mean two documents; nothing was changed.
        IndexUnusableError: the index is locked, damaged, or cannot be written.
    """
    from retriever.indexing.forget import forget

    references = as_tuple(references)
    request = index_request((), index or find_holder(references[0]), DEFAULT_PROFILE, None)
    return forget(request, references, undo=undo)
