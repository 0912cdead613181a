"""How an answer was made: every stage with its time, what each source found, and what became of it."""

import sys
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

import click
from rich.text import Text

from retriever.command_line import options
from retriever.command_line.ask import Asking, Form, Output
from retriever.command_line.console import Console, print_json
from retriever.command_line.options import ExitCode, Opening
from retriever.command_line.render import CITED, QUIET, Page
from retriever.display.editors import NO_EDITOR
from retriever.display.phrases import SIGNALS, SOURCES, format_doubt
from retriever.display.sanitize import sanitize_line
from retriever.query import AskRequest
from retriever.settings.schema import merge
from retriever.types import Source

if TYPE_CHECKING:
    from retriever.evaluation.why_not import Bar, InRanking, WhyNot
    from retriever.trace import Spent
    from retriever.types import Answer

FIRST_RANKS = 5  # of a source, that are shown
# Why a source that does not look at every section did not look at this one.
ABSENT = {
    Source.NEIGHBORS: "not a neighbor of a hit",
    Source.TOKEN_MATCH: "was no candidate, so it was not read",
    Source.ROUNDS: "was not what the language model asked for",
    Source.NAME: "is called otherwise",
}


@options.command(
    'explain "how are the two rankings fused?"',
    'explain "how are the two rankings fused?" --why-not storage.md',
    'explain "how are the two rankings fused?" --why-not storage.md --json',
    settings=(),
)
@options.question
@click.option("--why-not", "reference", metavar="PATH[#SECTION]", help="A section, or a file, that should be a hit.")
@options.opening(options.docs, options.index, options.profile)
@options.as_json
def explain(
    console: Console, opening: Opening, words: tuple[str, ...], reference: str | None, *, as_json: bool
) -> ExitCode:
    """Show how the answer to QUESTION was made: every stage with its time, and what each source found.

    With --why-not: at which stage that section (of a file, the one that came furthest) was lost, where it stands in
    each source, and the scores that it would have needed.
    """
    question = options.join_question(words, 'explain "how ...?"')
    if reference is None:
        form = Form(Output.of(as_json=as_json), NO_EDITOR, explain=True, hits=False)
        Asking(AskRequest(question), form, console, opening).run()
        return ExitCode.OK
    from retriever.evaluation.why_not import lift_limits, why_not

    with opening.open(console) as retriever:
        state = retriever.status().index
        deeper = merge(opening.settings, lift_limits(state.sections, state.chunks))
        with replace(opening, docs=(), index=state.path, settings=deeper).open(console) as deep:
            found = why_not(retriever, deep, question, reference)
    if as_json:
        print_json(dump_why_not(found))
    else:
        show_why_not(Page.on(sys.stdout), found)
    sys.stdout.flush()
    for sentence in found.degraded:
        console.note(f"note: {sentence}")
    return ExitCode.OK


def show_explanation(page: Page, answer: "Answer", spent: "Spent") -> None:
    """The stages, the verdict, each source's first ranks with the part that each has in the answer, the fused sums."""
    trace = answer.trace
    page.blank()
    page.heading("stages", "milliseconds, and what was found")
    rows = [
        (spent.opening, "opening", "modules, index, changed files"),
        *((stage.milliseconds, stage.name, stage.note) for stage in trace.stages),
        (spent.total, "total", ""),
    ]
    width = max(len(name) for _, name, _ in rows)
    for milliseconds, name, note in rows:
        page.line(Text.assemble(f"{milliseconds:>9.1f}  ", f"{name:<{width}}  ", (sanitize_line(note), QUIET)))

    page.blank()
    page.heading("verdict", f"{answer.verdict}, confidence {answer.confidence:.2f}")
    for name, meaning in SIGNALS:
        value: float | None = getattr(trace.signals, name)
        shown = "-" if value is None else f"{value:.2f}"
        page.line(Text.assemble(f"{shown:>9}  {name:<9}  ", (meaning, QUIET)))
    page.line(Text.assemble(f"{trace.signals.form:>9}  {'form':<9}  ", ("what the question is made of", QUIET)))

    parts = {
        (item.source, hit.node_id): f"{item.share:.5f} of hit {hit.rank}"
        for hit in answer.hits
        for item in hit.evidence
    }
    for ranking in trace.rankings:
        page.blank()
        found = f"{len(ranking.items):,} found, by {ranking.scale}, weight {ranking.weight:.3g}"
        page.heading(SOURCES[ranking.source], f"{found}; rank, score, part in the answer")
        for rank, item in enumerate(ranking.items[:FIRST_RANKS], start=1):
            part = parts.get((ranking.source, item.node_id), "-")
            node_id = (sanitize_line(item.node_id), CITED)
            page.line(Text.assemble(f"{rank:>4}  {item.score:>8.4g}  {part:<16}  ", node_id))
            if item.matched or item.via:
                page.line(Text(f"{'':36}{sanitize_line(str(item.matched or item.via))}", QUIET))

    page.blank()
    page.heading("fused", f"{answer.hits[0].scale}; hit, score, its parts" if answer.hits else "no hits")
    for hit in answer.hits:
        sum_of_parts = " + ".join(f"{item.share:.5f} {SOURCES[item.source]}" for item in hit.evidence)
        cited, state = (sanitize_line(hit.citation), CITED), (format_doubt(hit.citation_state), QUIET)
        page.line(Text.assemble(f"{hit.rank:>4}  {hit.score:>8.5f} = {sum_of_parts}  ", cited, state))


