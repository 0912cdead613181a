"""What a language model added to a question, and what became of it; its inventions only behind a disclosure."""

from collections.abc import Iterator

from retriever.query import ExpansionReport
from retriever.serving.web.elements import Content, Html, element, markup


def expansion(report: ExpansionReport | None) -> Content:
    """For the view that says how an answer was made."""
    if report is None:
        return element("p", "None was asked for.")
    return markup(element("ul", [element("li", fact) for fact in _facts(report)]), _made_up(report))


def _facts(report: ExpansionReport) -> Iterator[str]:
    yield f"{'used' if report.used else 'not used'}: {report.note}"
    yield f"hypothetical passages (HyDE): {len(report.passages) or 'none'}"
    if report.milliseconds is not None:
        yield f"written in {report.milliseconds:,.0f} ms{', and remembered since' if report.cached else ''}"
    for item in report.dropped:
        yield f"dropped, a {item.kind}: {item.reason}"


def _made_up(report: ExpansionReport) -> Html | None:
    texts = [*report.rewordings, *report.passages, *(item.text for item in report.dropped)]
    if not texts:
        return None
    summary = element("summary", "Show what the model made up: it stands in no document")
    return element("details", summary, element("ul", [element("li", text, dir="auto") for text in texts]))
