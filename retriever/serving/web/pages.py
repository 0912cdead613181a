"""The pages, each made of a query with a template of templates/; called in threads."""

import contextlib
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import parse_qs

from markupsafe import Markup
from pydantic import BeforeValidator, SkipValidation

from pageindex.front_matter import read_front_matter
from pageindex.node import Node, NodeKind, Span
from retriever.display import phrases
from retriever.display.sanitize import open_templates, sanitize_line
from retriever.errors import UsageError
from retriever.indexing.consent import FolderAccess
from retriever.invocation import name_program
from retriever.lexical.tokens import tokenize
from retriever.looking.browse import Excerpt
from retriever.looking.similar import find_similar
from retriever.query import Scope
from retriever.searching.open_index import View
from retriever.searching.question import MAX_QUESTION_CHARS
from retriever.served.task import new_nonce
from retriever.serving.web.drawn_tree import NO_TITLE, Outline, draw_tree, join_only_section
from retriever.serving.web.json_api import (
    AnswerParameters,
    Parameters,
    QuestionParameters,
    ScopedParameters,
    ShortText,
    read_parameters,
)
from retriever.serving.web.parse import WHOLE_LINES
from retriever.serving.web.pictures import Picture, locate_picture, read_picture
from retriever.serving.web.section_html import RenderOptions, highlight, render_markdown
from retriever.serving.web.site import PAGE_WAIT_S, Site, Timed, Visit, address, link_editor
from retriever.settings.layers import profile_names, profile_summary
from retriever.store import listing, reading
from retriever.store.reading import link_ids, link_sources
from retriever.types import CitedSentence, Hit

if TYPE_CHECKING:
    from retriever.retriever import Retriever

MAX_SHOWN_CHARS = 60_000  # of a document in one page; a link leads to the rest
MAX_LISTED = 1_000  # of what a folder holds
MAX_SHOWN_LINKS = 30
MAX_SIMILAR = 5
MAX_NAMED_FILES = 20  # changed and skipped ones, on the first page: long lists hide what is below them
MAX_EXCERPT_LINES = 24  # of a passage below its hit; the blocks that begin in them are shown whole
FIRST_LINES = 6  # of a section, where no passage of it stands out
MAX_LINES_ABOVE = 1_000  # that are read to know what a text is in the middle of


class AskPageParameters(ScopedParameters):
    """Of /."""

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


class PictureParameters(Parameters):
    """Of /picture."""

    name: ShortText
    """The folder's prefix and the path in it, as in a node id."""