def show_hypothetical(page: Page, answer: "Answer") -> None:
    """What a language model made up to search with: no content of any document."""
    report = answer.expansion
    page.blank()
    if report is None or not (report.rewordings or report.passages or report.dropped):
        page.heading("hypothetical", "nothing was written to search with")
        return
    page.heading("hypothetical", "written by a language model to search with, found in no document")
    for text in (*report.rewordings, *report.passages):
        page.line(Text(f"  searched with  {sanitize_line(text)}", QUIET))
    for item in report.dropped:
        page.line(Text(f"  dropped        {sanitize_line(item.text)} ({sanitize_line(item.reason)})", QUIET))


def dump_why_not(found: "WhyNot") -> dict[str, Any]:
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


def show_why_not(page: Page, found: "WhyNot") -> None:
    """What became of a section in a line, then the fused list and each source."""
    page.line(
        Text.assemble(
            (sanitize_line(f"{found.node.id_prefix}{found.node.citation}"), CITED), f"  {sanitize_line(found.node.id)}"
        )
    )
    page.paragraph(Text(describe_loss(found)), 2)
    rows = [
        ("fused", describe_fused(found)),
        *((SOURCES[item.source], describe_source(item)) for item in found.sources),
    ]
    width = max(len(name) for name, _ in rows)
    if found.reranked:
        rows = [("rerank", f"#{found.reranked:,} after the reranking"), *rows]
    for name, text in rows:
        page.line(Text(f"{name:<{width}}  {sanitize_line(text)}"), 2)


def describe_loss(found: "WhyNot") -> str:
    from retriever.evaluation.runs import Stage

    def setting_at(name: str, bar: "Bar | None") -> str:
        return f"{name} is {bar.rank}" if bar else f"{name} is larger than the list"

    rank = found.reranked or found.rank
    if found.stage is Stage.RETURNED:
        return f"It is a hit: #{rank}."
    if found.stage is Stage.NOT_FOUND:
        return "Lost in the sources: none of them listed it, and it is no neighbor of what they listed."
    if found.stage is Stage.CUT:
        return f"Lost after the fusion: #{rank}, and {setting_at('candidate_cap', found.cap)}."
    return f"Lost at the end: #{rank} of the candidates, and {setting_at('top_k', found.top)}."


def describe_fused(found: "WhyNot") -> str:
    if found.rank is None or found.score is None:
        return f"not among the {found.fused:,} sections"
    needed = [
        f"#{bar.rank} has {bar.score:.5f}: {bar.score - found.score:.5f} more"
        for bar in (found.top, found.cap)
        if bar and bar.score > found.score
    ]
    return "; ".join([f"#{found.rank:,} of {found.fused:,}, score {found.score:.5f}", *needed])


def describe_source(found: "InRanking") -> str:
    if found.rank is None or found.score is None:
        facts = [ABSENT.get(found.source, "finds nothing in it")]
    else:
        facts = [f"#{found.rank:,}, {found.scale} {found.score:.4g}"]
    if found.first_score is None or found.last_score is None:
        facts.append("lists nothing")
    elif found.rank != 1:
        facts.append(f"its {found.listed:,} go from {found.first_score:.4g} to {found.last_score:.4g}")
    if found.lacks is not None:
        facts.append(f"{found.lacks:.4g} more would have listed it")
    return "; ".join(facts)
