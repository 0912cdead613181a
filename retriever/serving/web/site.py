"""What the pages and the API ask of a library: answers with their time, sections with their surroundings."""

import time
from dataclasses import dataclass

from pageindex.node import Node
from pageindex.tree import UnknownNodeError
from retriever.searching.open_index import View
from retriever.serving.pool import ServedIndex
from retriever.serving.web.addresses import address
from retriever.serving.web.contents import Contents, ContentsOfIndex
from retriever.serving.web.rendering import Resolver
from retriever.settings.layers import profile_names
from retriever.store.outline import link_ids
from retriever.timing import Spent, milliseconds_since
from retriever.types import Answer

THEMES = {"auto": "As the system", "light": "Light", "dark": "Dark"}
DEFAULT_EDITOR = "vscode"


@dataclass(frozen=True, slots=True)
class Preferences:
    """What a reader chose; kept in two cookies."""

    theme: str = "auto"
    """A key of THEMES."""
    editor: str = DEFAULT_EDITOR
    """A key of EDITOR_TEMPLATES."""


@dataclass(frozen=True, slots=True)
class Visit:
    """What one page is made for."""

    question: str = ""
    profile: str = ""
    """As it was chosen; empty for the library's own."""
    preferences: Preferences = Preferences()
    path: str = "/"
    """Of this page with its query: where a changed preference leads back to."""

    def read(self, node_id: str) -> str:
        """The address of a section, which keeps the question."""
        return address("/read", node=node_id, question=self.question, profile=self.profile)

    def tree(self, node_id: str, first: int | None = None, count: int | None = None) -> str:
        """The address of what is below a node."""
        return address("/tree", node=node_id, first=first, count=count, question=self.question, profile=self.profile)

    def ask(self, view: str = "") -> str:
        """The address of the answer, or of another view of it."""
        return address("/", question=self.question, profile=self.profile, view=view)


@dataclass(frozen=True, slots=True)
class Timed:
    """An answer, and how long its reader waited."""

    answer: Answer
    spent: Spent


class Site:
    """A library, and the table of contents of its index."""

    def __init__(self, library: ServedIndex) -> None:
        self.library = library
        self.profiles = tuple(dict.fromkeys((library.profile, *profile_names())))
        self._contents = ContentsOfIndex()

    def search(self, question: str, profile: str) -> Timed:
        """An answer; the first one of a profile opens what it needs."""
        begun = time.perf_counter()
        with self.library.retriever(profile) as retriever:
            opening = milliseconds_since(begun)
            answer = retriever.search(question)
        return Timed(answer, Spent(opening, milliseconds_since(begun)))

    def contents(self, view: View) -> Contents:
        """The table of contents of a state of the index."""
        return self._contents.of(view)


def loaded_node(view: View, node_id: str) -> Node | None:
    """The node with its text; None when it is not, or no longer, in the index, and for a folder."""
    view.tree.load_nodes([node_id])
    try:
        return view.tree.node(node_id)
    except UnknownNodeError:
        return None


def link_resolver(view: View, node_id: str, visit: Visit) -> Resolver:
    """Where the links of a loaded node's document lead on this page: exactly where the index says."""
    targets = link_ids(view.connection, view.tree.document_key(node_id))

    def resolve(kind: str, path: str, anchor: str) -> str | None:
        target = targets.get((str(kind), path, anchor))
        return None if target is None else visit.read(target)

    return resolve
