"""`eval`: how well profiles find the sections that answer questions."""

import sys
from pathlib import Path

import click

from retriever.command_line import options
from retriever.command_line.options import Opening
from retriever.command_line.output import Console, Output
from retriever.command_line.render import Page
from retriever.display import pluralize
from retriever.evaluation import (
    DEPTH,
    HEADLINES,
    Estimate,
    Summary,
    System,
    ask_all,
    compare,
    read_questions,
)
from retriever.settings import DEFAULT_PROFILE, profile_names


@options.command(
    "eval questions.jsonl --docs docs",
    "eval questions.jsonl --docs docs --profiles balanced,recall,classic",
    "eval questions.jsonl --docs docs --json",
    settings=(),
)
@click.argument("questions", metavar="QUESTIONS")
@options.docs
@options.index
@click.option(
    "--profiles",
    default=DEFAULT_PROFILE,
    show_default=True,
    metavar="NAME,...",
    help=f"Profiles to measure, separated by commas: {', '.join(profile_names())}, or YAML files.",
)
@options.no_llm
@options.output
def evaluate(
    console: Console,
    opening: Opening,
    output: Output,
    questions: str,
    profiles: str,
) -> None:
    """Measure how well profiles find the sections that answer QUESTIONS, with intervals and pairwise comparisons.

    QUESTIONS is a JSONL file (id, question, kind, gold: file, start_line, end_line). docs/internals/evaluation.md
    describes it and the measures.
    """
    if "top_k" in opening.settings:
        raise click.UsageError(f"{DEPTH} sections are always measured; leave out --top-k")
    names = dict.fromkeys(name.strip() for name in profiles.split(",") if name.strip())
    asked = read_questions(Path(questions))
    with console.show_progress() as progress:
        # One profile after another, never side by side: their times are compared.
        systems = [
            ask_all(System(name, name, opening.settings), asked.questions, *opening[:2], progress=progress)
            for name in names
        ]
    summary = compare(asked, systems)
    output.draw(summary, lambda page: show_summary(page, summary))
    sys.stdout.flush()
    for system in summary.systems:
        for sentence, times in system.failures.items():
            console.note(f"failed: {system.system}: {sentence} ({times:,} questions)")


def show_summary(page: Page, summary: Summary) -> None:
    """Print every system in a row, with intervals, and below it by kind; what it costs; every pair.

    >>> from retriever.evaluation import Comparison, MeanDifference, Question, QuestionSet, SystemSummary
    >>> share = Estimate(0.75, 0.5, 1.0, 4)
    >>> found, kinds = {"hit@5": share}, {"how-to": {"hit@5": share}, "term": {}}
    >>> asked = QuestionSet("larder", tuple(Question(str(number), "?", ()) for number in range(2)))
    >>> fast = SystemSummary("fast", "fast", {}, {}, found, kinds, {}, 1.26, 4.04, 0.5, None)
    >>> only = SystemSummary("only", "only", {}, {}, found, {"term": {}}, {}, 1.0, 2.0, None, 0.125)
    >>> pair = Comparison("fast", "only", "hit@5", MeanDifference(-0.0625, -0.125, 0.03125, 4, 0, 1, 3))
    >>> show_summary(Page(), Summary(asked, (fast, only), (pair,)))
    <BLANKLINE>
    larder: 2 questions  2 of them without an answer; means with 95 % intervals
              nDCG@10  hit@1            hit@5  hit@10  hit@30  MRR@10
    fast            -      -  .750 [.50 1.00]       -       -       -
      how-to        -      -  .750 [.50 1.00]       -       -       -
      term          -      -                -       -       -       -
    only            -      -  .750 [.50 1.00]       -       -       -
    <BLANKLINE>
    cost  of a question
          p50 ms  p95 ms  abstains  wrongly
    fast     1.3     4.0      .500        -
    only     1.0     2.0         -     .125
    <BLANKLINE>
    pairs  difference, 95 % interval
          against  measure          difference  won  lost  tied
    fast  only     hit@5    -.062 [-.125 .031]    0     1     3
    """
    questions, systems = summary.questions, summary.systems
    unanswerable = sum(not item.gold for item in questions.questions)
    without = f"{unanswerable:,} of them without an answer; " if unanswerable else ""
    title = f"{questions.name}: {pluralize(len(questions.questions), 'question')}"
    rows = [["", *HEADLINES]]
    for item in systems:
        named = {item.system: item.overall}
        if len(item.by_kind) > 1:
            named |= {f"  {kind}": values for kind, values in item.by_kind.items()}
        for name, values in named.items():
            rows.append([name, *(format_interval(values.get(measure)) for measure in HEADLINES)])
    page.table(title, f"{without}means with 95 % intervals", rows)
    rows = [["", "p50 ms", "p95 ms", "abstains", "wrongly"]]
    for item in systems:
        shares = map(format_share, (item.abstention, item.false_abstention))
        rows.append([item.system, f"{item.p50_ms:.1f}", f"{item.p95_ms:.1f}", *shares])
    page.table("cost", "of a question", rows)
    rows = [["", "against", "measure", "difference", "won", "lost", "tied"]]
    for pair in summary.comparisons:
        found = pair.difference
        counts = map(str, (found.wins, found.losses, found.ties))
        rows.append([pair.first, pair.second, pair.measure, format_interval(found, 3), *counts])
    if summary.comparisons:
        page.table("pairs", "difference, 95 % interval", rows, left=(0, 1, 2))


def format_interval(value: Estimate | None, digits: int = 2) -> str:
    if value is None:
        return "-"
    return f"{format_share(value.mean)} [{format_share(value.low, digits)} {format_share(value.high, digits)}]"


def format_share(value: float | None, digits: int = 3) -> str:
    """Format a share; a dash for none.

    >>> format_share(0.6174), format_share(1.0, 2), format_share(-0.25, 2), format_share(None)
    ('.617', '1.00', '-.25', '-')
    """
    # Without the zero, as the tables of the field have it: seven columns fit a terminal.
    return "-" if value is None else f"{value:.{digits}f}".replace("0.", ".", 1)
