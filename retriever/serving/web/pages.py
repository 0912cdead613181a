"""The pages, each made of a query and the reader's preferences with a template of templates/; called in threads."""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, Annotated, Any, Literal
from urllib.parse import parse_qs

from markupsafe import Markup
from pydantic import BeforeValidator, Field, SkipValidation

from pageindex.front_matter import read_front_matter
from pageindex.node import Node, NodeKind, Span
from retriever.display import phrases
from retriever.display.sanitize import open_templates, sanitize_line
from retriever.errors import UsageError
from retriever.indexing.consent import FolderAccess
from retriever.invocation import name_program
from retriever.lexical.tokens import tokenize
from retriever.looking.browse import Excerpt
from retriever.looking.history import QuestionLog
from retriever.looking.references import find_node
from retriever.looking.similar import find_similar
from retriever.query import Scope
from retriever.searching.open_index import View
from retriever.searching.question import MAX_QUESTION_CHARS
from retriever.served.task import new_nonce
from retriever.serving.web.drawn_tree import NO_TITLE, Gap, Outline, draw_branch, draw_tree
from retriever.serving.web.json_api import (
    MAX_NUMBER,
    AnswerParameters,
    Parameters,
    QuestionParameters,
    ScopedParameters,
    ShortText,
    read_parameters,
)
from retriever.serving.web.pictures import Picture, locate_picture, read_picture
from retriever.serving.web.section_html import RenderOptions, highlight, render_markdown
from retriever.serving.web.site import (
    EDITOR_NAMES,
    PAGE_WAIT_S,
    THEMES,
    Preferences,
    Site,
    Timed,
    Visit,
    address,
    wikilink,
)
from retriever.settings.layers import profile_names, profile_summary
from retriever.store import listing, reading
from retriever.store.reading import backlinks, link_ids
from retriever.store.store import open_store
from retriever.types import CitedSentence, Stage

if TYPE_CHECKING:
    from retriever.retriever import Retriever

# Of a document in one page; a link leads to the rest.
MAX_SHOWN_CHARS = 60_000
MAX_SHOWN_LINKS = 30
MAX_SIMILAR = 5
# Changed and skipped files that the first page names; long lists hide what is below them.
MAX_NAMED_FILES = 20
MAX_EXAMPLES = 6  # titles of documents that a first question may be
MAX_QUESTIONS = 15  # of those asked before
FIRST_RANKS = 10  # of each ranking
CUT_ABOVE = "…\n"  # what the text of a hit begins with, where it does not begin with its section
MAX_LINES_ABOVE = 5_000  # that are read to know what a text is in the middle of; they are shown elsewhere


class AskPageParameters(ScopedParameters):
    """Of /."""

    view: Literal["", "why"] = ""
    typing: bool = False
    """Whether the question is still being typed: the list of what is found is enough."""


class ReadPageParameters(QuestionParameters):
    """Of a page that shows what a node id, a path or a name stands for."""

    node: ShortText


def _read_lines(given: object) -> Span | None:
    lines = re.fullmatch(r"(\d{1,9})(?:-(\d{1,9}))?", str(given), re.ASCII)
    first, last = (int(lines[1]), int(lines[2] or lines[1])) if lines else (0, 0)
    if given and not 1 <= first <= last:
        raise ValueError("must be lines as first-last")
    return Span(first, last) if given else None


class PassagePageParameters(ReadPageParameters):
    """Of /read."""

    passage: Annotated[SkipValidation[Span | None], BeforeValidator(_read_lines)] = None  # where the page opens


class TreePageParameters(ReadPageParameters):
    """Of /tree."""

    first: int = Field(0, ge=0, le=MAX_NUMBER)  # the place of the first child, from 0
    count: int = Field(MAX_NUMBER, ge=1, le=MAX_NUMBER)  # how many children
    fragment: bool = False  # whether the list alone is wanted


class PictureParameters(Parameters):
    """Of /picture."""

    name: ShortText
    """The folder's prefix and the path in it, as in a node id."""


