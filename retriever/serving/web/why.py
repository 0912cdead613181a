"""How an answer was made: the stages on a time line, what each arm ranked where, the verdict, what was skipped."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate

from retriever.serving.web.contents import Contents
from retriever.serving.web.elements import Content, Html, element, markup
from retriever.serving.web.expansion import expansion
from retriever.serving.web.results import ARM_NAMES, doubt, heading
from retriever.serving.web.site import Timed, Visit
from retriever.serving.web.tree_view import title_of
from retriever.types import Answer, Hit, Ranked, Ranking, Signals, Stage

FIRST_RANKS = 10
"""How many of an arm's ranks are shown."""
SKIPPED = "skipped"
SIGNALS = (
    ("coverage", "of the question, by the rarity of its words, is in one section", 1.0),
    ("known", "of it is in words that the documents use", 1.0),
    ("together", "of its pairs of words stand side by side in a section", 1.0),
    ("margin", "deviations of the nearest passage above what unrelated questions find", 10.0),
    ("agreement", "of the two arms on the best section, beyond chance", 1.0),
)
"""Name, meaning, and the value that fills the bar."""


def why(contents: Contents, timed: Timed, visit: Visit) -> Html:
    """The main part of the page."""
    answer = timed.answer
    return markup(
        heading(timed, visit, "why"),
        _part("stages", "Stages", "What was done, when, and what it found.", _time_line(timed)),
        _part("expansion", "Expansion", "What a language model added to the question.", expansion(answer.expansion)),
        _part("shares", "Hits", "What each arm gave to a hit's score, and its rank there.", _shares(answer, visit)),
        _part("arms", "Arms", "What each ranked first; hits are marked.", _arms(answer, contents, visit)),
        _part("neighbors", "Neighbours", "Hits that the tree brought in.", _neighbors(answer, contents, visit)),
        _part("verdict", "Verdict", _verdict_sentence(answer), _signals(answer.trace.signals)),
        _part("skipped", "Skipped", "What did not take part, or failed.", _skipped(answer)),
    )


def _part(key: str, title: str, explained: str, body: Content) -> Html:
    named = element("h2", title, id=f"why-{key}")
    quiet = element("p", explained, class_="quiet")
    return element("section", named, quiet, body, class_="why", aria_labelledby=f"why-{key}")


def bar(start: float, width: float, kind: str) -> Html:
    """A bar of a whole's width, both numbers from 0 to 1; drawn by attributes, for the page allows no inline style."""
    shape = element(
        "rect", x=f"{1000 * start:.1f}", y=0, width=f"{max(3.0, 1000 * width):.1f}", height=10, rx=1.5, class_=kind
    )
    return element("svg", shape, viewBox="0 0 1000 10", preserveAspectRatio="none", class_="bar", aria_hidden="true")


def _time_line(timed: Timed) -> Html:
    opening = Stage("open", timed.spent.opening, "modules and index" if timed.spent.opening >= 1 else "open already")
    stages = [opening, *timed.answer.trace.stages]
    starts = [0.0, *accumulate(stage.milliseconds for stage in stages)]
    whole = max(starts[-1], timed.spent.total) or 1.0
    rows = [
        _row(
            stage.name,
            f"{stage.milliseconds:,.1f} ms",
            bar(start / whole, stage.milliseconds / whole, "stage"),
            stage.note,
        )
        for stage, start in zip(stages, starts, strict=False)
    ]
    total = _row("total", f"{timed.spent.total:,.1f} ms", None, "")
    return _table(("stage", "time", "", "found"), [*rows, total], "time-line")


def _row(name: Content, *cells: Content) -> Html:
    return element("tr", element("th", name, scope="row"), [element("td", cell) for cell in cells])


def _table(heads: Sequence[str], rows: Sequence[Html], kind: str) -> Html:
    head = element("thead", element("tr", [element("th", title, scope="col") for title in heads]))
    table = element("table", head, element("tbody", rows), class_=kind)
    return element("div", table, class_="scroll", tabindex="0", role="group", aria_label="Table")


def _shares(answer: Answer, visit: Visit) -> Content:
    if not answer.hits:
        return element("p", "There are none.")
    rankings = answer.trace.rankings
    arms = [ranking.arm for ranking in rankings]
    best = answer.hits[0].score or 1.0
    rows = [_row(_place(hit, visit), _stacked(hit, best), *(_given(hit, arm) for arm in arms)) for hit in answer.hits]
    heads = ("hit", answer.hits[0].scale, *(f"{ARM_NAMES.get(item.arm, item.arm)}, {item.scale}" for item in rankings))
    return _table(heads, rows, "shares")


