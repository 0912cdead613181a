"""What a program does with an index: open it for questions, make it, follow its folders, move it, check it.

    from retriever.api import index_folders, open_retriever

    report = index_folders(["docs"])
    with open_retriever(index=report.path) as retriever:
        print(retriever.search("how are the two rankings fused?").verdict)

Every function raises a RetrieverError (retriever/errors.py) that says what to do.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from retriever.arguments import check_arguments
from retriever.errors import IndexUnusableError, NoIndexError, RetrieverError
from retriever.indexes import choose_new_place, find_holder, find_index, find_several, split_reference
from retriever.indexing.consent import check_documents, check_folders, check_server, drop_widening_settings
from retriever.indexing.report import IndexReport
from retriever.indexing.request import IndexRequest, absolute, remember
from retriever.protocols import Encoder, Progress
from retriever.settings.layers import DEFAULT_PROFILE, collect_settings
from retriever.store import reading
from retriever.store.database import make_damage_error
from retriever.store.store import Store
from retriever.trace import NoProgress

if TYPE_CHECKING:
    from retriever.expansion.cache import CacheContent
    from retriever.indexes import ListedIndex
    from retriever.indexing.forget import ForgetReport
    from retriever.indexing.watch import WatchEvent
    from retriever.looking.history import QuestionLog
    from retriever.retriever import Retriever
    from retriever.several import SeveralRetrievers
    from retriever.upkeep.archive import ExportReport
    from retriever.upkeep.doctor import CheckUp


@check_arguments
def open_retriever(
    docs: Sequence[str | Path] = (),
    index: str | Path | None = None,
    profile: str = DEFAULT_PROFILE,
    settings: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
    encoder: Encoder | None = None,
    on_words: "Callable[[Retriever], Sequence[str] | None] | None" = None,
) -> "Retriever":
    """Opens an index for questions; a context manager.

    Args:
        docs: folders of Markdown: they are indexed first, only what changed. Empty for those of an index.
        index: its folder, or the name of a known one; None for HYBRID_RETRIEVE_INDEX, else the one that holds `docs`,
            else the one that covers the current folder (docs/guide/indexes.md).
        profile: a name in configs/ or the path of a YAML file.
        settings: settings over those of the profile, nested as in a profile file.
        progress: told how far indexing has come.
        encoder: the caller's own embedding model, in place of the profile's.
        on_words: called, where `docs` are indexed for the first time and are not few, with a retriever that answers
            by words while nothing is embedded yet. The sections whose ids it returns are then embedded first.

    Raises:
        RetrieverError: the kinds in errors.py; the message says what to do.
    """
    from retriever.retriever import Retriever  # 100 ms that `index` does not spend

    # Without folders nothing is indexed: whoever asks an index gets what is there.
    request = index_request(docs, index, profile, settings, encoder)
    if request.docs:
        from retriever.indexing.update import update_index

        # What the first answer, by words, shows is embedded first: it is looked at while the rest is waited for.
        likely: list[str] = []

        def ask_early() -> None:
            remember(request.store)
            if on_words is not None:
                with Retriever(request, profile) as early:
                    likely.extend(on_words(early) or ())

        # ChromaDB is brought up to date by `index` and `watch`: who asks would wait a second for what he does not ask.
        update_index(replace(request, with_chroma=False), progress or NoProgress(), ask_early, lambda: likely)
        remember(request.store)
    return Retriever(request, profile)


@check_arguments
def index_folders(
    docs: Sequence[str | Path],
    index: str | Path | None = None,
    profile: str = DEFAULT_PROFILE,
    settings: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
    *,
    everything: bool = False,
) -> IndexReport:
    """Indexes folders, only what changed.

    Args:
        docs: folders of Markdown; those that the index holds already are looked at too.
        index: the index's folder, found as in `open_retriever`.
        profile: a name in configs/ or the path of a YAML file.
        settings: settings over those of the profile, nested as in a profile file; the index remembers them.
        progress: told how far indexing has come.
        everything: allow the user's home folder, or one that holds it.

    Raises:
        UsageError: a folder is the user's home folder, or `docs` and `index` do not belong together.
        DocumentsError: a folder is missing, or holds no document.
        IndexUnusableError: the index is locked, damaged, or cannot be written.
        EncoderError: a text cannot be embedded.
    """
    from retriever.indexing.update import update_index

    request = index_request(docs, index, profile, settings, None, everything=everything)
    report = update_index(request, progress or NoProgress())
    remember(request.store)
    if request.profile.summaries.kind != "llm":
        return report
    from retriever.indexing.summaries import summarize_index  # 400 ms: pydantic and the parser

    return summarize_index(request, report, progress or NoProgress())


@check_arguments
def watch_folders(
    docs: Sequence[str | Path],
    index: str | Path | None = None,
    profile: str = DEFAULT_PROFILE,
    settings: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
) -> "Iterator[WatchEvent | RetrieverError]":
    """Indexes folders at once and after every change, until the caller stops.

    Args:
        docs: folders of Markdown.
        index: the index's folder, found as in `open_retriever`.
        profile: a name in configs/ or the path of a YAML file.
        settings: settings over those of the profile, nested as in a profile file.
        progress: told how far indexing has come.

    Yields:
        Each update of the index; each failure after the first one, which is tried again.

    Raises:
        RetrieverError: the first update failed, as `index_folders`.
    """
    from retriever.indexing.watch import Watcher

    request = index_request(docs, index, profile, settings)
    update = partial(index_folders, index=str(request.store), profile=profile, settings=settings, progress=progress)
    return Watcher(request.docs, request.profile.documents, update).follow()


@check_arguments
def export_index(file: str | Path, index: str | Path | None = None, *, replace: bool = False) -> "ExportReport":
    """Writes an index into one file, in the state of this moment.

    Args:
        file: the archive to be written.
        index: the index's folder, found as in `open_retriever`.
        replace: write over a file that is there.

    Returns:
        What the archive holds.

    Raises:
        UsageError: the file is there already, or, with `replace`, holds something else than an exported index.
        IndexUnusableError: there is no index, or it is damaged, or the disk is full or read-only.
    """
    from retriever.upkeep.archive import export_index as export

    # The folders above are resolved, the name itself is not: a link is never written through.
    target = Path(file).expanduser()
    return export(find_index((), index).index, absolute(target.parent) / target.name, replace=replace)


@check_arguments
def import_index(
    file: str | Path,
    index: str | Path | None = None,
    docs: Sequence[str | Path] = (),
    *,
    replace: bool = False,
    encoder_url: str = "",
) -> str:
    """Makes an index of an exported one; nothing is embedded.

    Args:
        file: what `export_index` wrote.
        index: the index's folder; None for HYBRID_RETRIEVE_INDEX, else the one that belongs to its folders.
        docs: where its folders are on this machine, in their order; empty: they are not looked at until they are named.
        replace: replace an index that is there.
        encoder_url: the server on another machine that the index may go on sending texts to.

    Returns:
        The index's folder, or the address of its database.

    Raises:
        ArchiveError: the file is no archive, or a damaged one.
        IndexVersionError: a version with another format made it.
        UsageError: there is an index already; its folders are others; it names a server on another machine.
    """
    from retriever.upkeep.archive import import_index as import_file

    folders = tuple(map(absolute, docs))
    place = choose_new_place(folders, index)
    place = import_file(absolute(file), place, folders, replace=replace, encoder_url=encoder_url)
    remember(place)
    return str(place)


@check_arguments
def forget_documents(
    references: Sequence[str], index: str | Path | None = None, *, undo: bool = False
) -> "ForgetReport":
    """Removes documents from every file of an index and keeps them out; with `undo`, lets them be indexed again.

    Args:
        references: paths of documents or folders, each as an index or an answer of several names it; an indexed
            folder leaves the index altogether.
        index: the index's folder, found as in `open_retriever`.
        undo: take back what was forgotten.

    Raises:
        UsageError: a reference names nothing in the index, or could mean two documents; nothing was changed.
        IndexUnusableError: the index is locked, damaged, or cannot be written.
    """
    from retriever.indexing.forget import forget, take_back

    named = [split_reference(reference) for reference in references]
    store = next((own for own, _ in named if own is not None), None)
    request = index_request((), index or store or find_holder(references[0]), DEFAULT_PROFILE, None, None)
    inside = [
        path if own == request.store else reference for reference, (own, path) in zip(references, named, strict=True)
    ]
    return take_back(request, inside) if undo else forget(request, inside)


@check_arguments
def check_up(
    index: str | Path | None = None,
    *,
    repair: bool = False,
    llm: bool = False,
    profile: str = DEFAULT_PROFILE,
    settings: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
    encoder: Encoder | None = None,
) -> "CheckUp":
    """Examines the installation and an index, and repairs the index on request.

    Args:
        index: the index's folder, found as in `open_retriever`.
        repair: make broken parts anew first, and save what a damaged database holds.
        llm: ask the language model as well, and look whether there is all that the profile needs of models.
        profile: for `llm`, a name in configs/ or the path of a YAML file.
        settings: for `llm`, settings over those of the profile, nested as in a profile file.
        progress: told how far a repair has come, where documents are indexed again.
        encoder: the caller's own embedding model, for such a repair.

    Raises:
        RetrieverError: a repair failed; the message says what to do.
    """
    from retriever.upkeep.doctor import CheckUp, examine
    from retriever.upkeep.repair import repair_index

    try:
        place: Store | None = find_index((), index).index
    except NoIndexError:
        place = None
    repairs = tuple(repair_index(place, progress, encoder)) if repair and place else ()
    models = collect_settings(profile, settings).profile() if llm else None
    return CheckUp(tuple(examine(place, models)), repairs)


@check_arguments
def open_several(
    indexes: Sequence[str | Path] = (),
    profile: str = DEFAULT_PROFILE,
    settings: Mapping[str, Any] | None = None,
) -> "SeveralRetrievers":
    """Opens several indexes for questions that all of them are asked; a context manager.

    Args:
        indexes: their names (see `list_indexes`) or folders; all of this user's when empty.
        profile: a name in configs/ or the path of a YAML file.
        settings: settings over those of the profile, nested as in a profile file.

    Raises:
        NoIndexError: there is none.
        RetrieverError: as `open_retriever`; an index that cannot be opened is named in the answers.
    """
    from retriever.retriever import Retriever
    from retriever.several import SeveralRetrievers

    failed: dict[str, RetrieverError] = {}
    opened: dict[str, Retriever] = {}
    for name, place in find_several(indexes).items():
        try:
            opened[name] = Retriever(index_request((), place, profile, settings), profile)
        except IndexUnusableError as error:
            failed[name] = error
    return SeveralRetrievers(opened, failed)


def list_indexes() -> "tuple[ListedIndex, ...]":
    """All indexes of this user, by name: those in the data folder, and those elsewhere whose folders were named."""
    from retriever.indexes import list_indexes as listed

    return listed()


@check_arguments
def drop_index(name: str) -> Path:
    """Deletes an index with everything in it; the documents stay as they are.

    Args:
        name: as `list_indexes` gives it, or the index's folder.

    Returns:
        The folder that it was in.

    Raises:
        UsageError: there is no such index.
        IndexLockedError: another process writes to it.
        StorageError: it cannot be deleted.
    """
    from retriever.indexes import drop_index as drop

    return drop(name)


@check_arguments
def read_cache(*, clear: bool = False) -> "CacheContent":
    """Return what this user's cache folder keeps of questions: what a language model wrote for them.

    Args:
        clear: delete it; what is given is what was there.

    Raises:
        StorageError: it cannot be deleted.
    """
    from retriever.expansion.cache import ExpansionCache

    cache = ExpansionCache.of_user()
    content = cache.content()
    if clear:
        cache.clear()
    return content


@check_arguments
def open_history(index: str | Path | None = None) -> "QuestionLog":
    """The questions that were recorded in an index.

    Args:
        index: the index's folder, found as in `open_retriever`.

    Raises:
        NoIndexError: nothing was named, and nothing has been indexed yet.
    """
    from retriever.looking.history import QuestionLog

    return QuestionLog(find_index((), index).index)


def index_request(
    docs: Sequence[str | Path],
    index: str | Path | Store | None,
    profile: str,
    settings: Mapping[str, Any] | None,
    encoder: Encoder | None = None,
    *,
    everything: bool = False,
) -> IndexRequest:
    """What `open_retriever` or `index_folders` was asked for, with its folders and settings resolved."""
    folders = tuple(dict.fromkeys(absolute(folder) for folder in docs))
    choice = find_index(folders, index)
    place, folders = choice.index, choice.docs
    remembered: dict[str, object] = {}
    if place.exists():
        try:
            with place.read() as connection:
                content: object = reading.index_settings(connection)
        except NoIndexError:  # another process has just begun to make it, and not said with which settings
            if not folders:
                raise
            content = {}
        except RecursionError:  # somebody else may have made the index
            content = None
        if not isinstance(content, dict):
            raise make_damage_error(place, "its settings are no mapping")
        remembered = content
    elif not everything:
        check_folders(folders)
    # What was given now overrules what the index remembers, of which nothing opens files that this user did not name.
    given = collect_settings(profile, settings, drop_widening_settings(place, remembered))
    check_server(place, given)
    if folders:
        check_documents(place, remembered, given)
    return IndexRequest(place, folders, given.profile(), given.for_index(), encoder, note=choice.note)