class Pages:
    """The pages of one site; every method raises RetrieverError: ParametersError for a wrong query."""

    def __init__(self, site: Site) -> None:
        self._site = site
        own = "A file of your own."
        known = profile_names()
        self._templates = open_templates(Path(__file__).parent / "templates")
        self._templates.tests["gap"] = lambda member: isinstance(member, Gap)
        self._templates.filters["line"] = sanitize_line
        self._templates.globals.update(
            phrases=phrases,
            pluralize=phrases.pluralize,
            program=name_program().rpartition(os.sep)[2],  # others may read it
            wikilink=wikilink,
            themes=THEMES,
            editors=EDITOR_NAMES,
            profile=site.library.profile,
            profiles={name: profile_summary(name) if name in known else own for name in site.profiles},
            no_title=NO_TITLE,
            stages=phrases.STAGES,
            max_links=MAX_SHOWN_LINKS,
            max_files=MAX_NAMED_FILES,
            first_ranks=FIRST_RANKS,
        )

    def ask(self, query: bytes, preferences: Preferences) -> str:
        given = read_parameters(query, AskPageParameters, self._site.profiles)
        visit = self._visit("/", query, given, preferences)
        if not visit.question.strip():
            return self._home(visit)
        timed = self._site.search(given.request, visit.profile, typing=given.typing, wait_s=PAGE_WAIT_S)
        answer = timed.answer
        # While somebody types, the list alone is sent: the rest of the page stays as it is.
        if given.typing:
            stems = frozenset(answer.matched_words)
            return self._render("typing.html", visit, answer=answer, highlight=partial(highlight, words=stems))
        with self._site.open(visit.profile) as retriever, retriever.view() as view:
            outline = self._site.outline(view)
            values = (
                self._explain(timed, outline)
                if given.view == "why"
                else self._show_hits(view, timed, visit, retriever.access)
            )
            ranks = {hit.node_id: hit.rank for hit in answer.hits}
            tree = draw_tree(outline, ranks)
        template = "why.html" if given.view == "why" else "answer.html"
        return self._render(template, visit, title=answer.question, tree=tree, timed=timed, ranks=ranks, **values)

    def answer(self, query: bytes, preferences: Preferences) -> Iterator[str]:
        """The page with a short answer, in pieces: each sentence comes as soon as it is checked."""
        given = read_parameters(query, AnswerParameters, self._site.profiles)
        visit = self._visit("/answer", query, given, preferences)
        # The search and the model run beside the page, which begins as soon as the sections are known.
        events: SimpleQueue[Timed | CitedSentence | None] = SimpleQueue()
        worker = ThreadPoolExecutor(1)
        written = worker.submit(self._site.answer, given.request, visit.profile, events.put, events.put, PAGE_WAIT_S)
        written.add_done_callback(lambda _: events.put(None))
        worker.shutdown(wait=False)
        timed = events.get()
        if not isinstance(timed, Timed):
            written.result()  # raises what stood in the way
            raise AssertionError("the sections come before the sentences")
        with self._site.open(visit.profile) as retriever, retriever.view() as view:
            values = self._show_hits(view, timed, visit, retriever.access)
            ranks = {hit.node_id: hit.rank for hit in timed.answer.hits}
            tree = draw_tree(self._site.outline(view), ranks)
        place = new_nonce()  # where the sentences come
        page = self._render(
            "answer.html", visit, title=timed.answer.question, tree=tree, timed=timed, place=place, **values
        )
        # One page in three parts, so that it works without a script: what is above the sentences, they, the rest.
        before, _, after = page.partition(place)

        def write() -> Iterator[str]:
            yield before
            for sentence in iter(events.get, None):
                yield self._render("sentence.html", visit, sentence=sentence)
            yield self._render("sentence.html", visit, short=written.result()[0]) + after

        return write()

    def _show_hits(self, view: View, timed: Timed, visit: Visit, access: FolderAccess) -> dict[str, Any]:
        stems = frozenset(timed.answer.matched_words)
        texts = {}
        for hit in timed.answer.hits:
            text, above, first = hit.text, list[str](), hit.span.first
            if text.startswith(CUT_ABOVE):  # it begins with the passage, perhaps inside a table or a block of code
                text, first = text.removeprefix(CUT_ABOVE), hit.passage.first
                body = view.tree.read([hit.node_id])[hit.node_id].body
                above = body.split("\n")[: first - hit.span.first]
            passage = hit.passage if hit.passage != hit.span else None
            shown = RenderOptions(
                words=stems, title=hit.title, top_level=3, passage=passage, first_line=first, name=f"{hit.rank}-"
            )
            texts[hit.node_id] = _render_text(view, hit.node_id, above, text, shown, visit, access)
        return {"texts": texts, "highlight": partial(highlight, words=stems)}

    def _explain(self, timed: Timed, outline: Outline) -> dict[str, Any]:
        opening = timed.spent.opening
        stages = [
            Stage("open", opening, "modules and index" if opening >= 1 else "open already"),
            *timed.answer.trace.stages,
        ]
        skipped = [f"{stage.name}: switched off, or nothing to do" for stage in stages if stage.skipped]
        return {
            "stages": stages,
            "sources": [f"{phrases.SOURCES[item.source]}, {item.scale}" for item in timed.answer.trace.rankings],
            "skipped": [*skipped, *timed.answer.degraded],
            "neighbors": [(hit, item.via) for hit in timed.answer.hits for item in hit.evidence if item.via],
            "label": outline.label,
        }

    def _home(self, visit: Visit) -> str:
        with self._site.open(visit.profile) as retriever:
            status = retriever.status()
            with retriever.view() as view:
                outline = self._site.outline(view)
                overview = self._site.overview(view)
        history = QuestionLog(open_store(status.index.path)).queries()[:MAX_QUESTIONS]
        changed = [(path, "") for path in status.changed_files]
        return self._render(
            "home.html",
            visit,
            tree=draw_tree(outline),
            status=status,
            overview=overview,
            examples=overview.titles[:MAX_EXAMPLES],
            changed_files=changed,
            history=history,
        )

    def read(self, query: bytes, preferences: Preferences) -> str:
        given = read_parameters(query, PassagePageParameters, self._site.profiles)
        visit = self._visit("/read", query, given, preferences)
        with self._site.open(visit.profile) as retriever:
            return self._read_node(retriever, given.node, given.passage, visit)

    def _read_node(self, retriever: "Retriever", reference: str, passage: Span | None, visit: Visit) -> str:
        with retriever.view() as view:
            outline = self._site.outline(view)
            # A reference may name what has no lines: then the page is a list of what is below it.
            named = outline.find(reference)
            # A folder has no text; a file without lines of its own has that of its sections, an empty one none.
            is_list = named and (named.kind is NodeKind.FOLDER or not (named.span or outline.tree.children(named.id)))
            if named and is_list:
                return self._list(outline, named, visit, 0, MAX_NUMBER)
        excerpt = retriever.read(reference)
        # Lines that begin inside a block are read with what is above them in their section.
        section = excerpt if named else retriever.read(excerpt.node_id)
        above = section.text.split("\n")[: max(0, excerpt.span.first - section.span.first)]
        with retriever.view() as view:
            outline = self._site.outline(view)
            node = outline.find(named.id if named else excerpt.node_id)
            if node is None:
                raise UsageError("the documents have just changed; ask again")
            return self._show_excerpt(retriever, view, outline, node, excerpt, above, passage, visit)

    def _show_excerpt(
        self,
        retriever: "Retriever",
        view: View,
        outline: Outline,
        node: Node,
        excerpt: Excerpt,
        above: Sequence[str],
        passage: Span | None,
        visit: Visit,
    ) -> str:
        """Show an excerpt, whose section has the lines `above` it, with its neighbors in the tree and its links."""
        label, shown = outline.label(node.id), _cut(excerpt, passage)
        above = [*above, *excerpt.text.split("\n")[: shown.span.first - excerpt.span.first]]
        stems = frozenset(tokenize(visit.question))
        options = RenderOptions(
            words=stems, title=label, passage=passage, passage_id="passage", first_line=shown.span.first
        )
        front_matter, text = "", shown.text
        if shown.span.first == 1 and (lines := read_front_matter(text).lines):  # it is shown as it is written
            pieces = text.split("\n", lines)
            front_matter, text, options = "\n".join(pieces[:lines]), pieces[-1], replace(options, first_line=1 + lines)
        page = _render_text(view, shown.node_id, above, text, options, visit, retriever.access)
        following = ""
        if shown.span.last < excerpt.span.last:
            file = next(item for item in outline.path_to(node.id) if item.kind is NodeKind.FILE)
            following = f"{file.id}:{shown.span.last + 1}-{excerpt.span.last}"
        family = outline.family(node.id)
        place = family.index(node)
        leads_to = [target for _, target, _ in reading.link_targets_of_nodes(view.connection, [node.id])]
        leads_here = backlinks(view.connection, node.id, MAX_SHOWN_LINKS + 1)
        around = {
            "Before": [sibling.id for sibling in family[max(0, place - 1) : place]],
            "After": [sibling.id for sibling in family[place + 1 : place + 2]],
            "Links to": [node_id for node_id in dict.fromkeys(leads_to) if node_id in outline.tree],
            "Linked from": [node_id for node_id in leads_here if node_id in outline.tree],
        }
        # What is similar is an extra of the page, which is shown without it.
        try:
            near = find_similar(view, node.id, retriever.access, MAX_SIMILAR).sections
        except UsageError:  # it has no text, or the index no vectors
            near = ()
        return self._render(
            "document.html",
            visit,
            title=label,
            tree=draw_tree(outline, here=node.id),
            above=outline.path_to(node.id)[:-1],
            label=outline.label,
            excerpt=shown,
            beginning=node.id if shown.span.first > excerpt.span.first else "",
            front_matter=front_matter,
            text=page,
            following=following,
            rest=Span(shown.span.last + 1, excerpt.span.last) if following else None,
            around=around,
            similar=near,
        )

    def tree(self, query: bytes, preferences: Preferences) -> str:
        """What a node contains: a page of its own, or the list that the script puts into one."""
        given = read_parameters(query, TreePageParameters, self._site.profiles)
        visit = self._visit("/tree", query, given, preferences)
        with self._site.open(visit.profile) as retriever, retriever.view() as view:
            outline = self._site.outline(view)
            node = outline.tree.node(find_node(view.connection, outline.tree, given.node))
        if given.fragment:
            branches = draw_branch(outline, node.id, given.first, given.count)
            return self._templates.get_template("fragment.html").render(visit=visit, branches=branches)
        return self._list(outline, node, visit, given.first, given.count)

    def _list(self, outline: Outline, node: Node, visit: Visit, first: int, count: int) -> str:
        return self._render(
            "list.html",
            visit,
            title=outline.label(node.id),
            tree=draw_tree(outline, here=node.id),
            above=outline.path_to(node.id)[:-1],
            label=outline.label,
            branches=draw_branch(outline, node.id, first, count),
        )

    def picture(self, query: bytes) -> Picture:
        """A picture of a document."""
        given = read_parameters(query, PictureParameters)
        with self._site.open() as retriever, retriever.view() as view:
            folders, access = reading.folders(view.connection), retriever.access
        return read_picture(folders, given.name, access)

    def failure(self, message: str, path: str, query: bytes, preferences: Preferences) -> str:
        visit = self._repeat_visit(path, query, preferences)
        return self._render("failure.html", visit, title="Error", message=message)

    def waiting(self, path: str, query: bytes, preferences: Preferences) -> str:
        """How far the first reading of the documents is: the page that was wanted takes its place by itself."""
        visit = self._repeat_visit(path, query, preferences)
        return self._render("waiting.html", visit, title="Reading", last=self._site.library.progress.last)

    def _repeat_visit(self, path: str, query: bytes, preferences: Preferences) -> Visit:
        """Of a page that cannot be shown: what was asked, right or wrong, stays in the form."""
        given = parse_qs(query.decode("latin-1"), errors="surrogateescape")
        folders, tags, where = (tuple(given.get(name, ())) for name in ("in", "tag", "where"))
        question, since, until = (given.get(name, [""])[0] for name in ("question", "since", "until"))
        whole = f"{path}?{query.decode('latin-1')}" if query else path
        scope = Scope(folders, tags, since, until, where)
        return Visit(question[:MAX_QUESTION_CHARS], preferences=preferences, path=whole, scope=scope)

    def _visit(self, path: str, query: bytes, given: QuestionParameters, preferences: Preferences) -> Visit:
        """The profile is named in addresses where it is not the library's own."""
        profile = "" if given.profile == self._site.library.profile else given.profile
        whole = f"{path}?{query.decode('latin-1')}" if query else path
        return Visit(given.question, profile, given.after, preferences, whole, getattr(given, "scope", Scope()))

    def _render(self, template: str, visit: Visit, *, title: str = "", **values: Any) -> str:  # noqa: ANN401 - the template's own
        return self._templates.get_template(template).render(
            {"visit": visit, "title": title, "tree": [], "choices": self._site.choices, **values}
        )


