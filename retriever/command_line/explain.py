"""How an answer was made: every stage with its time, what each source found, and what became of it."""

import sys
import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click
from rich.text import Text

from retriever.command_line import options
from retriever.command_line.console import CITED, QUIET, Page
from retriever.command_line.options import ExitCode, WithExamples
from retriever.display.phrases import SIGNALS, SOURCES, doubt
from retriever.display.sanitize import sanitize_line
from retriever.errors import QuestionError
from retriever.settings.schema import merged
from retriever.trace import Spent, milliseconds_since
from retriever.types import Source

if TYPE_CHECKING:
    from retriever.command_line.console import Notes
    from retriever.evaluation.why_not import Bar, InRanking, WhyNot
    from retriever.types import Answer, Ranking


FIRST_RANKS = 5
"""How many ranks of each source are shown."""


def show_explanation(page: Page, answer: "Answer", spent: Spent) -> None:
    """The stages, the verdict, each source's first ranks with the part that each has in the answer, the fused sums."""
    page.blank()
    _show_stages(page, answer, spent)
    page.blank()
    _show_verdict(page, answer)
    parts = {
        (item.source, hit.node_id): f"{item.share:.5f} of hit {hit.rank}"
        for hit in answer.hits
        for item in hit.evidence
    }
    for ranking in answer.trace.rankings:
        page.blank()
        _show_ranking(page, ranking, parts)
    page.blank()
    _show_sums(page, answer)


def _show_stages(page: Page, answer: "Answer", spent: Spent) -> None:
    _heading(page, "stages", "milliseconds, and what was found")
    stages = answer.trace.stages
    width = max((len(stage.name) for stage in stages), default=0)
    width = max(width, len("opening"))
    _row(page, spent.opening, "opening".ljust(width), "modules, index, changed files")
    for stage in stages:
        _row(page, stage.milliseconds, stage.name.ljust(width), stage.note)
    _row(page, spent.total, "total".ljust(width), "")


def _row(page: Page, milliseconds: float, name: str, note: str) -> None:
    page.line(Text.assemble(f"{milliseconds:>9.1f}  ", name, "  ", (sanitize_line(note), QUIET)))


def _show_ranking(page: Page, ranking: "Ranking", parts: dict[tuple[Source, str], str]) -> None:
    found = f"{len(ranking.items):,} found, by {ranking.scale}, weight {ranking.weight:.3g}"
    _heading(page, SOURCES[ranking.source], f"{found}; rank, score, part in the answer")
    for rank, item in enumerate(ranking.items[:FIRST_RANKS], start=1):
        part = parts.get((ranking.source, item.node_id), "-")
        page.line(Text.assemble(f"{rank:>4}  {item.score:>8.4g}  {part:<16}  ", (sanitize_line(item.node_id), CITED)))
        if item.matched or item.via:
            page.line(Text(f"{'':36}{sanitize_line(str(item.matched or item.via))}", QUIET))


def _show_sums(page: Page, answer: "Answer") -> None:
    _heading(page, "fused", f"{answer.hits[0].scale}; hit, score, its parts" if answer.hits else "no hits")
    for hit in answer.hits:
        parts = " + ".join(f"{item.share:.5f} {SOURCES[item.source]}" for item in hit.evidence)
        cited = (sanitize_line(hit.citation), CITED)
        page.line(
            Text.assemble(f"{hit.rank:>4}  {hit.score:>8.5f} = {parts}  ", cited, (doubt(hit.citation_state), QUIET))
        )


def _show_verdict(page: Page, answer: "Answer") -> None:
    _heading(page, "verdict", f"{answer.verdict}, confidence {answer.confidence:.2f}")
    signals = answer.trace.signals
    for name, meaning in SIGNALS:
        value: float | None = getattr(signals, name)
        shown = "-" if value is None else f"{value:.2f}"
        page.line(Text.assemble(f"{shown:>9}  {name:<9}  ", (meaning, QUIET)))
    page.line(Text.assemble(f"{signals.form:>9}  {'form':<9}  ", ("what the question is made of", QUIET)))


