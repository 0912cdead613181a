"""The web page and the JSON API: each page is made with a template of templates/ by a method that answers its address.

Nothing here is a coroutine, so that Starlette answers each request in a thread. The API gives the objects that the
command line prints with --json.
"""

import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from markupsafe import Markup
from pydantic import Field
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from pageindex.dialects import COMMONMARK, get_dialect
from pageindex.front_matter import read_front_matter
from pageindex.node import Node, NodeKind, Span, folder_id
from retriever import display
from retriever.display import add_version, dump, dump_answer, open_templates
from retriever.errors import (
    NotReadyError,
    ParametersError,
    QuestionError,
    RetrieverError,
    ScopeError,
    UnknownReferenceError,
    UsageError,
)
from retriever.indexing.request import FolderAccess
from retriever.lexical.tokens import tokenize
from retriever.looking.browse import find_relations, read_excerpt
from retriever.looking.status import list_titles
from retriever.places.view import Choices, View
from retriever.retriever import Retriever
from retriever.searching.hits import find_opening
from retriever.serving import Arguments, ServedIndex, cut_excerpt
from retriever.serving.section_html import (
    RenderOptions,
    cut_lines,
    highlight,
    locate_picture,
    read_picture,
    render_markdown,
    widen,
)
from retriever.serving.web_parts import (
    NO_TITLE,
    AskArguments,
    Outline,
    Visit,
    address,
    draw_tree,
    parse_query,
    read_outline,
    read_query,
)
from retriever.settings import profile_names, profile_summary
from retriever.store import reading
from retriever.store.reading import StoredFolder, StoredState, link_ids
from retriever.trace import Spent, milliseconds_since
from retriever.types import Cited, CitedSentence, Hit

PAGE_WAIT_S = 0.5  # how long a page waits for the documents to be read before it says how far that is
MAX_SHOWN_BYTES = 60_000  # of a document in one page; a link leads to the rest
MAX_RELATED = 10  # of each kind
MAX_LISTED = 1_000  # files of a folder, on the first page
MAX_EXCERPT_LINES = 24  # of a passage below its hit
FIRST_LINES = 6  # of a section whose heading was found
PICTURE_HEADERS = {
    "Cache-Control": "private, max-age=60",  # a document and its pictures are edited together
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; sandbox",
}
NO_SUCH_PAGE = "there is no such page; / asks a question"


class ReadVisit(Visit):
    """Of /read: what a node id, a path or a name refers to."""

    node: str
    first: int = Field(0, ge=0)  # line of the passage at which the page opens; 0: none
    last: int = 0

    @property
    def passage(self) -> Span | None:
        """Return the lines that are marked."""
        return Span(self.first, max(self.first, self.last)) if self.first else None


class PictureArguments(Arguments):
    """Of /picture."""

    file: str
    folder: str = ""
    """Its prefix, as in a node id; the first folder's is empty."""


