"""What the pages and the API share: one library, the outline of its index, the addresses of its pages."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from retriever.display.editors import make_editor_link
from retriever.expansion.follow_up import MAX_SAID_CHARS, MAX_TURNS
from retriever.looking.browse import Excerpt
from retriever.looking.overview import Overview, read_overview
from retriever.query import AskRequest, Scope
from retriever.searching.open_index import View
from retriever.searching.scope import Choices, list_choices
from retriever.serving.pool import ServedIndex
from retriever.serving.web.drawn_tree import Outline, read_outline
from retriever.serving.web.examples import suggest_questions
from retriever.settings.layers import profile_names
from retriever.store.reading import StoredState
from retriever.store.store import Store
from retriever.trace import Spent, milliseconds_since
from retriever.types import Answer, CitedSentence, Hit, ShortAnswer

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from retriever.retriever import Retriever

WHILE_TYPING: Mapping[str, Any] = {"use_llm": False, "rerank": {"kind": "none"}}
PAGE_WAIT_S = 0.5
"""How long a page waits for the documents to be read before it says how far that is."""
STATIC = Path(__file__).parent / "static"


@dataclass(frozen=True, slots=True)
class Visit:
    """One request for a page; its methods give the addresses of other pages, which keep the question."""

    question: str = ""
    profile: str = ""  # as it was chosen; empty for the library's own
    after: tuple[str, ...] = ()  # the questions before it, oldest first
    scope: Scope = field(default_factory=Scope)  # the filters of the form, beside those in the question

    @property
    def turns(self) -> tuple[str, ...]:
        """What the next question follows: the last questions, with this one. They are kept in addresses alone."""
        before = (text for text in self.after if text != self.question)
        return tuple(text[:MAX_SAID_CHARS] for text in (*before, self.question) if text)[-MAX_TURNS:]

    @property
    def _asked(self) -> Mapping[str, Any]:
        return {"question": self.question, "profile": self.profile, "after": self.after}

    @property
    def _within(self) -> Mapping[str, Any]:
        filters = {"in": self.scope.folders, "tag": self.scope.tags, "where": self.scope.where}
        return {**filters, "since": self.scope.since, "until": self.scope.until}

    def ask(self) -> str:
        return address("/", **self._asked, **self._within)

    def ask_alone(self, question: str = "") -> str:
        """The address of a question that follows no other."""
        return address("/", question=question or self.question, profile=self.profile, **self._within)

    def ask_everywhere(self) -> str:
        """The address of the question without filters, under the library's own profile."""
        return address("/", question=self.question)

    def write(self) -> str:
        """The address of the page on which a language model writes the answer."""
        return address("/answer", **self._asked, **self._within)

    def read(self, node_id: str) -> str:
        return address("/read", node=node_id, **self._asked)

    def read_lines(self, place: Hit | CitedSentence) -> str:
        """The address of the section of a hit or sentence, opened at its passage."""
        lines = place.passage if isinstance(place, Hit) else place.span
        if isinstance(place, Hit) and lines == place.span:
            return self.read(place.node_id)
        return f"{address('/read', node=place.node_id, passage=str(lines), **self._asked)}#passage"


def link_editor(place: Hit | Excerpt | CitedSentence) -> str:
    """The address that opens a place in the editor of HYBRID_RETRIEVE_EDITOR; empty for none."""
    line = (place.passage if isinstance(place, Hit) else place.span).first
    return make_editor_link(f"{place.folder}/{place.file}", line, default="vscode")


def address(path: str, **parameters: str | int | Sequence[str] | None) -> str:
    """The path with those parameters that have a value; a name that is not UTF-8 is encoded byte by byte."""
    given = {name: value for name, value in parameters.items() if value not in (None, "", ())}
    return f"{path}?{urlencode(given, doseq=True, errors='surrogateescape', quote_via=quote)}" if given else path


@dataclass(frozen=True, slots=True)
class Timed:
    answer: Answer
    spent: Spent


MAX_READ = 20_000  # headings that a question is looked for in
_BEGINNINGS = (
    "SELECT nodes.title, summary, document_key FROM nodes JOIN documents USING (document_key)"
    " WHERE kind = 'section' AND boilerplate < .5 ORDER BY node_key LIMIT ?"
)


class Site:
    """A library, and the outline of the state of its index that was read last; shared by threads."""

    def __init__(self, library: ServedIndex) -> None:
        self.library = library
        self.profiles = tuple(dict.fromkeys((library.profile, *profile_names())))
        # Replaced as a whole: retrievers of two profiles may ask at once.
        self._outline: tuple[tuple[Store, StoredState], Outline] | None = None
        self.choices = Choices()  # of the state whose outline was read last
        self._overview: tuple[tuple[Store, StoredState], tuple[Overview, tuple[str, ...]]] | None = None

    def open(self, profile: str = "") -> "AbstractContextManager[Retriever]":
        """The open retriever for a page; NotReadyError very soon, as a page then shows how far it is."""
        return self.library.retriever(profile, wait_s=PAGE_WAIT_S)

    def search(self, request: AskRequest, profile: str, *, typing: bool = False, wait_s: float | None = None) -> Timed:
        """Return an answer; the first one of a profile opens what it needs.

        With `typing` the question may not be whole yet: no language model is asked, nothing is reranked.
        `wait_s` is as in `ServedIndex.retriever`.
        """
        begun = time.perf_counter()
        settings: Mapping[str, Any] = {}
        if typing:
            with self.library.retriever(profile, wait_s=wait_s) as retriever:
                chosen = retriever.profile
            if chosen.use_llm or chosen.rerank.kind != "none":
                settings = WHILE_TYPING
        with self.library.retriever(profile, settings, wait_s) as retriever:
            opening = milliseconds_since(begun)
            answer = retriever.search(request)
        return Timed(answer, Spent(opening, milliseconds_since(begun)))

    def answer(
        self,
        request: AskRequest,
        profile: str,
        on_found: Callable[[Timed], None] = lambda _: None,
        on_sentence: Callable[[CitedSentence], None] | None = None,
        wait_s: float | None = None,
        *,
        quoted: bool = False,
    ) -> tuple[ShortAnswer, Spent]:
        """Return a short answer; `on_found` is given the sections before it is written, `on_sentence` each sentence.

        Where it is to be `quoted`, no language model writes it.
        """
        begun = time.perf_counter()
        with self.library.retriever(profile, wait_s=wait_s) as retriever:
            opening = milliseconds_since(begun)

            def tell(answer: Answer) -> None:
                on_found(Timed(answer, Spent(opening, milliseconds_since(begun))))

            short = retriever.answer(request, on_found=tell, on_sentence=on_sentence, quoted=quoted)
        return short, Spent(opening, milliseconds_since(begun))

    def overview(self, view: View) -> tuple[Overview, tuple[str, ...]]:
        """Return what the index is about, and questions that it answers, read once for each state of it."""
        wanted = view.store, view.state
        known = self._overview
        if known is None or known[0] != wanted:
            rows = view.connection.execute(_BEGINNINGS, (MAX_READ,)).fetchall()
            known = self._overview = wanted, (read_overview(view.connection), suggest_questions(rows))
        return known[1]

    def outline(self, view: View) -> Outline:
        """The outline of a state of the index, read once."""
        wanted = view.store, view.state
        known = self._outline
        if known is None or known[0] != wanted:
            known = self._outline = wanted, read_outline(view.connection)
            self.choices = list_choices(view.documents)
        return known[1]