def _cut(excerpt: Excerpt, passage: Span | None) -> Excerpt:
    """The excerpt, or as many whole lines of it as one page shows: at least one, and the passage among them."""
    if len(excerpt.text) <= MAX_SHOWN_CHARS:
        return excerpt
    # Cut between lines: a page that begins or ends inside one would cite what it does not show.
    end = excerpt.text.rfind("\n", 0, MAX_SHOWN_CHARS) + 1 or excerpt.text.find("\n") + 1
    text, first = excerpt.text[:end], excerpt.span.first
    last = first + text.count("\n") - 1
    if passage and first < passage.first <= excerpt.span.last and passage.last > last:
        rest = excerpt.text.split("\n", passage.first - first)[-1]
        return _cut(replace(excerpt, span=Span(passage.first, excerpt.span.last), text=rest), None)
    return replace(excerpt, span=Span(first, last), text=text)


def _render_text(
    view: View,
    node_id: str,
    above: Sequence[str],
    text: str,
    options: RenderOptions,
    visit: Visit,
    access: FolderAccess,
) -> Markup:
    """Return a node's text, or a part of it with the node's lines `above` it, as HTML whose links lead where they do.

    `options.first_line` is that of the text.
    """
    above = above[-MAX_LINES_ABOVE:]
    links = _load_links(view, node_id, visit, access)
    options = replace(options, first_line=options.first_line - len(above), skipped_lines=len(above))
    options = replace(options, resolve=links.resolve, picture=links.picture, definitions=links.definitions)
    return render_markdown("\n".join([*above, text]), options)


