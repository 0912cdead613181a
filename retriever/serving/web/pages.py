"""The pages, each made of a query and the reader's preferences with a template of templates/; called in threads."""

import re
from collections.abc import Iterator, Mapping
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
from retriever.lexical.tokens import tokenize
from retriever.looking.browse import Excerpt
from retriever.looking.references import find_node
from retriever.looking.similar import find_similar
from retriever.query import Scope
from retriever.searching.open_index import View
from retriever.searching.question import MAX_QUESTION_CHARS
from retriever.served.task import new_nonce
from retriever.serving.web.drawn_tree import NO_TITLE, Outline, draw_branch, draw_tree
from retriever.serving.web.json_api import (
    AnswerParameters,
    QuestionParameters,
    ScopedParameters,
    ShortText,
    read_parameters,
)
from retriever.serving.web.section_html import RenderOptions, highlight, render_markdown
from retriever.serving.web.site import PAGE_WAIT_S, Site, Timed, Visit
from retriever.settings.layers import profile_names, profile_summary
from retriever.store import reading
from retriever.store.reading import backlinks, link_ids
from retriever.types import CitedSentence

if TYPE_CHECKING:
    from retriever.retriever import Retriever

MAX_SHOWN_CHARS = 60_000  # of a document in one page, which says that there is more
MAX_SHOWN_LINKS = 30
MAX_SIMILAR = 5
# Changed and skipped files that the first page names; long lists hide what is below them.
MAX_NAMED_FILES = 20
MAX_EXAMPLES = 6  # titles of documents that a first question may be
CUT_ABOVE = "…\n"  # what the text of a hit begins with, where it does not begin with its section


class AskPageParameters(ScopedParameters):
    """Of /."""

    typing: bool = False
    """Whether the question is still being typed: the list of what is found is enough."""


class TreePageParameters(QuestionParameters):
    """Of a page that shows what a node id, a path or a name stands for."""

    node: ShortText


def _read_lines(given: object) -> Span | None:
    lines = re.fullmatch(r"(\d{1,9})(?:-(\d{1,9}))?", str(given), re.ASCII)
    first, last = (int(lines[1]), int(lines[2] or lines[1])) if lines else (0, 0)
    if given and not 1 <= first <= last:
        raise ValueError("must be lines as first-last")
    return Span(first, last) if given else None


class ReadPageParameters(TreePageParameters):
    """Of /read."""

    passage: Annotated[SkipValidation[Span | None], BeforeValidator(_read_lines)] = None  # where the page opens