class Pages:
    """The pages of one site; every method raises RetrieverError: ParametersError for a wrong query."""

    def __init__(self, site: Site) -> None:
        self._site = site
        known = profile_names()
        self._templates = open_templates(Path(__file__).parent / "templates")
        self._templates.filters["line"] = sanitize_line
        self._templates.globals.update(
            phrases=phrases,
            pluralize=phrases.pluralize,
            link_editor=link_editor,
            program=name_program().rpartition(os.sep)[2],  # others may read it
            profile=site.library.profile,
            profiles={
                name: profile_summary(name) if name in known else "A file of your own." for name in site.profiles
            },
            no_title=NO_TITLE,
            stages=phrases.STAGES,
            max_links=MAX_SHOWN_LINKS,
            max_files=MAX_NAMED_FILES,
        )

    def ask(self, query: bytes) -> str:
        """The page without a question, or the answer to one: quoted, for that takes no time."""
        given = read_parameters(query, AskPageParameters, self._site.profiles)
        visit = self._visit(given)
        if not visit.question.strip():
            return self._home(visit)
        # While somebody types, the list alone is sent: the rest of the page stays as it is.
        if given.typing:
            answer = self._site.search(given.request, visit.profile, typing=True, wait_s=PAGE_WAIT_S).answer
            words = frozenset(answer.matched_words)
            return self._render("typing.html", visit, answer=answer, highlight=partial(highlight, words=words))
        short, spent = self._site.answer(given.request, visit.profile, wait_s=PAGE_WAIT_S, quoted=True)
        return self._render(
            "answer.html", visit, **self._show_answer(Timed(short.answer, spent), visit, short.sentences)
        )

    def answer(self, query: bytes) -> Iterator[str]:
        """The answer that a language model writes, in pieces: each sentence comes as soon as it is checked."""
        given = read_parameters(query, AnswerParameters, self._site.profiles)
        visit = self._visit(given)
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
        place = new_nonce()  # where the sentences come
        page = self._render("answer.html", visit, place=place, **self._show_answer(timed, visit))
        # One page in three parts, so that it works without a script: what is above the sentences, they, the rest.
        before, _, after = page.partition(place)

        def write() -> Iterator[str]:
            yield before
            for sentence in iter(events.get, None):
                yield self._render("sentence.html", visit, sentence=sentence)
            yield self._render("sentence.html", visit, short=written.result()[0]) + after

        return write()

    def _show_answer(self, timed: Timed, visit: Visit, sentences: Sequence[CitedSentence] = ()) -> dict[str, Any]:
        """Return what the page of an answer shows: the lines that are quoted, and of each other hit its passage."""
        answer = timed.answer
        hits = {hit.node_id: hit for hit in answer.hits}
        words = frozenset(answer.matched_words)
        with self._site.open(visit.profile) as retriever, retriever.view() as view:

            def show(hit: Hit, lines: Span, name: str) -> Markup:
                options = RenderOptions(words=words, title=hit.title, top_level=3, name=name)
                return _render_lines(view, hit, lines, options, visit, retriever.access)

            # Where no lines stand out, the sentence itself is quoted: the first lines of a long section are others.
            quotes = [
                (
                    one,
                    show(hits[one.node_id], one.span, f"q{place}-")
                    if one.node_id in hits and len(one.span) <= MAX_EXCERPT_LINES
                    else highlight(one.text, words),
                )
                for place, one in enumerate(sentences)
            ]
            quoted = {one.node_id for one in sentences}
            excerpts = {
                hit.node_id: show(hit, hit.passage, f"{hit.rank}-") for hit in answer.hits if hit.node_id not in quoted
            }
            tree = draw_tree(self._site.outline(view), {hit.node_id: hit.rank for hit in answer.hits})
            can_write = retriever.profile.answer.kind != "extractive"
        shown = {"timed": timed, "quotes": quotes, "quoted": quoted, "excerpts": excerpts, "can_write": can_write}
        return shown | {"title": answer.question, "tree": tree, "highlight": partial(highlight, words=words)}

    def _home(self, visit: Visit) -> str:
        with self._site.open(visit.profile) as retriever:
            status = retriever.status()
            with retriever.view() as view:
                self._site.outline(view)  # what may be chosen as a filter
                overview, examples = self._site.overview(view)
        return self._render(
            "home.html",
            visit,
            status=status,
            changed=[(path, "") for path in status.changed_files],
            overview=overview,
            examples=examples,
        )

    def read(self, query: bytes) -> str:
        """What a node id, a path or a name stands for: its text, or a list of what is below it."""
        given = read_parameters(query, PassagePageParameters, self._site.profiles)
        visit = self._visit(given)
        with self._site.open(visit.profile) as retriever:
            with retriever.view() as view:
                outline = self._site.outline(view)
                named = outline.find(given.node)
                # A folder has no text; a file without lines of its own has that of its sections, an empty one none.
                if named and (named.kind is NodeKind.FOLDER or not (named.span or outline.tree.children(named.id))):
                    return self._list(outline, named, visit)
            excerpt = retriever.read(given.node)
            # Lines that begin inside a block are read with what is above them in their section.
            section = excerpt if named else retriever.read(excerpt.node_id)
            above = section.text.split("\n")[: max(0, excerpt.span.first - section.span.first)]
            with retriever.view() as view:
                outline = self._site.outline(view)
                node = outline.find(named.id if named else excerpt.node_id)
                if node is None:
                    raise UsageError("the documents have just changed; ask again")
                return self._show_excerpt(retriever, view, outline, node, excerpt, above, given.passage, visit)

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
        options = RenderOptions(
            words=frozenset(tokenize(visit.question)), title=label, passage=passage, passage_id="passage"
        )
        front_matter, text, first = "", shown.text, shown.span.first
        if first == 1 and (lines := read_front_matter(text).lines):  # it is shown as it is written
            pieces = text.split("\n", lines)
            front_matter, text, first = "\n".join(pieces[:lines]), pieces[-1], 1 + lines
        above = above[-MAX_LINES_ABOVE:]
        options = replace(options, first_line=first - len(above), shown=(len(above), None))
        page = _render_text(view, shown.node_id, "\n".join([*above, text]), options, visit, retriever.access)
        following = ""
        if shown.span.last < excerpt.span.last:
            file = next(item for item in outline.path_to(node.id) if item.kind is NodeKind.FILE)
            following = f"{file.id}:{shown.span.last + 1}-{excerpt.span.last}"
        family = outline.family(node.id)
        place = family.index(node)
        leads_to = [target for _, target, _ in reading.link_targets_of_nodes(view.connection, [node.id])]
        leads_here = [node_id for node_id, _ in link_sources(view.connection, node.id)[: MAX_SHOWN_LINKS + 1]]
        around = {
            "Before": [sibling.id for sibling in family[max(0, place - 1) : place]],
            "After": [sibling.id for sibling in family[place + 1 : place + 2]],
            "Links to": [node_id for node_id in dict.fromkeys(leads_to) if node_id in outline.tree],
            "Linked from": [node_id for node_id in leads_here if node_id in outline.tree],
        }
        # What is similar is an extra of the page, which is shown without it.
        with contextlib.suppress(UsageError):  # it has no text, or the index no vectors
            found = find_similar(view, node.id, retriever.access, MAX_SIMILAR).sections
            around["Similar"] = [item.node_id for item in found]
        return self._render(
            "document.html",
            visit,
            title=label,
            tree=draw_tree(outline, here=node.id),
            above=outline.path_to(node.id)[:-1],
            label=outline.label,
            excerpt=shown,
            front_matter=front_matter,
            text=page,
            following=following,
            around=around,
        )

    def _list(self, outline: Outline, node: Node, visit: Visit) -> str:
        nodes = [join_only_section(outline, child) for child in outline.tree.children(node.id)]
        return self._render(
            "list.html",
            visit,
            title=outline.label(node.id),
            tree=draw_tree(outline, here=node.id),
            above=outline.path_to(node.id)[:-1],
            label=outline.label,
            nodes=nodes[:MAX_LISTED],
            more=len(nodes) - len(nodes[:MAX_LISTED]),
        )

    def picture(self, query: bytes) -> Picture:
        """A picture of a document."""
        given = read_parameters(query, PictureParameters)
        with self._site.open() as retriever, retriever.view() as view:
            folders, access = reading.folders(view.connection), retriever.access
        return read_picture(folders, given.name, access)

    def failure(self, message: str, status: int, near: Sequence[str], query: bytes) -> str:
        """What went wrong, and what to do."""
        visit = self._repeat_visit(query)
        return self._render("failure.html", visit, title="Error", message=message, status=status, near=near)

    def waiting(self, query: bytes) -> str:
        """How far the first reading of the documents is: the page that was wanted takes its place by itself."""
        last = self._site.library.progress.last
        return self._render("waiting.html", self._repeat_visit(query), title="Reading", last=last)

    def _repeat_visit(self, query: bytes) -> Visit:
        """Of a page that cannot be shown: what was asked, right or wrong, stays in the form."""
        given = parse_qs(query.decode("latin-1"), errors="surrogateescape")
        folders, tags, where = (tuple(given.get(name, ())) for name in ("in", "tag", "where"))
        question, since, until = (given.get(name, [""])[0] for name in ("question", "since", "until"))
        return Visit(question[:MAX_QUESTION_CHARS], scope=Scope(folders, tags, since, until, where))

    def _visit(self, given: QuestionParameters) -> Visit:
        """The profile is named in addresses where it is not the library's own."""
        profile = "" if given.profile == self._site.library.profile else given.profile
        return Visit(given.question, profile, given.after, getattr(given, "scope", Scope()))

    def _render(self, template: str, visit: Visit, *, title: str = "", **values: Any) -> str:  # noqa: ANN401 - the template's own
        return self._templates.get_template(template).render(
            {"visit": visit, "title": title, "tree": [], "choices": self._site.choices, **values}
        )