class Pages:
    """The pages of one index; each method raises RetrieverError: ParametersError for a wrong query."""

    def __init__(self, library: ServedIndex) -> None:
        self._library = library
        # The outline of the state of the index that was read last, replaced as a whole: threads share it.
        self._outline: tuple[StoredState, Outline] | None = None
        self._templates = open_templates(Path(__file__).parent / "templates")
        self._templates.globals.update(
            display=display,
            highlight=highlight,
            profile=library.profile,
            profiles={name: profile_summary(name) for name in profile_names()},
            no_title=NO_TITLE,
        )

    def _open(self, profile: str) -> Retriever:
        """Return the retriever for a page; NotReadyError very soon, as a page then shows how far it is."""
        return self._library.open(profile, wait_s=PAGE_WAIT_S)

    def _read_outline(self, view: View) -> Outline:
        """Return the outline of a state of the index, read once."""
        known = self._outline
        if known is None or known[0] != view.state:
            known = self._outline = view.state, read_outline(view)
        return known[1]

    def ask(self, request: Request, *, quoted: bool = True) -> Response:
        """Return the page of a question, with the lines that answer it; or the page without a question.

        Without `quoted` a language model writes the answer, and the page comes when that is checked.
        """
        visit = read_query(request, Visit)
        if not visit.question.strip():
            return self._home(visit)
        begun = time.perf_counter()
        retriever = self._open(visit.profile)
        short = retriever.answer(visit.request, quoted=quoted)
        answer, access = short.answer, retriever.access
        sentences = () if short.writer else short.sentences
        options = RenderOptions(marked=answer.marked, top_level=3, unfolded=True)
        with retriever.view() as view:
            excerpt = partial(_render_excerpt, view, options=options, visit=visit, access=access)
            excerpts = {hit.node_id: excerpt(hit) for hit in answer.hits}
            quotes: list[tuple[CitedSentence, Markup]] = []
            for one in sentences:
                shown = excerpts.pop(one.node_id, Markup())
                # Where no lines stand out, the sentence itself is quoted: the first lines of a long section are others.
                if not shown or len(one.span) > MAX_EXCERPT_LINES:
                    shown = Markup("<br>").join(highlight(row, answer.marked) for row in one.text.split("\n"))
                quotes.append((one, shown))
            tree = draw_tree(self._read_outline(view), {hit.node_id: hit.rank for hit in answer.hits})
        return self._render(
            "answer.html",
            visit,
            title=answer.question,
            answer=answer,
            short=short,
            quoted=quoted,
            quotes=quotes,
            can_write=retriever.profile.answer.kind != "extractive",
            excerpts=excerpts,
            tree=tree,
            milliseconds=milliseconds_since(begun),
        )

    def list_typed(self, request: Request) -> Response:
        """Return the list of what is found for a question that may not be whole yet; the rest of the page stays."""
        visit = read_query(request, Visit)
        answer = self._open(visit.profile).search(replace(visit.request, is_typing=True))
        return self._render("typed.html", visit, answer=answer)

    def _home(self, visit: Visit) -> Response:
        retriever = self._open(visit.profile)
        status = retriever.status()
        with retriever.view() as view:
            outline, titles = self._read_outline(view), list_titles(view.connection, view.state.folders)
            recent = {
                folder_id(folder.prefix, ""): list(_list_recent(view, folder))
                for folder in reading.folders(view.connection)
            }
        return self._render(
            "home.html",
            visit,
            status=status,
            titles=titles,
            outline=outline,
            recent=recent,
        )

    def read(self, request: Request) -> Response:
        """Return the page of what a node id, a path or a name refers to: its text, or a list of what is below it."""
        visit = read_query(request, ReadVisit)
        retriever = self._open(visit.profile)
        access = retriever.access
        with retriever.view() as view:
            outline = self._read_outline(view)
            named = outline.find(visit.node)
            # A folder has no text; a file without lines of its own has that of its sections, an empty one none.
            if named and (named.kind is NodeKind.FOLDER or not (named.span or outline.tree.children(named.id))):
                nodes = outline.tree.children(named.id)
                return self._render("document.html", visit, nodes=nodes, **_show_place(outline, named))
            excerpt = read_excerpt(view.connection, visit.node, access)
            node = named or outline.tree.node(excerpt.node_id)
            shown, following = cut_excerpt(excerpt, MAX_SHOWN_BYTES, visit.first)
            # Lines may begin inside a block: what is above them in their file says what they are.
            whole = excerpt if named else read_excerpt(view.connection, excerpt.cited_as, access)
            opening = find_opening(whole.text.split("\n"), shown.span.first - whole.span.first)
            rows = shown.text.split("\n")
            front_matter = read_front_matter(shown.text).lines if shown.span.first == 1 else 0
            languages = view.lexical.languages
            options = RenderOptions(
                marked=(tokenize(visit.question, languages), languages),
                title=outline.label(node.id),
                passage=visit.passage,
                unfolded=visit.passage is not None,
                first_line=shown.span.first + front_matter - len(opening),
            )
            markdown = "\n".join([*opening, *rows[front_matter:]])
            text = _render_text(view, excerpt, markdown, options, visit, access)
            around = find_relations(view, node.id, access, MAX_RELATED)
        return self._render(
            "document.html",
            visit,
            excerpt=shown,
            front_matter="\n".join(rows[:front_matter]),
            text=text,
            following=following,
            around=around.beside,
            **_show_place(outline, node),
        )

    def picture(self, request: Request) -> Response:
        """Return a picture of a document."""
        given = read_query(request, PictureArguments)
        retriever = self._open("")
        with retriever.view() as view:
            folders = {folder.prefix: folder.path for folder in reading.folders(view.connection)}
        content, media_type = read_picture(folders.get(given.folder, ""), given.file, retriever.access)
        return Response(content, media_type=media_type, headers=PICTURE_HEADERS)

    def failure(self, request: Request, error: Exception) -> Response:
        """Return what went wrong, and what to do: as JSON below /api and as a page elsewhere.

        During the first indexing it shows how far that is, and the page that was asked for replaces it by itself.
        """
        message, status, headers = str(error), 503, None
        match error:
            case HTTPException():  # of Starlette: its messages do not say what to do
                status, headers = error.status_code, error.headers
                message = NO_SUCH_PAGE if status == 404 else error.detail.lower()
            case ParametersError() | QuestionError() if not isinstance(error, ScopeError):
                status = 422
            case UsageError():
                status = 404
        if request.url.path.startswith("/api/"):
            return JSONResponse({"error": message}, status, headers)
        visit = Visit.model_construct(**parse_query(request, Visit))  # right or wrong, it stays in the form
        if isinstance(error, NotReadyError):
            page = self._render("waiting.html", visit, title="Reading", last=self._library.progress)
        else:
            near = error.near if isinstance(error, UnknownReferenceError) else ()
            page = self._render("failure.html", visit, title="Error", message=message, status=status, near=near)
        return HTMLResponse(page.body, status, headers)

    def _render(self, template: str, visit: Visit, **values: Any) -> Response:  # noqa: ANN401 - the template's own
        choices = self._outline[1].choices if self._outline else Choices()
        shown = {"visit": visit, "choices": choices, "title": "", "tree": [], **values}
        return HTMLResponse(self._templates.get_template(template).render(shown))


