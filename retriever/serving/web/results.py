"""The answer as it is read: what is to be thought of it, then each hit: its place, its text, why it was found."""

from collections.abc import Iterator

from pageindex.markdown import count_lines
from pageindex.node import NodeKind
from retriever.browsing import Passage
from retriever.display.editors import editor_link
from retriever.display.inert import inert_line
from retriever.display.wording import CITATION_STATES
from retriever.searching.open_index import View
from retriever.serving.web.contents import NO_TITLE
from retriever.serving.web.elements import Content, Html, element, markup
from retriever.serving.web.frame import freshness_line, note
from retriever.serving.web.rendering import Surroundings, marked, nowhere, rendered
from retriever.serving.web.site import Timed, Visit, link_resolver, loaded_node
from retriever.types import Answer, Evidence, Hit

VERDICTS = {
    "answered": ("Answered", "A section probably answers this."),
    "weak": ("Not sure", "It is not sure that a section answers this; the nearest are below."),
    "none": ("No answer", "No section answers this; the nearest are below, do not take them for an answer."),
}
ARM_NAMES = {"dense": "meaning", "lexical": "words", "late": "token by token", "neighbors": "neighbours"}
"""What people read for the name of an arm that is not a word of theirs."""


def results(view: View, timed: Timed, visit: Visit) -> Html:
    """The main part of the page."""
    answer = timed.answer
    stems = frozenset(answer.matched_words)
    hits = [_hit(view, hit, stems, visit) for hit in answer.hits]
    return markup(heading(timed, visit, "sections"), element("ol", hits, class_="hits") if hits else _nothing(visit))


def heading(timed: Timed, visit: Visit, view: str) -> Html:
    """What stands above the answer in each of its views."""
    answer = timed.answer
    name, meaning = VERDICTS[answer.verdict]
    facts = markup(
        element("span", f"confidence {answer.confidence:.2f}"),
        " · ",
        element("span", f"{timed.spent.total:,.0f} ms"),
        " · ",
        freshness_line(answer.index),
    )
    return markup(
        element("h1", f"Answer to: {answer.question}", class_="unseen", dir="auto"),
        element(
            "div",
            element("p", element("strong", name), " ", meaning, class_=f"verdict {answer.verdict}"),
            element("p", facts, class_="facts"),
            class_="judgement",
        ),
        _gaps(answer),
        element(
            "nav",
            _tab("Sections", visit.ask(), view == "sections"),
            _tab("Why these", visit.ask("why"), view == "why"),
            aria_label="Views of the answer",
            class_="tabs",
        ),
    )


def _tab(name: str, address: str, is_here: bool) -> Html:
    return element("a", name, href=address, aria_current="page" if is_here else None)


def _gaps(answer: Answer) -> Content:
    """What the answer does not know."""
    sentences = list(answer.degraded)
    if answer.index.stale_files:
        sentences.append(f"{answer.index.stale_files:,} changed files are not in this answer; index them again")
    if answer.index.skipped_files:
        sentences.append(
            f"{answer.index.skipped_files:,} files could not be read; `hybrid_retrieve.py status` names them"
        )
    return note(element("ul", [element("li", sentence) for sentence in sentences])) if sentences else None


def _nothing(visit: Visit) -> Html:
    return element("p", "Nothing was found: try other words, or the profile recall.", class_="nothing")


def _hit(view: View, hit: Hit, stems: frozenset[str], visit: Visit) -> Html:
    title = element(
        "h2",
        element("span", str(hit.rank), class_="rank"),
        element("a", marked(hit.title.strip() or NO_TITLE, stems), href=visit.read(hit.node_id)),
        dir="auto",
    )
    summary = element(
        "summary", element("span", marked(hit.snippet, stems), class_="snippet"), element("span", "Fold", class_="fold")
    )
    section = element("div", _section(view, hit, stems, visit), _rest(hit, visit), class_="text", dir="auto")
    details = element("details", summary, section, open=hit.rank == 1)
    foot = element("p", citation(hit, visit), _why(hit), class_="foot")
    article = element("article", breadcrumb(hit.file, hit.breadcrumb), title, details, foot, tabindex="-1")
    return element("li", article, id=f"hit-{hit.rank}")


def breadcrumb(file: str, titles: tuple[str, ...]) -> Html:
    """The file's folders and name, then the titles above the section."""
    parts = [(element("span", part, class_="part"), " ") for part in file.split("/")]
    above = [(element("span", part.strip() or NO_TITLE, class_="part title"), " ") for part in titles]
    return element("p", parts, above, class_="crumbs", dir="auto")


def citation(place: Hit | Passage, visit: Visit) -> Html:
    """The place in the file, and what is to be known of it; following it opens the editor, while there is a file."""
    cited = place.citation
    shown = element("code", inert_line(cited))
    if place.citation_state in ("gone", "unchecked"):
        return markup(element("span", shown, class_="citation", data_copy=cited), doubt(place))
    address = editor_link(visit.preferences.editor, f"{place.folder}/{place.file}", place.span.first)
    title = f"Open in the editor: {cited}"
    return markup(element("a", shown, href=address, class_="citation", title=title, data_copy=cited), doubt(place))


def doubt(place: Hit | Passage) -> Content:
    """What is to be known of a place that no longer holds what was indexed, in words."""
    said = CITATION_STATES[place.citation_state]
    return element("span", said, class_="doubt") if said else None


def _section(view: View, hit: Hit, stems: frozenset[str], visit: Visit) -> Html:
    node = loaded_node(view, hit.node_id)
    text = hit.text
    if node is not None and node.kind is NodeKind.FILE:
        lines = text.split("\n", node.front_matter_lines)
        text = lines[-1] if count_lines(text) > node.front_matter_lines else ""
    resolve = link_resolver(view, hit.node_id, visit) if node is not None else nowhere
    return rendered(text, Surroundings(resolve, stems, hit.title, top_level=3))


def _rest(hit: Hit, visit: Visit) -> Content:
    if not hit.text_cut:
        return None
    return element("p", element("a", "Read on", href=visit.read(hit.node_id)), class_="rest")


def _why(hit: Hit) -> Html:
    return element("span", [element("span", reason, class_="reason") for reason in _reasons(hit.evidence)])


def _reasons(evidence: tuple[Evidence, ...]) -> Iterator[Content]:
    """Why a hit was found: each arm with its rank, the largest share first."""
    for item in evidence:
        dot = element("span", class_=f"dot {item.arm}", aria_hidden="true")
        shown = f"{ARM_NAMES.get(item.arm, item.arm)} #{item.rank}"
        yield element(
            "span", dot, shown, title=f"{item.scale} {item.score:.4g}, {item.share:.5f} of {_total(evidence):.5f}"
        )


def _total(evidence: tuple[Evidence, ...]) -> float:
    return sum(item.share for item in evidence)