class Pages:
    """The pages of one site; every method raises RetrieverError: ParametersError for a wrong query."""

    def __init__(self, site: Site) -> None:
        self._site = site
        own = "A file of your own."
        known = profile_names()
        self._templates = open_templates(Path(__file__).parent / "templates")
        self._templates.filters["line"] = sanitize_line
        self._templates.globals.update(
            phrases=phrases,
            pluralize=phrases.pluralize,
            profile=site.library.profile,
            profiles={name: profile_summary(name) if name in known else own for name in site.profiles},
            no_title=NO_TITLE,
            stages=phrases.STAGES,
            max_links=MAX_SHOWN_LINKS,
            max_files=MAX_NAMED_FILES,
        )

    def ask(self, query: bytes) -> str:
        given = read_parameters(query, AskPageParameters, self._site.profiles)
        visit = self._visit("/", given)
        if not visit.question.strip():
            return self._home(visit)
        timed = self._site.search(given.request, visit.profile, typing=given.typing, wait_s=PAGE_WAIT_S)
        answer = timed.answer
        # While somebody types, the list alone is sent: the rest of the page stays as it is.
        if given.typing:
            stems = frozenset(answer.matched_words)
            return self._render("typing.html", visit, answer=answer, highlight=partial(highlight, words=stems))
        return self._render("answer.html", visit, title=answer.question, timed=timed, **self._show_hits(timed, visit))

    def answer(self, query: bytes) -> Iterator[str]:
        """The page with a short answer, in pieces: each sentence comes as soon as it is checked."""
        given = read_parameters(query, AnswerParameters, self._site.profiles)
        visit = self._visit("/answer", given)
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
        page = self._render(
            "answer.html",
            visit,
            title=timed.answer.question,
            timed=timed,
            place=place,
            **self._show_hits(timed, visit),
        )
        # One page in three parts, so that it works without a script: what is above the sentences, they, the rest.
        before, _, after = page.partition(place)

        def write() -> Iterator[str]:
            yield before
            for sentence in iter(events.get, None):
                yield self._render("sentence.html", visit, sentence=sentence)
            yield self._render("sentence.html", visit, short=written.result()[0]) + after

        return write()

    def _show_hits(self, timed: Timed, visit: Visit) -> dict[str, Any]:
        stems, texts = frozenset(timed.answer.matched_words), {}
        with self._site.open(visit.profile) as retriever, retriever.view() as view:
            for hit in timed.answer.hits:
                text, first = hit.text, hit.span.first
                if text.startswith(CUT_ABOVE):  # it begins with the passage
                    text, first = text.removeprefix(CUT_ABOVE), hit.passage.first
                passage = hit.passage if hit.passage != hit.span else None
                shown = RenderOptions(words=stems, title=hit.title, top_level=3, passage=passage, first_line=first)
                texts[hit.node_id] = _render_text(view, hit.node_id, text, shown, visit)
            tree = draw_tree(self._site.outline(view), {hit.node_id: hit.rank for hit in timed.answer.hits})
        return {"texts": texts, "highlight": partial(highlight, words=stems), "tree": tree}

    def _home(self, visit: Visit) -> str:
        with self._site.open(visit.profile) as retriever:
            status = retriever.status()
            with retriever.view() as view:
                outline = self._site.outline(view)
                overview = self._site.overview(view)
        changed = [(path, "") for path in status.changed_files]
        return self._render(
            "home.html",
            visit,
            tree=draw_tree(outline),
            status=status,
            overview=overview,
            examples=overview.titles[:MAX_EXAMPLES],
            changed_files=changed,
        )

    def read(self, query: bytes) -> str:
        given = read_parameters(query, ReadPageParameters, self._site.profiles)
        visit = self._visit("/read", given)
        with self._site.open(visit.profile) as retriever:
            with retriever.view() as view:
                outline = self._site.outline(view)
                named = outline.find(given.node)
                # A folder has no text; a file without lines of its own has that of its sections, an empty one none.
                if named and (named.kind is NodeKind.FOLDER or not (named.span or outline.tree.children(named.id))):
                    return self._list(outline, named, visit)
            excerpt = retriever.read(given.node)
            with retriever.view() as view:
                outline = self._site.outline(view)
                node = outline.find(named.id if named else excerpt.node_id)
                if node is None:
                    raise UsageError("the documents have just changed; ask again")
                return self._show_excerpt(retriever, view, outline, node, excerpt, given.passage, visit)

    def _show_excerpt(
        self,
        retriever: "Retriever",
        view: View,
        outline: Outline,
        node: Node,
        excerpt: Excerpt,
        passage: Span | None,
        visit: Visit,
    ) -> str:
        """Show an excerpt with its neighbors in the tree and its links."""
        label, shown = outline.label(node.id), _cut(excerpt, passage)
        stems = frozenset(tokenize(visit.question))
        options = RenderOptions(
            words=stems, title=label, passage=passage, passage_id="passage", first_line=shown.span.first
        )
        front_matter, text = "", shown.text
        if shown.span.first == 1 and (lines := read_front_matter(text).lines):  # it is shown as it is written
            pieces = text.split("\n", lines)
            front_matter, text, options = "\n".join(pieces[:lines]), pieces[-1], replace(options, first_line=1 + lines)
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
            excerpt=excerpt,
            shown=shown.span,
            front_matter=front_matter,
            text=_render_text(view, shown.node_id, text, options, visit),
            around=around,
            similar=near,
        )

    def tree(self, query: bytes) -> str:
        """Return a page that lists what a node contains; the script puts the list into the tree."""
        given = read_parameters(query, TreePageParameters, self._site.profiles)
        visit = self._visit("/tree", given)
        with self._site.open(visit.profile) as retriever, retriever.view() as view:
            outline = self._site.outline(view)
            node = outline.tree.node(find_node(view.connection, outline.tree, given.node))
        return self._list(outline, node, visit)

    def _list(self, outline: Outline, node: Node, visit: Visit) -> str:
        return self._render(
            "list.html",
            visit,
            title=outline.label(node.id),
            tree=draw_tree(outline, here=node.id),
            above=outline.path_to(node.id)[:-1],
            label=outline.label,
            listed=draw_branch(outline, node.id),
        )

    def failure(self, message: str, path: str, query: bytes) -> str:
        visit = self._repeat_visit(path, query)
        return self._render("failure.html", visit, title="Error", message=message)

    def waiting(self, path: str, query: bytes) -> str:
        """How far the first reading of the documents is: the page that was wanted takes its place by itself."""
        visit = self._repeat_visit(path, query)
        return self._render("waiting.html", visit, title="Reading", last=self._site.library.progress.last)

    def _repeat_visit(self, path: str, query: bytes) -> Visit:
        """Of a page that cannot be shown: what was asked, right or wrong, stays in the form."""
        given = parse_qs(query.decode("latin-1"), errors="surrogateescape")
        folders, tags, where = (tuple(given.get(name, ())) for name in ("in", "tag", "where"))
        question, since, until = (given.get(name, [""])[0] for name in ("question", "since", "until"))
        scope = Scope(folders, tags, since, until, where)
        return Visit(question[:MAX_QUESTION_CHARS], path=path, editor=self._site.editor, scope=scope)

    def _visit(self, path: str, given: QuestionParameters) -> Visit:
        """The profile is named in addresses where it is not the library's own."""
        profile = "" if given.profile == self._site.library.profile else given.profile
        scope = getattr(given, "scope", Scope())
        return Visit(given.question, profile, given.after, path, self._site.editor, scope)

    def _render(self, template: str, visit: Visit, *, title: str = "", **values: Any) -> str:  # noqa: ANN401 - the template's own
        return self._templates.get_template(template).render(
            {"visit": visit, "title": title, "tree": [], "choices": self._site.choices, **values}
        )


