"""The pictures of documents: files below the folders that this user has named.

A picture is shown only where `index` would list it, were it a document: no part of its path is hidden or ignored, and
no link is on the way. It is sent as the type that its name says and no other, with a policy under which nothing in it
runs or loads, also where somebody opens it by itself.
"""

import os
from collections.abc import Iterable
from dataclasses import replace
from pathlib import PurePosixPath

from pageindex.corpus import UnreadableDocumentError, find_document, read_file
from pageindex.links import join_path
from retriever.errors import UsageError
from retriever.indexing.request import FolderAccess
from retriever.store.reading import StoredFolder

MAX_PICTURE_BYTES = 3_500_000
POLICY = "default-src 'none'; style-src 'unsafe-inline'; sandbox"
# Where notes keep what is embedded by its name alone, beside the note or in a folder above it.
EMBED_FOLDERS = ("", "attachments", "assets", "images", "img", "media", "files", "_attachments", "Attachments")

_TYPES = {
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".gif": "image/gif",
    ".webp": "image/webp",
    ".avif": "image/avif",
    ".svg": "image/svg+xml",
}
PICTURE_SUFFIXES = tuple(_TYPES)


def read_picture(folders: Iterable[StoredFolder], name: str, access: FolderAccess) -> tuple[bytes, str]:
    """Return the picture of that name, and its media type.

    Args:
        folders: of the index.
        name: the folder's prefix and the path in it, as in a node id.
        access: which of the folders may be looked at, and which of their files are ignored.

    Raises:
        UsageError: there is none, or it is none that may be shown.
    """
    media_type = _TYPES.get(PurePosixPath(name).suffix.lower())
    # The longest prefix first: that of the first folder is empty, and every name begins with it.
    for folder in sorted(folders, key=lambda folder: -len(folder.prefix)):
        if media_type is None or not name.startswith(folder.prefix) or folder.path not in access.folders:
            continue
        path = name.removeprefix(folder.prefix)
        try:
            find_document(
                folder.path, path, replace(access.options, suffixes=PICTURE_SUFFIXES, max_file_bytes=MAX_PICTURE_BYTES)
            )
            content = read_file(f"{folder.path}/{path}", MAX_PICTURE_BYTES)
        except (UnreadableDocumentError, OSError, ValueError):
            continue
        return content, media_type
    raise UsageError("there is no such picture below the indexed folders")


def locate_picture(folder: str, document: str, source: str, *, by_name: bool) -> str:
    """Return the path, relative to its folder, of the picture that a document shows; empty where there is none.

    Args:
        folder: the indexed folder, absolute; one that may be looked at.
        document: the document's path in it.
        source: as the document writes it, percent signs decoded.
        by_name: whether it is looked for in the usual places, as Obsidian's `![[picture.png]]` is.
    """
    if not source.lower().endswith(PICTURE_SUFFIXES) or "\0" in source or "\\" in source:
        return ""
    above = document.split("/")[:-1]
    places = [([], source)] if source.startswith("/") else [(above, source)]
    if by_name and not source.startswith("/"):
        # As Obsidian finds it: in the folder for attachments nearest to the note.
        nearest_first = [above[:depth] for depth in range(len(above), -1, -1)]
        places += [(folders, f"{name}/{source}") for folders in nearest_first for name in EMBED_FOLDERS]
    for folders, name in places:
        path = join_path(folders, name)
        if path and os.path.isfile(os.path.join(folder, path)):  # noqa: PTH113, PTH118 - up to thirty for one picture
            return path
    return ""
