"""The pages, each made of a query and the reader's preferences; called in threads."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from retriever.browsing import find_node
from retriever.errors import UsageError
from retriever.history import History
from retriever.serving.web.document import document, has_lines, listing
from retriever.serving.web.elements import element
from retriever.serving.web.frame import page
from retriever.serving.web.home import home
from retriever.serving.web.json_api import question_parameters
from retriever.serving.web.parameters import Choice, Number, Parameter, Switch, read_parameters
from retriever.serving.web.results import results
from retriever.serving.web.site import Preferences, Site, Visit
from retriever.serving.web.tree_view import Marks, branch, title_of, whole_tree
from retriever.serving.web.why import why

if TYPE_CHECKING:
    from retriever.retrieving import Retriever

NODE = Parameter("node", "What to read.", required=True)


class Pages:
    """Of one site.

    Every method raises RetrieverError; a ParametersError or UsageError when the query asks for what cannot be.
    """

    def __init__(self, site: Site) -> None:
        self._site = site
        question = question_parameters(site, required=False)
        self._ask: Sequence[Parameter] = (*question, Choice("view", "Of the answer.", choices=("", "why")))
        self._read = (NODE, *question)
        self._tree = (
            NODE,
            *question,
            Number("first", "The place of the first child, from 0.", default=0),
            Number("count", "How many children; all that follow by default.", low=1),
            Switch("fragment", "Whether the list alone is wanted."),
        )

    def ask(self, query: bytes, preferences: Preferences) -> str:
        """The answer to the question, or the page without one."""
        values = read_parameters(query, self._ask)
        visit = self._visit("/", query, values, preferences)
        if not visit.question.strip():
            return self._home(visit)
        timed = self._site.search(visit.question, visit.profile)
        hits = {hit.node_id: hit.rank for hit in timed.answer.hits}
        with self._site.library.retriever(visit.profile) as retriever, retriever.view() as view:
            contents = self._site.contents(view)
            main = why(contents, timed, visit) if values["view"] == "why" else results(view, timed, visit)
            return page(self._site, visit, timed.answer.question, main, whole_tree(contents, Marks(hits), visit))

    def read(self, query: bytes, preferences: Preferences) -> str:
        """A section, a file, a folder, or some lines."""
        values = read_parameters(query, self._read)
        visit = self._visit("/read", query, values, preferences)
        with self._site.library.retriever(visit.profile) as retriever:
            return self._reading(retriever, values["node"], visit)

    def _reading(self, retriever: "Retriever", reference: str, visit: Visit) -> str:
        """What the reference names, in one state of the index after the other."""
        with retriever.view() as view:
            contents = self._site.contents(view)
            entry = contents.get(reference)
            if entry is not None and not (entry.span or has_lines(entry)):
                tree = whole_tree(contents, Marks({}, entry.node_id), visit)
                return page(self._site, visit, title_of(entry), listing(entry, visit), tree)
        passage = retriever.read(reference)
        with retriever.view() as view:
            contents = self._site.contents(view)
            named, main = document(view, contents, passage, entry, visit)
            tree = whole_tree(contents, Marks({}, named.node_id), visit)
            return page(self._site, visit, title_of(named), main, tree)

    def tree(self, query: bytes, preferences: Preferences) -> str:
        """What a node contains: a page of its own, or the list that the script puts into one."""
        values = read_parameters(query, self._tree)
        visit = self._visit("/tree", query, values, preferences)
        with self._site.library.retriever(visit.profile) as retriever, retriever.view() as view:
            contents = self._site.contents(view)
            entry = contents.get(find_node(view.connection, contents, values["node"]))
            if entry is None:
                raise UsageError("there is no such node")
            if values["fragment"]:
                return branch(entry, visit, values["first"], values["count"])
            main = listing(entry, visit, values["first"], values["count"])
            tree = whole_tree(contents, Marks({}, entry.node_id), visit)
            return page(self._site, visit, title_of(entry), main, tree)

    def failure(self, message: str, preferences: Preferences) -> str:
        """What went wrong, and what to do."""
        main = element("div", element("h1", "This did not work"), element("p", message), class_="failure")
        return page(self._site, Visit(preferences=preferences, path="/"), "Error", main)

    def _home(self, visit: Visit) -> str:
        with self._site.library.retriever(visit.profile) as retriever:
            status = retriever.status()
            with retriever.view() as view:
                contents = self._site.contents(view)
        main = home(self._site, status, History(Path(status.index.path)).queries(), visit)
        return page(self._site, visit, "", main, whole_tree(contents, Marks({}), visit))

    def _visit(self, path: str, query: bytes, values: Mapping[str, Any], preferences: Preferences) -> Visit:
        """The profile is named in addresses where it is not the library's own."""
        profile = "" if values["profile"] == self._site.library.profile else values["profile"]
        whole = f"{path}?{query.decode('latin-1')}" if query else path
        return Visit(values["question"], profile, preferences, whole)