def _cut(excerpt: Excerpt, passage: Span | None) -> Excerpt:
    """The excerpt, or as many of its whole lines as one page shows, from the passage on where it is further down."""
    if len(excerpt.text) <= MAX_SHOWN_CHARS:
        return excerpt
    first = max(excerpt.span.first, passage.first if passage else 0)
    rest = excerpt.text.split("\n", first - excerpt.span.first)[-1]
    # Cut between lines: a page that begins or ends inside one would cite what it does not show.
    end = rest.rfind("\n", 0, MAX_SHOWN_CHARS) + 1 or rest.find("\n") + 1
    return replace(excerpt, span=Span(first, first + rest.count("\n", 0, end) - 1), text=rest[:end])


def _render_lines(
    view: View, hit: Hit, lines: Span, options: RenderOptions, visit: Visit, access: FolderAccess
) -> Markup:
    """Return some lines of a hit's section as HTML, whole blocks of them."""
    body = view.tree.read([hit.node_id])[hit.node_id].body.split("\n")
    first = max(0, lines.first - hit.span.first)
    # Of a long section in which no lines stand out, the beginning.
    count = FIRST_LINES if lines == hit.span and len(lines) > MAX_EXCERPT_LINES else MAX_EXCERPT_LINES
    end = min(len(body), first + min(len(lines), count))
    if body[first : first + 1] and body[first].startswith("#"):  # a heading is shown above: what follows it
        end = min(len(body), max(end, first + FIRST_LINES))
    start = max(0, first - MAX_LINES_ABOVE)
    options = replace(options, shown=(first - start, end - start))
    text = "\n".join(body[start : end + WHOLE_LINES])  # the rest of a block that begins in the lines
    shown = _render_text(view, hit.node_id, text, options, visit, access)
    return shown if shown.strip() else highlight(hit.snippet, options.words)  # a comment, or a line of layout


def _render_text(
    view: View, node_id: str, text: str, options: RenderOptions, visit: Visit, access: FolderAccess
) -> Markup:
    """Return a node's text as HTML whose links and pictures lead where they do."""
    links = _load_links(view, node_id, visit, access)
    options = replace(options, resolve=links.resolve, picture=links.picture, definitions=links.definitions)
    return render_markdown(text, options)


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