def show_hypothetical(page: Page, answer: "Answer") -> None:
    """What a language model made up to search with: no content of any document."""
    report = answer.expansion
    page.blank()
    _heading(page, "hypothetical", "written by a language model to search with, found in no document")
    for text in (*report.rewordings, *report.passages) if report else ():
        page.line(Text(f"  searched with  {sanitize_line(text)}", QUIET))
    for item in report.dropped if report else ():
        page.line(Text(f"  dropped        {sanitize_line(item.text)} ({sanitize_line(item.reason)})", QUIET))


def _heading(page: Page, title: str, explanation: str) -> None:
    page.line(Text.assemble((title, "bold"), (f"  {sanitize_line(explanation)}", QUIET)))


# `explain`: how an answer was made; with --why-not, what became of a section that is not in it.


@click.command(
    "explain",
    examples=(
        'explain "send an email after the response"',
        'explain "send an email after the response" --why-not guide/mail.md',
        'explain "send an email after the response" --why-not guide/mail.md#after-the-response --json',
    ),
    cls=WithExamples,
    params=options.setting_parameters(),
    short_help="Show how an answer was made, or why a section is not in it.",
)
@click.argument("words", nargs=-1, metavar="QUESTION")
@click.option("--why-not", "reference", metavar="PATH[#SECTION]", help="A section, or a file, that should be a hit.")
@options.docs_option
@options.index_option
@options.profile_option
@options.json_option
@options.voice_options
def explain(**given: Any) -> ExitCode:  # noqa: ANN401 - one value for each of the profile's settings, whatever they are
    """Show how the answer to QUESTION was made: every stage with its time, and what each source found.

    With --why-not: at which stage that section (of a file, the one that came furthest) was lost, where it stands in
    each ranking, and the scores that it would have needed.
    """
    notes = options.taken_notes(given)
    settings = options.taken_settings(given)
    question = " ".join(given["words"])
    if not question.strip():
        raise QuestionError('the question is empty: write it in quotes, as in: hybrid_retrieve.py explain "how ...?"')
    if given["reference"] is None:
        return _explain_answer(question, given, settings, notes)
    return _explain_absence(question, given, settings, notes)


def _explain_answer(question: str, given: dict[str, Any], settings: dict[str, Any], notes: "Notes") -> ExitCode:
    begun = time.perf_counter()
    from retriever.api import open_retriever
    from retriever.command_line.console import shown_progress
    from retriever.command_line.render import make_remarks

    with (
        shown_progress(notes) as progress,
        open_retriever(given["docs"], given["index"], given["profile"], settings, progress) as retriever,
    ):
        opening = milliseconds_since(begun)
        answer = retriever.search(question)
        spent = Spent(opening, milliseconds_since(begun))
    if given["as_json"]:
        from retriever.command_line.console import write_json
        from retriever.display.json import answer_object

        write_json(answer_object(answer, spent, full=False, explain=True))
    else:
        from retriever.command_line.console import Page

        show_explanation(Page.on(sys.stdout), answer, spent)
    sys.stdout.flush()
    make_remarks(answer, notes, spent, index=given["index"], footer=not given["as_json"])
    return ExitCode.OK


def _explain_absence(question: str, given: dict[str, Any], settings: dict[str, Any], notes: "Notes") -> ExitCode:
    from retriever.api import open_retriever
    from retriever.command_line.console import shown_progress
    from retriever.evaluation.why_not import limitless, why_not

    index, profile = given["index"], given["profile"]
    with (
        shown_progress(notes) as progress,
        open_retriever(given["docs"], index, profile, settings, progress) as retriever,
    ):
        state = retriever.status().index
        deeper = merged(settings, limitless(state.sections, state.chunks))
        with open_retriever((), state.path, profile, deeper) as deep:
            found = why_not(retriever, deep, question, given["reference"])
    if given["as_json"]:
        from retriever.command_line.console import write_json

        write_json(why_not_object(found))
    else:
        from retriever.command_line.console import Page

        show_why_not(Page.on(sys.stdout), found)
    sys.stdout.flush()
    for sentence in found.degraded:
        notes.say(f"note: {sentence}")
    return ExitCode.OK


