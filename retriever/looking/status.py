"""What an index holds, and how it stands to its folders."""

from collections import Counter
from dataclasses import dataclass

from retriever.embedding import BUNDLED_MODEL
from retriever.embedding.encoder import describe_prefixes
from retriever.looking.freshness import Freshness, Watch, describe_state
from retriever.searching.open_index import View
from retriever.settings.schema import Profile
from retriever.store import listing
from retriever.types import IndexState


@dataclass(frozen=True, slots=True)
class Status:
    """What an index holds, and how it stands to its folders."""

    index: IndexState
    encoder: str  # the embedding model's kind and name
    size_bytes: int  # of the index's folder
    changed_files: tuple[str, ...]  # files that are new, different or gone since they were indexed
    skipped: tuple[tuple[str, str], ...]  # what looks like a document and is not read, and why
    broken_links: tuple[tuple[str, int, str, str], ...]  # (file, line, target as written, why it leads nowhere)
    duplicates: tuple[tuple[str, ...], ...]  # files with the same content
    remarks: tuple[tuple[str, str], ...]  # files that are read, and what in them is not as it should be
    forgotten: tuple[tuple[str, str], ...]  # what `forget` keeps out, each with how to take it back
    prefixes: str  # what a served embedding model is given before each text; empty for other kinds


def read_status(view: View, watch: Watch, profile: Profile) -> Status:
    """Return the status of an open index; the folders are looked at now, and not with the last question."""
    from retriever.indexing.forget import list_forgotten  # a question reads the state alone

    model = profile.encoder.model or (BUNDLED_MODEL.name if profile.encoder.kind == "onnx" else "")
    diffs, problems = watch.find_changes(view)
    held = Counter(path for diff in diffs for path in {*diff.paths, *(file.path for file in diff.listing.files)})
    return Status(
        index=describe_state(view, Freshness(0, sum(map(len, diffs)), len(problems))),
        encoder=" ".join(filter(None, (profile.encoder.kind, model))),
        size_bytes=view.store.size_bytes(),
        changed_files=tuple(
            f"{diff.folder.prefix if held[path] > 1 else ''}{path}" for diff in diffs for path in diff.paths
        ),
        skipped=(*listing.skipped(view.connection), *problems),
        broken_links=listing.broken_links(view.connection),
        duplicates=listing.duplicates(view.connection),
        remarks=listing.warnings(view.connection),
        forgotten=tuple(list_forgotten(view.connection)),
        prefixes=describe_prefixes(profile.encoder),
    )