def _show_place(outline: Outline, node: Node) -> dict[str, Any]:
    """Return what the page of a node shows besides its content: its title, and where it is."""
    return {
        "title": outline.label(node.id),
        "node": node,
        "tree": draw_tree(outline, {}, node.id),
        "above": outline.path_to(node.id)[:-1],
        "label": outline.label,
    }


def _list_recent(view: View, folder: StoredFolder) -> Iterator[tuple[str, str]]:
    """Yield the node ids and the ages of a folder's files, the latest first; none if there are folders in it."""
    now, files = time.time(), reading.files(view.connection, folder.key).values()
    documents = [file for file in files if file.key]  # the others could not be read
    if not any("/" in document.path for document in documents):
        written = {document.path: document.mtime_ns / 1e9 or now for document in documents}  # 0: a moment ago
        for path in sorted(written, key=written.__getitem__, reverse=True)[:MAX_LISTED]:
            yield f"{folder.prefix}{path}", display.format_age(now - written[path])


def _render_excerpt(view: View, hit: Hit, *, options: RenderOptions, visit: Visit, access: FolderAccess) -> Markup:
    """Return the passage of a hit as HTML."""
    node = view.tree.read([hit.node_id]).get(hit.node_id)
    # It went since it was found; a property, above the section.
    if node is None or node.body_span is None or not hit.span.overlap(hit.passage):
        return highlight(hit.sentence, options.marked)
    body, above = node.body.split("\n"), node.body_span.first
    first = max(0, hit.passage.first - hit.span.first)
    end = first + min(len(hit.passage), MAX_EXCERPT_LINES)
    if not first and body[0].startswith("#"):  # the heading is shown above: what follows it
        end = max(end, FIRST_LINES)
    span = widen(Span(above + first, above + end - 1), node.units)
    markdown = cut_lines(body, span.first - above, span.last - above + 1, hit.verbatim)
    options = replace(options, title=hit.title)
    shown = _render_text(view, hit, markdown, options, visit, access)
    return shown if shown.strip() else highlight(hit.snippet, options.marked)  # a comment, or a line of layout