def why_not_object(found: "WhyNot") -> dict[str, Any]:
    """The way of a section, for programs."""
    node = found.node
    return {
        "question": found.question,
        "node_id": node.id,
        "file": node.path,
        "start_line": node.span.first if node.span else None,
        "end_line": node.span.last if node.span else None,
        "lost": str(found.stage),
        "fused": {
            "rank": found.rank,
            "reranked": found.reranked,
            "of": found.fused,
            "score": found.score,
            "top_k": asdict(found.top) if found.top else None,
            "candidate_cap": asdict(found.cap) if found.cap else None,
        },
        "sources": [{**asdict(item), "lacks": item.lacks} for item in found.sources],
        "degraded": list(map(str, found.degraded)),
    }


def show_why_not(page: "Page", found: "WhyNot") -> None:
    """The verdict in a line, then the fused list and each ranking."""
    from rich.text import Text

    from retriever.command_line.console import CITED
    from retriever.display.sanitize import sanitize_line

    page.line(Text.assemble((sanitize_line(found.node.citation), CITED), f"  {sanitize_line(found.node.id)}"))
    page.paragraph(Text(verdict(found)), 2)
    width = max(map(len, ["fused", *(SOURCES[item.source] for item in found.sources)]))
    reranked = [("rerank", f"#{found.reranked:,} after the reranking")] if found.reranked else []
    sources = [(SOURCES[item.source], describe_source(item)) for item in found.sources]
    for name, text in [*reranked, ("fused", fused_text(found)), *sources]:
        page.line(Text(f"{name:<{width}}  {sanitize_line(text)}"), 2)


def verdict(found: "WhyNot") -> str:
    """What became of it, in a sentence."""
    from retriever.evaluation.runs import Stage

    rank = found.reranked or found.rank
    if found.stage is Stage.RETURNED:
        return f"It is a hit: #{rank}."
    if found.stage is Stage.NOT_FOUND:
        return "Lost in the rankings: none of them listed it, and it is no neighbor of what they listed."
    if found.stage is Stage.CUT:
        return f"Lost after the fusion: #{rank}, and {_place('candidate_cap', found.cap)}."
    return f"Lost at the end: #{rank} of the candidates, and {_place('top_k', found.top)}."


def _place(setting: str, bar: "Bar | None") -> str:
    return f"{setting} is {bar.rank}" if bar else f"{setting} is larger than the list"


def fused_text(found: "WhyNot") -> str:
    """Where it stands in the fused list, and what it lacks."""
    if found.rank is None or found.score is None:
        return f"not among the {found.fused:,} sections"
    needed = [
        f"#{bar.rank} has {bar.score:.5f}: {bar.score - found.score:.5f} more"
        for bar in (found.top, found.cap)
        if bar and bar.score > found.score
    ]
    return "; ".join([f"#{found.rank:,} of {found.fused:,}, score {found.score:.5f}", *needed])


# Why a ranking that does not look at every section did not look at this one.
_ABSENT = {Source.NEIGHBORS: "not a neighbor of a hit", Source.TOKEN_MATCH: "was no candidate, so it was not read"}


def describe_source(found: "InRanking") -> str:
    """Where it stands in a ranking, and what it lacks."""
    facts = []
    if found.rank is None or found.score is None:
        facts.append(_ABSENT.get(found.source, "sees nothing in it"))
    else:
        facts.append(f"#{found.rank:,}, {found.scale} {found.score:.4g}")
    if found.first_score is None or found.last_score is None:
        facts.append("lists nothing")
    elif found.rank != 1:
        facts.append(f"its {found.listed:,} go from {found.first_score:.4g} to {found.last_score:.4g}")
    if found.lacks is not None:
        facts.append(f"{found.lacks:.4g} more would have listed it")
    return "; ".join(facts)
