"""What an index holds, and how it stands to its folders."""

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from retriever.embedding import BUNDLED_MODEL
from retriever.embedding.prefixes import describe_prefixes
from retriever.looking.freshness import Freshness, Watch, describe_state
from retriever.looking.survey import survey_texts
from retriever.searching.open_index import View
from retriever.settings.schema import Profile
from retriever.store import listing, text_vectors
from retriever.types import IndexState

if TYPE_CHECKING:
    from retriever.looking.survey import TextSurvey


@dataclass(frozen=True, slots=True)
class Status:
    """What an index holds, and how it stands to its folders."""

    index: IndexState
    encoder: str  # the embedding model's kind and name
    size_bytes: int  # of the index's folder
    changed_files: tuple[str, ...]  # files that are new, different or gone since they were indexed
    skipped: tuple[tuple[str, str], ...]  # what looks like a document and is not read, and why
    broken_links: int
    coverage: float  # the share of the chunks that have a vector, 0 to 1
    remarks: tuple[tuple[str, str], ...] = ()  # files that are read, and what in them is not as it should be
    forgotten: tuple[tuple[str, str], ...] = ()  # what `forget` keeps out, each with how to take it back
    details: "StatusDetails | None" = None  # None where they were not asked for
    survey: "TextSurvey | None" = (
        None  # its languages, and how much the encoder knows; None where that is not known here
    )
    prefixes: str = ""  # what a served embedding model is given before each text; empty for other kinds


@dataclass(frozen=True, slots=True)
class StatusDetails:
    """What else the documents and their folders are like; it takes a look at every link and file."""

    broken_links: tuple[tuple[str, int, str, str], ...]  # (file, line, target as written, why it leads nowhere)
    duplicates: tuple[tuple[str, ...], ...]  # files with the same content


def read_status(view: View, watch: Watch, profile: Profile, *, details: bool = False) -> Status:
    """The status of an open index; the folders are looked at now."""
    from retriever.indexing.forget import list_forgotten  # a question reads the state alone

    model = profile.encoder.model or (BUNDLED_MODEL.name if profile.encoder.kind == "onnx" else "")
    skipped = listing.skipped(view.connection)
    # Looked at now, and not with the last question: who asks for the state wants this moment's.
    diffs, problems = watch.find_changes(view)
    held = Counter(path for diff in diffs for path in {*diff.paths, *(file.path for file in diff.listing.files)})
    chunks = view.counts.chunks
    vectors = text_vectors.vector_count(view.connection, view.fingerprint)
    looked = Freshness(0, sum(map(len, diffs)), len(problems))
    return Status(
        index=describe_state(view, looked),
        encoder=" ".join(filter(None, (profile.encoder.kind, model))),
        size_bytes=view.size_bytes,
        changed_files=tuple(
            f"{diff.folder.prefix if held[path] > 1 else ''}{path}" for diff in diffs for path in diff.paths
        ),
        # A rule of .gitignore that cannot be read is no file that was left out: it is told as a remark.
        skipped=(*(item for item in skipped if not _is_gitignore(item[0])), *problems),
        broken_links=view.counts.broken_links,
        coverage=vectors / chunks if chunks else view.embedded_share,
        remarks=(*listing.warnings(view.connection), *(item for item in skipped if _is_gitignore(item[0]))),
        forgotten=tuple(list_forgotten(view.connection)),
        details=StatusDetails(listing.broken_links(view.connection), listing.duplicates(view.connection))
        if details
        else None,
        survey=survey_texts(view.connection, profile.encoder) if view.fingerprint else None,
        prefixes=describe_prefixes(profile.encoder),
    )


def _is_gitignore(path: str) -> bool:
    return path.replace(":", "/").rpartition("/")[2] == ".gitignore"  # a folder's name ends with a colon
