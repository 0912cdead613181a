"""A summary as one page of HTML that needs nothing else: plots, tables, and every question with what was found.

The page refers to nothing outside itself, and its content security policy lets it load nothing. All text that comes
from documents or questions is escaped.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from html import escape
from pathlib import Path

from retriever.evaluation.questions import QuestionSet
from retriever.evaluation.ranks import NO_RANK, Judge
from retriever.evaluation.report_plots import (
    kind_panels,
    latency_panel,
    legend,
    loss_panel,
    measure_panels,
    rank_panels,
    stage_legend,
)
from retriever.evaluation.report_questions import question_list
from retriever.evaluation.summary import Comparison, Summary, SystemSummary, measure_names

_HERE = Path(__file__).parent

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"


def report_page(summary: Summary) -> str:
    """The page."""
    judge = Judge(summary.questions, summary.sections)
    style, script = ((_HERE / name).read_text(encoding="utf-8") for name in ("report.css", "report.js"))
    title = f"Retrieval on {escape(summary.questions.name)}"
    return "\n".join(
        [
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{title}</title>\n<style>\n{style}</style>\n</head>\n<body>",
            f"<header><h1>{title}</h1>\n<p class=quiet>{_counts(summary.questions)}</p></header>\n<main>",
            *_sections(summary, judge),
            f"</main>\n<script>\n{script}</script>\n</body>\n</html>\n",
        ]
    )


def _counts(questions: QuestionSet) -> str:
    answerable = [question for question in questions.questions if question.is_answerable]
    kinds = [f"{sum(item.kind == kind for item in answerable)} {escape(kind)}" for kind in questions.kinds]
    without = len(questions.questions) - len(answerable)
    more = [f"{without} without an answer in the documents"] if without else []
    unit = "section" if questions.has_lines else "file"
    return f"{len(questions.questions)} questions: {', '.join([*kinds, *more])}. What is right or wrong is a {unit}."


def _sections(summary: Summary, judge: Judge) -> Iterator[str]:
    """The parts of the page, from the summary to the single question."""
    yield _part(
        "How well",
        "Mean over the answerable questions, with its 95&nbsp;% bootstrap interval. The dashed line is the first row.",
        _panels(measure_panels(summary)),
    )
    if len(summary.questions.kinds) > 1:
        yield _part("By kind of question", f"{summary.headlines[0]}, as above.", _panels(kind_panels(summary)))
    yield _part(
        "Where the first right answer stands",
        "Every question is a square, in the order of the list below; a square leads to its question.",
        legend() + _panels(rank_panels(summary, judge)),
    )
    if beside := list(_beside(summary)):
        yield f'<div class="beside">{"".join(beside)}</div>'
    if summary.comparisons:
        text = (
            "Differences question by question: 95&nbsp;% bootstrap interval, two-sided paired randomisation test. "
            "Bold: p &lt; .05, for one comparison looked at alone."
        )
        yield _part("Pairs", text, _pairs(summary.comparisons))
    yield _part("Every measure", "Mean and 95&nbsp;% interval.", _measures(summary))
    if any(system.failures or system.remarks for system in summary.systems):
        yield _part("What failed", "Questions that met a failed stage are in no measure.", _failures(summary.systems))
    yield _part("Questions", "", question_list(summary, judge))


def _beside(summary: Summary) -> Iterator[str]:
    """What only a live search has: a trace and a clock."""
    if losses := loss_panel(summary):
        text = "How far the best of the right sections came on its way through the stages."
        yield _part("Where answers are lost", text, stage_legend() + _panels([losses]))
    if latency := latency_panel(summary):
        text = "From question to answer, model and index open: the median, with a line to the 95th percentile."
        yield _part("How fast", text, _panels([latency]))


def _part(title: str, text: str, body: str) -> str:
    return f"<section>\n<h2>{title}</h2>\n{f'<p class=quiet>{text}</p>' if text else ''}\n{body}\n</section>"


def _panels(panels: Sequence[str]) -> str:
    return f'<div class="panels">{"".join(panels)}</div>'


def _pairs(comparisons: Sequence[Comparison]) -> str:
    rows = []
    for item in comparisons:
        found = item.difference
        interval = f'{found.mean:+.3f} <span class="range">[{found.low:+.3f}, {found.high:+.3f}]</span>'
        cells = [interval, f"{found.p:.4f}", found.wins, found.losses, found.ties]
        texts = "".join(f'<td class="text">{escape(text)}</td>' for text in (item.first, item.second, item.measure))
        mark = ' class="significant"' if found.is_significant else ""
        rows.append(f"<tr{mark}>{texts}{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>")
    heads = ["", "against", "measure"], ["difference", "p", "better", "worse", "equal"]
    return _table("".join(_heads(heads[0], "text")) + "".join(_heads(heads[1])), rows)


def _heads(titles: Sequence[str], name: str = "") -> Iterator[str]:
    return (f'<th scope="col" class="{name}">{escape(title)}</th>' for title in titles)


def _table(head: str, rows: Sequence[str]) -> str:
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{"".join(rows)}</tbody></table></div>'


def _measures(summary: Summary) -> str:
    rows = []
    for name in measure_names(summary.questions):
        values = [system.overall.get(name) for system in summary.systems]
        cells = [
            f'<td>{value.mean:.3f} <span class="range">[{value.low:.3f}, {value.high:.3f}]</span></td>'
            if value
            else f"<td>{NO_RANK}</td>"
            for value in values
        ]
        rows.append(f'<tr><th scope="row">{escape(name)}</th>{"".join(cells)}</tr>')
    rows += [_row(title, [text(system) for system in summary.systems]) for title, text in _OTHERS.items()]
    return _table("".join(_heads(["", *(system.system for system in summary.systems)])), rows)


def _row(title: str, cells: Sequence[str]) -> str:
    return f'<tr><th scope="row">{title}</th>{"".join(f"<td>{cell}</td>" for cell in cells)}</tr>'


def _percent(value: float | None) -> str:
    return NO_RANK if value is None else f"{value:.0%}"


_OTHERS: Mapping[str, Callable[[SystemSummary], str]] = {
    "tokens read until the answer (median)": lambda item: (
        NO_RANK if item.tokens_to_answer is None else f"{item.tokens_to_answer:,.0f}"
    ),
    "abstains where there is no answer": lambda item: _percent(item.abstention),
    "abstains where there is one": lambda item: _percent(item.false_abstention),
    "its confidence tells the two apart (AUROC)": lambda item: NO_RANK if item.auroc is None else f"{item.auroc:.3f}",
    "calls of a language model": lambda item: f"{item.llm_calls:,}",
    "its tokens": lambda item: f"{item.llm_tokens:,}",
    "questions with a failed stage": lambda item: f"{item.failed:,}",
}
"""What is no measure of a single question."""


def _failures(systems: Sequence[SystemSummary]) -> str:
    items = [
        f"<li>{escape(system.system)}: {escape(sentence)} ({count:,} questions)"
        f"{'' if sentence in system.failures else ', a remark: measured all the same'}</li>"
        for system in systems
        for sentence, count in {**system.failures, **system.remarks}.items()
    ]
    return f"<ul>{''.join(items)}</ul>"
