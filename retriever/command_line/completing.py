"""What a shell may put in when the Tab key is pressed."""

import re
import sqlite3
from contextlib import closing

import click
from click.shell_completion import CompletionItem

from retriever.display.editors import AUTOMATIC, EDITOR_TEMPLATES, NO_EDITOR
from retriever.errors import RetrieverError
from retriever.settings.layers import profile_names

MAX_OFFERED = 200

_PLAIN = re.compile(r"[\w./#][\w./#~:@%+,=-]*")
"""What every shell takes as it stands. Names of documents are other people's words: what a shell would obey, such as
`a;b.md`, is never put into a command line."""


def any_folder(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Folders."""
    return [CompletionItem(incomplete, type="dir")]


def any_file(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Files."""
    return [CompletionItem(incomplete, type="file")]


def profile(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The names of profiles, or files where none fits."""
    names = [CompletionItem(name) for name in profile_names() if name.startswith(incomplete)]
    return names or any_file(context, parameter, incomplete)


def editor(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The names of editors."""
    names = (AUTOMATIC, NO_EDITOR, *EDITOR_TEMPLATES)
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


def reference(context: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Paths of documents; behind a `#` their sections."""
    try:
        found = _node_ids(context, incomplete)
    except (RetrieverError, sqlite3.Error):  # nothing can be said while somebody types
        return []
    return [CompletionItem(node_id) for node_id in found if _PLAIN.fullmatch(node_id)]


def _node_ids(context: click.Context, beginning: str) -> list[str]:
    from retriever.indexing.locations import absolute, find_index
    from retriever.store.database import open_database

    docs = tuple(map(absolute, context.params.get("docs") or ()))
    index = find_index(docs, context.params.get("index"))
    kind = "" if "#" in beginning else "AND parent_id IS NULL"
    with closing(open_database(index)) as connection:
        rows = connection.execute(
            f"SELECT node_id FROM nodes WHERE node_id >= ? AND node_id < ? {kind} ORDER BY node_id LIMIT ?",
            (beginning, f"{beginning}\U0010ffff", MAX_OFFERED),
        )
        return [node_id for (node_id,) in rows]