def _render_text(
    view: View, place: Cited, markdown: str, options: RenderOptions, visit: Visit, access: FolderAccess
) -> Markup:
    """Return text of a place as HTML whose links and pictures lead where they do; nowhere what is not in the index."""
    view.tree.load_nodes([place.node_id])
    key = view.tree.document_key(place.node_id)
    targets = link_ids(view.connection, key)
    # Folders of one index may hold files of one path: the prefix says which is meant.
    folder, prefix = place.folder, place.cited_as.removesuffix(place.file)

    def resolve(kind: str, path: str, anchor: str) -> str | None:
        target = targets.get((str(kind), path, anchor))
        return None if target is None else visit.read(target)

    def picture(source: str) -> str | None:
        path = locate_picture(folder, place.file, source) if folder in access.folders else ""
        return address("/picture", file=path, folder=prefix) if path else None

    # `[text][label]` leads where the end of the file says, which may be another section.
    texts = (stored.node.text for stored in reading.nodes_of_documents(view.connection, [key]))
    definitions = "\n".join(line for text in texts for line in _DEFINITION.findall(text))
    dialects = {folder.path: folder.dialect for folder in reading.folders(view.connection)}
    dialect = get_dialect(dialects.get(folder, COMMONMARK.name), place.file)
    options = replace(options, resolve=resolve, picture=picture, definitions=definitions, dialect=dialect)
    return render_markdown(markdown, options)


_DEFINITION = re.compile(r"^ {0,3}\[[^\[\]\n^][^\[\]\n]{0,999}\]:[^\n]*$", re.MULTILINE)


# The application, and how errors look in it.


def make_web_app(library: ServedIndex) -> Starlette:
    """Return the application of one index: its pages, its JSON API, and the pictures of its documents."""
    pages = Pages(library)

    def answer_call(call: type[Any], request: Request) -> Response:
        return JSONResponse(add_version(read_query(request, call).answer(library)))

    routes = [
        Route("/", pages.ask),
        Route("/typed", pages.list_typed),
        Route("/answer", partial(pages.ask, quoted=False)),
        Route("/read", pages.read),
        Route("/picture", pages.picture),
        *(Route(f"/api/{name}", partial(answer_call, call)) for name, call in API.items()),
        Mount("/static", StaticFiles(directory=Path(__file__).parent / "static")),
    ]
    return Starlette(
        routes=routes,
        exception_handlers=dict.fromkeys((RetrieverError, HTTPException), pages.failure),
    )


# The JSON API: the arguments of a call at each address, which answer it in a thread, or raise RetrieverError.


class SearchCall(AskArguments):
    """The sections that answer a question."""

    full: bool = False
    """Whether each hit has its section's text."""
    explain: bool = False
    """Whether the answer has its trace, and the texts that a language model made up to search with."""

    def answer(self, library: ServedIndex) -> dict[str, Any]:
        begun = time.perf_counter()
        answer = library.open(self.profile).search(self.request)
        return dump_answer(answer, Spent.since(begun, answer.trace.stages), full=self.full, explain=self.explain)


class AnswerCall(AskArguments):
    """A few sentences, and the sections."""

    def answer(self, library: ServedIndex) -> dict[str, Any]:
        begun = time.perf_counter()
        short = library.open(self.profile).answer(self.request)
        return dump_answer(short.answer, Spent.since(begun, short.answer.trace.stages), short)


class NodeCall(Arguments):
    """The text of a section, a file or lines of one."""

    reference: str

    def answer(self, library: ServedIndex) -> dict[str, Any]:
        return dict(dump(library.open().read(self.reference)))


API: Mapping[str, type[Any]] = {"search": SearchCall, "answer": AnswerCall, "node": NodeCall}