def _place(hit: Hit, visit: Visit) -> Html:
    return markup(
        element("span", str(hit.rank), class_="rank"),
        element("a", hit.title.strip() or hit.file, href=visit.read(hit.node_id), title=hit.citation),
        doubt(hit),
    )


def _stacked(hit: Hit, best: float) -> Html:
    """The parts of a hit's score side by side, and the score."""
    starts = [0.0, *accumulate(item.share / best for item in hit.evidence)]
    shapes = [
        element(
            "rect",
            x=f"{1000 * start:.1f}",
            y=0,
            width=f"{1000 * item.share / best:.1f}",
            height=10,
            class_=item.arm,
        )
        for item, start in zip(hit.evidence, starts, strict=False)
    ]
    drawn = element("svg", shapes, viewBox="0 0 1000 10", preserveAspectRatio="none", class_="bar", aria_hidden="true")
    return markup(drawn, element("span", f"{hit.score:.4f}", class_="number"))


def _given(hit: Hit, arm: str) -> Content:
    found = next((item for item in hit.evidence if item.arm == arm), None)
    if found is None:
        return element("span", "-", class_="quiet")
    return markup(element("b", f"#{found.rank}"), " ", element("span", f"{found.score:.3g}", class_="quiet"))


def _arms(answer: Answer, contents: Contents, visit: Visit) -> Html:
    ranks = {hit.node_id: hit.rank for hit in answer.hits}
    return element("div", [_arm(ranking, ranks, contents, visit) for ranking in answer.trace.rankings], class_="arms")


def _arm(ranking: Ranking, ranks: Mapping[str, int], contents: Contents, visit: Visit) -> Html:
    dot = element("span", class_=f"dot {ranking.arm}", aria_hidden="true")
    facts = f"{len(ranking.items):,} found · {ranking.scale} · weight {ranking.weight:.3g}"
    items = [_ranked(item, ranks, contents, visit) for item in ranking.items[:FIRST_RANKS]]
    return element(
        "section",
        element("h3", dot, ARM_NAMES.get(ranking.arm, ranking.arm)),
        element("p", facts, class_="quiet"),
        element("ol", items, class_="ranks") if items else element("p", "Nothing."),
    )


def _ranked(item: Ranked, ranks: Mapping[str, int], contents: Contents, visit: Visit) -> Html:
    hit = ranks.get(item.node_id)
    hidden = element("span", "hit ", class_="unseen")
    badge = element("span", hidden, str(hit), class_="rank") if hit else None
    score = element("span", f"{item.score:.3g}", class_="number")
    return element("li", _named(item.node_id, contents, visit), badge, score, class_="lit" if hit else None)


def _named(node_id: str, contents: Contents, visit: Visit) -> Html:
    entry = contents.get(node_id)
    return element("a", title_of(entry) if entry else node_id, href=visit.read(node_id), title=node_id)


def _neighbors(answer: Answer, contents: Contents, visit: Visit) -> Content:
    items = list(_brought_in(answer, contents, visit))
    return element("ul", items) if items else element("p", "Every hit was found by an arm of its own.")


def _brought_in(answer: Answer, contents: Contents, visit: Visit) -> Iterator[Html]:
    for hit in answer.hits:
        for item in hit.evidence:
            relation, of, node_id = item.origin.partition(" of ")
            if of:
                yield element("li", _place(hit, visit), f" is {_article(relation)} ", _named(node_id, contents, visit))


def _article(relation: str) -> str:
    """`parent` -> `the parent of`."""
    return {
        "parent": "the parent of",
        "child": "a child of",
        "sibling": "beside",
        "link": "linked from",
        "file": "the top of the file of",
    }.get(relation, f"{relation} of")


def _verdict_sentence(answer: Answer) -> str:
    return f"{answer.confidence:.0%} is the estimated probability that a right section is among the first five hits."


def _signals(signals: Signals) -> Html:
    rows = []
    for name, meaning, full in SIGNALS:
        value: float | None = getattr(signals, name)
        shown = "-" if value is None else f"{value:.2f}"
        drawn = None if value is None else bar(0.0, min(1.0, max(0.0, value / full)), "signal")
        rows.append(_row(name, shown, drawn, meaning))
    return _table(("signal", "value", "", "meaning"), rows, "signals")


def _skipped(answer: Answer) -> Html:
    sentences = [
        f"{stage.name}: switched off, or nothing to do" for stage in answer.trace.stages if stage.note == SKIPPED
    ]
    sentences += answer.degraded
    return element("ul", [element("li", text) for text in sentences]) if sentences else element("p", "Nothing.")