def _load_links(view: View, node_id: str, visit: Visit, access: FolderAccess) -> RenderOptions:
    """Where the links and pictures of a node's document lead; nowhere for one that is not in the index."""
    view.tree.load_nodes([node_id])
    node = view.tree.read([node_id]).get(node_id)
    if node is None:
        return RenderOptions()
    key = view.tree.document_key(node.id)
    targets: Mapping[tuple[str, str, str], str] = link_ids(view.connection, key)
    folder = next(listing.cited_documents(view.connection, [key])).folder
    # Folders of one index may hold files of one path: the prefix says which is meant.
    prefix = next(item.prefix for item in reading.folders(view.connection) if item.path == folder)

    def resolve(kind: str, path: str, anchor: str) -> str | None:
        target = targets.get((str(kind), path, anchor))
        return None if target is None else visit.read(target)

    def picture(source: str, by_name: bool) -> str | None:
        known = folder in access.folders
        path = locate_picture(folder, node.path, source, by_name=by_name) if known else ""
        return address("/picture", name=f"{prefix}{path}") if path else None

    # `[text][label]` leads where the end of the file says, which may be another section.
    texts = (stored.node.text for stored in reading.nodes_of_documents(view.connection, [key]))
    definitions = "\n".join(line for text in texts for line in _DEFINITION.findall(text))
    return RenderOptions(resolve, picture, definitions=definitions)


_DEFINITION = re.compile(r"^ {0,3}\[[^\[\]\n^][^\[\]\n]{0,999}\]:[^\n]*$", re.MULTILINE)