def _cut(excerpt: Excerpt, passage: Span | None) -> Excerpt:
    """Return the excerpt, or as many whole lines of it as one page shows, from the passage on where it is far down."""
    text, first = excerpt.text, excerpt.span.first
    if len(text) <= MAX_SHOWN_CHARS:
        return excerpt
    skipped = passage.first - first if passage and first < passage.first <= excerpt.span.last else 0
    rest = text.split("\n", skipped)[-1]
    if len(text) - len(rest) > MAX_SHOWN_CHARS // 2:
        text, first = rest, first + skipped
    # Cut between lines: a page that ends inside one would cite what it does not show.
    end = len(text) if len(text) <= MAX_SHOWN_CHARS else text.rfind("\n", 0, MAX_SHOWN_CHARS) + 1
    text = text[: end or text.find("\n") + 1 or len(text)]
    return replace(excerpt, span=Span(first, first + max(0, text.removesuffix("\n").count("\n"))), text=text)


def _render_text(view: View, node_id: str, text: str, options: RenderOptions, visit: Visit) -> Markup:
    """Return a node's text, or a part of it, as HTML whose links lead where the index says."""
    view.tree.load_nodes([node_id])
    if node_id not in view.tree.read([node_id]):
        return render_markdown(text, options)
    key = view.tree.document_key(node_id)
    targets: Mapping[tuple[str, str, str], str] = link_ids(view.connection, key)

    def resolve(kind: str, path: str, anchor: str) -> str | None:
        target = targets.get((str(kind), path, anchor))
        return None if target is None else visit.read(target)

    # `[text][label]` leads where the end of the file says, which may be another section.
    texts = (stored.node.text for stored in reading.nodes_of_documents(view.connection, [key]))
    definitions = "\n".join(line for text in texts for line in _DEFINITION.findall(text))
    return render_markdown(text, replace(options, resolve=resolve, definitions=definitions))


_DEFINITION = re.compile(r"^ {0,3}\[[^\[\]\n^][^\[\]\n]{0,999}\]:[^\n]*$", re.MULTILINE)
