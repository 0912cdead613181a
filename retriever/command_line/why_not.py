"""`explain`: how an answer was made; with --why-not, what became of a section that is not in it."""

import sys
import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from retriever.command_line import options
from retriever.command_line.exit_codes import ExitCode
from retriever.command_line.help_pages import WithExamples
from retriever.errors import QuestionError
from retriever.settings.profile import merged
from retriever.timing import Spent, milliseconds_since

if TYPE_CHECKING:
    from collections.abc import Iterator

    from retriever.command_line.notes import Notes
    from retriever.command_line.page import Page
    from retriever.evaluation.why_not import Bar, InArm, WhyNot


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
    """Show how the answer to QUESTION was made: every stage with its time, and what each arm found.

    With --why-not: at which stage that section (of a file, the one that came furthest) was lost, where it stands in
    each arm, and the scores that it would have needed.
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
    from retriever.command_line.progress import shown_progress
    from retriever.command_line.remarks import make_remarks
    from retriever.library import open_retriever

    with (
        shown_progress(notes) as progress,
        open_retriever(given["docs"], given["index"], given["profile"], settings, progress) as retriever,
    ):
        opening = milliseconds_since(begun)
        answer = retriever.search(question)
        spent = Spent(opening, milliseconds_since(begun))
    if given["as_json"]:
        from retriever.command_line.as_json import write_json
        from retriever.display.json import answer_object

        write_json(answer_object(answer, spent, full=False, explain=True))
    else:
        from retriever.command_line.explain import show_explanation
        from retriever.command_line.page import Page

        show_explanation(Page.on(sys.stdout), answer, spent)
    sys.stdout.flush()
    make_remarks(answer, notes, spent, index=given["index"], footer=not given["as_json"])
    return ExitCode.OK


def _explain_absence(question: str, given: dict[str, Any], settings: dict[str, Any], notes: "Notes") -> ExitCode:
    from retriever.command_line.progress import shown_progress
    from retriever.evaluation.why_not import limitless, why_not
    from retriever.library import open_retriever

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
        from retriever.command_line.as_json import write_json

        write_json(why_not_object(found))
    else:
        from retriever.command_line.page import Page

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
        "arms": [{**asdict(arm), "lacks": arm.lacks} for arm in found.arms],
        "degraded": list(found.degraded),
    }


def show_why_not(page: "Page", found: "WhyNot") -> None:
    """The verdict in a line, then the fused list and each arm."""
    from rich.text import Text

    from retriever.command_line.page import CITED
    from retriever.display.sanitize import sanitize_line

    page.line(Text.assemble((sanitize_line(found.node.citation), CITED), f"  {sanitize_line(found.node.id)}"))
    page.paragraph(Text(verdict(found)), 2)
    width = max(map(len, ["fused", *(arm.arm for arm in found.arms)]))
    reranked = [("rerank", f"#{found.reranked:,} after the reranking")] if found.reranked else []
    arms = [(arm.arm, arm_text(arm)) for arm in found.arms]
    for name, text in [*reranked, ("fused", fused_text(found)), *arms]:
        page.line(Text(f"{name:<{width}}  {sanitize_line(text)}"), 2)


def verdict(found: "WhyNot") -> str:
    """What became of it, in a sentence."""
    from retriever.evaluation.losses import Stage

    rank = found.reranked or found.rank
    if found.stage is Stage.RETURNED:
        return f"It is a hit: #{rank}."
    if found.stage is Stage.NO_ARM:
        return "Lost in the arms: none of them listed it, and it is no neighbour of what they listed."
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


_ABSENT = {"neighbors": "not a neighbour of a hit", "late": "was no candidate, so it was not read"}
"""Why an arm that does not look at every section did not look at this one."""


def arm_text(arm: "InArm") -> str:
    """Where it stands in an arm, and what it lacks."""
    return "; ".join(_arm_facts(arm))


def _arm_facts(arm: "InArm") -> "Iterator[str]":
    if arm.rank is None or arm.score is None:
        yield _ABSENT.get(arm.arm, "sees nothing in it")
    else:
        yield f"#{arm.rank:,}, {arm.scale} {arm.score:.4g}"
    if arm.first_score is None or arm.last_score is None:
        yield "lists nothing"
    elif arm.rank != 1:
        yield f"its {arm.listed:,} go from {arm.first_score:.4g} to {arm.last_score:.4g}"
    if arm.lacks is not None:
        yield f"{arm.lacks:.4g} more would have listed it"
