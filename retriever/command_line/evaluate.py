"""`eval`: how well profiles find the sections that answer questions; `questions`: a first set of questions."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import click
from rich.text import Text

from retriever.command_line import options
from retriever.command_line.console import STANDARD_STREAM, Console, print_json, write_whole
from retriever.command_line.options import ExitCode, Opening
from retriever.command_line.render import QUIET, Page
from retriever.display.phrases import pluralize
from retriever.display.sanitize import sanitize_line
from retriever.errors import DocumentsError, RetrieverError
from retriever.evaluation.measures import BUDGET_NAMES
from retriever.evaluation.runs import Stage
from retriever.settings.layers import DEFAULT_PROFILE, profile_names

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from retriever.evaluation.ask import Asked
    from retriever.evaluation.formats import Source
    from retriever.evaluation.statistics import Estimate
    from retriever.evaluation.summary import Summary
    from retriever.protocols import Progress

WITHOUT_EXPANSION = " - expansion"  # ends the name of a system that is measured without expansions (evaluation/ask.py)
KIND_MEASURES = 3  # headline measures shown for each kind of question: nDCG@10, hit@1, hit@5
NONE = "-"


@dataclass(frozen=True, slots=True)
class Request:
    opening: Opening  # its settings are over those of every profile
    profiles: tuple[str, ...]
    expansions: str | None
    ablate: bool
    scored: tuple[str, ...]  # files of runs, which are measured instead of asking
    depth: int


@options.command(
    "questions docs --limit 20 --out questions.jsonl",
    "eval questions.jsonl --docs docs",
    "eval questions.jsonl --docs docs --profiles balanced,recall,classic --report report.html",
    "eval questions.jsonl --docs docs --ablate --json",
    "eval questions.jsonl --docs docs --save-baseline baseline.json",
    name="eval",
    settings=(),
)
@click.argument("questions", metavar="QUESTIONS")
@options.opening(options.docs, options.index)
@click.option(
    "--profiles",
    default=DEFAULT_PROFILE,
    show_default=True,
    metavar="NAME,...",
    help=f"The recall modes to measure: {', '.join(profile_names())}, or YAML files, with commas between.",
)
@click.option("--expansions", metavar="FILE", help="Recorded rewordings and passages (JSONL) to search with as well.")
@click.option("--ablate", is_flag=True, help="Measure each profile again without each of its parts.")
@click.option(
    "--score", multiple=True, metavar="FILE", help="Measure this run (JSONL or TREC) instead of asking. Repeatable."
)
@click.option(
    "--depth",
    type=click.IntRange(min=1),
    default=30,
    show_default=True,
    metavar="N",
    help="How many sections are asked for.",
)
@options.as_json
@click.option("--run", metavar="FILE", help="Write what was found for each question, as JSONL.")
@click.option("--report", metavar="FILE", help="Write one page of HTML: plots, and each question with what was found.")
@click.option("--baseline", metavar="FILE", help="Exit with 1 when a measure fell significantly below this file's.")
@click.option("--save-baseline", metavar="FILE", help="Write the file that --baseline reads.")
def evaluate(
    console: Console,
    opening: Opening,
    questions: str,
    profiles: str,
    expansions: str | None,
    score: tuple[str, ...],
    depth: int,
    run: str | None,
    report: str | None,
    baseline: str | None,
    save_baseline: str | None,
    *,
    ablate: bool,
    as_json: bool,
) -> ExitCode:
    """Measure how well profiles find the sections that answer QUESTIONS, with intervals and every pair compared.

    QUESTIONS is a JSONL file (id, question, kind, gold: file, start_line, end_line), a BEIR folder, a fixture of qmd's
    bench, or TREC judgements (with --score). docs/evaluation.md describes the formats and the measures.
    """
    names = tuple(dict.fromkeys(name.strip() for name in profiles.split(",") if name.strip()))
    request = Request(opening, names, expansions, ablate, score, depth)
    # Files first: what took minutes to measure is kept even where the terminal is gone by then.
    summary = measure(Path(questions), request, console)
    write_files(summary, run, report, save_baseline)
    if as_json:
        from retriever.evaluation.summary import dump_summary

        print_json(dump_summary(summary))
    else:
        show_summary(Page.on(sys.stdout), summary)
    sys.stdout.flush()
    for system in summary.systems:
        for word, sentences in (("failed", system.failures), ("note", system.remarks)):
            for sentence, times in sentences.items():
                console.note(f"{word}: {system.system}: {sentence} ({times:,} questions)")
    if baseline:
        compare_with_baseline(summary, Path(baseline), console)
    return ExitCode.OK


def measure(questions: Path, request: Request, console: Console) -> "Summary":
    """Asks every profile every question, or reads what was found before, and measures it."""
    from retriever.evaluation.formats import open_source

    opening = request.opening
    with open_source(questions) as source, console.show_progress() as progress:
        if not source.can_be_asked and not request.scored:
            raise click.UsageError("TREC judgements hold no questions to ask: name a run with --score")
        if source.documents and (opening.docs or opening.index):
            raise click.UsageError("a BEIR folder brings its own documents: leave out --docs and --index")
        if request.scored and (request.ablate or request.expansions or opening.settings):
            raise click.UsageError(
                "--score measures what was found before: leave out --ablate, --expansions and settings"
            )
        if "top_k" in opening.settings:
            raise click.UsageError("--depth says how many sections are measured; leave out --top-k")
        if not request.profiles:
            raise click.UsageError("--profiles names none")
        with open_questions(request, source) as asked:
            return score_runs(request.scored, asked) if request.scored else ask_systems(request, asked, progress)


@contextmanager
def open_questions(request: Request, source: "Source") -> "Iterator[Asked]":
    """The questions with their documents; those of a BEIR folder get an index that is gone afterwards."""
    from retriever.evaluation.ask import Asked
    from retriever.evaluation.formats import check_expansions, read_expansions

    expansions = {}
    if request.expansions:
        path = Path(request.expansions)
        expansions = read_expansions(path)
        check_expansions(expansions, source.questions, path)
    if source.documents is None:
        yield Asked(source.questions, request.opening.docs, request.opening.index, expansions, request.depth)
        return
    # A benchmark's documents are nobody's notes, so its index is not left among the user's.
    with TemporaryDirectory(prefix="hybrid-retrieve-index-") as index:
        yield Asked(source.questions, (str(source.documents),), index, expansions, request.depth)


def ask_systems(request: Request, asked: "Asked", progress: "Progress | None") -> "Summary":
    """Every profile is asked every question; with --ablate, again without each of its parts."""
    from retriever.evaluation.ask import System, ask_all, list_sections, open_system, without_each_part
    from retriever.evaluation.summary import summarize

    systems = [System(name, name, request.opening.settings) for name in request.profiles]
    if request.ablate:
        parts: list[System] = []
        for system in systems:
            with open_system(system, asked, progress) as retriever:
                expanded = bool(asked.expansions) or retriever.profile.use_llm
                parts += without_each_part(system, retriever.profile, expanded=expanded)
        systems = parts
    # One profile after another, never side by side: their times are compared.
    runs = [ask_all(system, asked, progress) for system in systems]
    with open_system(systems[0], asked, progress) as retriever:
        return summarize(asked.questions, runs, list_sections(retriever))


def score_runs(files: "Sequence[str]", asked: "Asked") -> "Summary":
    """Measures runs from files; the index says only which sections there are."""
    from retriever.evaluation.ask import System, list_sections, open_system
    from retriever.evaluation.questions import Sections, check_gold
    from retriever.evaluation.runs import check_runs, read_runs
    from retriever.evaluation.summary import summarize

    runs = [run for name in files for run in read_runs(Path(name))]
    check_runs(runs, [question.id for question in asked.questions.questions])
    # Judgements of whole documents need no index: a run of another program is measured without one.
    sections = Sections(())
    if asked.questions.has_lines:
        with open_system(System("", DEFAULT_PROFILE, {}), asked) as retriever:
            sections = list_sections(retriever)
        check_gold(asked.questions.questions, sections)
    seen: dict[str, int] = {}
    for place, run in enumerate(runs):  # two files may have one name: `run`, `run 2`
        seen[run.system] = seen.get(run.system, 0) + 1
        if seen[run.system] > 1:
            runs[place] = replace(run, system=f"{run.system} {seen[run.system]}")
    return summarize(asked.questions, runs, sections)


def write_files(summary: "Summary", run: str | None, report: str | None, baseline: str | None) -> None:
    if run:
        from retriever.evaluation.runs import format_run

        with write_whole(run) as out:
            for found in summary.runs:
                out.writelines(f"{line}\n" for line in format_run(found, len(summary.runs)))
    if report:
        from retriever.evaluation.report import render_report

        with write_whole(report) as out:
            out.write(render_report(summary))
    if baseline:
        from retriever.evaluation.summary import format_baseline

        with write_whole(baseline) as out:
            out.write(format_baseline(summary))


def compare_with_baseline(summary: "Summary", baseline: Path, console: Console) -> None:
    """Says what changed since the baseline. Raises RetrieverError when a measure fell, or cannot be compared."""
    from retriever.evaluation.summary import compare_to_baseline, read_baseline

    verdict = compare_to_baseline(summary, read_baseline(baseline))
    for change in verdict.changes:
        values = f"{change.before:.3f} -> {change.after:.3f} (p = {change.difference.p:.4f})"
        console.note(f"{change.system}: {change.measure} {values}")
    # All falls in one message: whoever reads it in a log wants to run this once.
    if verdict.is_worse:
        falls = [
            f"{change.system}: {change.measure} fell from {change.before:.3f} to {change.after:.3f}"
            for change in verdict.changes
            if change.is_fall
        ]
        raise RetrieverError("\n".join([*falls, *verdict.problems]))


# A summary for people: every system in a row, with intervals; by kind; what it costs; where it loses; every pair.


def show_summary(page: Page, summary: "Summary") -> None:
    questions, systems = summary.questions, summary.systems
    unanswerable = sum(not item.is_answerable for item in questions.questions)
    text = f"{sanitize_line(questions.name)}: {pluralize(len(questions.questions), 'question')}"
    without = f", {unanswerable:,} of them without an answer" if unanswerable else ""
    page.line(Text.assemble((text, "bold"), (f"{without}; means with 95 % intervals", QUIET)))
    rows = [[item.system, *(format_interval(item.overall.get(name)) for name in summary.headlines)] for item in systems]
    show_table(page, ["", *summary.headlines], rows)
    if len(questions.kinds) > 1:
        show_kinds(page, summary)
    page.blank()
    page.heading("cost", "of a question; answered@n: within n tokens of context")
    show_costs(page, summary)
    if any(item.losses for item in systems):
        page.blank()
        page.heading("lost", "how far the best of the right sections came")
        losses = [[f"{item.losses[stage]:,}" if item.losses else NONE for stage in Stage] for item in systems]
        show_table(page, ["", *Stage], [[item.system, *row] for item, row in zip(systems, losses, strict=True)])
    if summary.comparisons:
        page.blank()
        page.heading("pairs", "difference, 95 % interval, paired randomisation test")
        rows = []
        for pair in summary.comparisons:
            found = pair.difference
            sign = "+" if found.mean > 0 else ""
            interval = f"{sign}{format_share(found.mean)} [{format_share(found.low)} {format_share(found.high)}]"
            p = f"{found.p:.4f}{' *' if found.is_significant else ''}"
            counts = (str(found.wins), str(found.losses), str(found.ties))
            rows.append([pair.first, pair.second, pair.measure, interval, p, *counts])
        show_table(page, ["", "against", "measure", "difference", "p", "won", "lost", "tied"], rows)


def show_kinds(page: Page, summary: "Summary") -> None:
    kinds = summary.questions.kinds
    shown = summary.headlines[:KIND_MEASURES]
    answerable = [item.kind for item in summary.questions.questions if item.is_answerable]
    rows = []
    for system in summary.systems:
        means = [system.by_kind[kind] for kind in kinds]
        cells = [" / ".join(format_share(row[name].mean) if name in row else NONE for name in shown) for row in means]
        rows.append([system.system, *cells])
    page.blank()
    page.heading("by kind", " / ".join(shown))
    show_table(page, ["", *(f"{kind} ({answerable.count(kind)})" for kind in kinds)], rows)


def show_costs(page: Page, summary: "Summary") -> None:
    rows = []
    for item in summary.systems:
        latency = item.latency
        rows.append(
            [
                item.system,
                f"{latency.p50:.1f}" if latency else NONE,
                f"{latency.p95:.1f}" if latency else NONE,
                *(format_share(item.overall[name].mean) if name in item.overall else NONE for name in BUDGET_NAMES),
                f"{item.tokens_to_answer:,.0f}" if item.tokens_to_answer is not None else NONE,
                f"{item.abstention:.0%}" if item.abstention is not None else NONE,
                f"{item.false_abstention:.0%}" if item.false_abstention is not None else NONE,
                format_share(item.auroc) if item.auroc is not None else NONE,
                f"{item.llm_calls:,}",
                f"{item.failed:,}",
            ]
        )
    abstention = ("tokens to answer", "abstains", "wrongly", "AUROC")
    show_table(page, ["", "p50 ms", "p95 ms", *BUDGET_NAMES, *abstention, "LLM calls", "failed"], rows)


def format_interval(value: "Estimate | None") -> str:
    if value is None:
        return NONE
    return f"{format_share(value.mean)} [{format_share(value.low, 2)} {format_share(value.high, 2)}]"


def format_share(value: float, digits: int = 3) -> str:
    """`.617`, `1.00`."""
    # Without the zero, as the tables of the field have it: seven columns fit a terminal.
    text = f"{value:.{digits}f}"
    return text.removeprefix("0") if value >= 0 else f"-{text.removeprefix('-').removeprefix('0')}"


def show_table(page: Page, titles: "Sequence[str]", rows: "Iterable[Sequence[str]]") -> None:
    """Columns as wide as their longest cell, the first one left, the others right; rows are never broken."""
    cells = [[sanitize_line(str(cell)) for cell in row] for row in (titles, *rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for number, row in enumerate(cells):
        first, *others = zip(row, widths, strict=True)
        text = "  ".join([f"{first[0]:<{first[1]}}", *(f"{cell:>{width}}" for cell, width in others)])
        page.line(Text(text, QUIET if number == 0 else ""))


# `questions`: a first set of questions out of one's own documents.


@options.command(
    "questions docs > questions.jsonl", "questions docs --limit 50 --out questions.jsonl", settings=("documents",)
)
@click.argument("docs", metavar="DOCS")
@click.option(
    "--limit", type=click.IntRange(min=1), default=200, show_default=True, metavar="N", help="How many at most."
)
@click.option("--out", default=STANDARD_STREAM, metavar="FILE", help="Where they go; standard output by default.")
def questions(console: Console, settings: dict[str, Any], docs: str, limit: int, out: str) -> ExitCode:
    """Make questions out of the folder DOCS: its headings, and its links with the sentence around them.

    They come with the lines that answer them, as JSONL for `eval`. They use the documents' own words, so they are
    easier than real questions: good for comparing settings, and for finding sections that are never found.
    """
    from pageindex.document import parse_document
    from pageindex.files import UnreadableDocumentError, read_document
    from retriever.evaluation.own_questions import format_question, make_own_questions, sample
    from retriever.indexing.changes import list_documents
    from retriever.settings.layers import load_profile

    limits = load_profile(flags=settings).documents
    # No index is needed, nor made: who has none yet can look at what would be asked.
    listing = list_documents(Path(docs), limits)
    skipped = [(item.path, item.reason) for item in listing.skipped]
    documents = []
    for file in listing.files:
        try:
            documents.append(parse_document(file.path, read_document(file, limits.max_file_bytes).text))
        except UnreadableDocumentError as error:
            skipped.append((file.path, error.reason))
    console.note_skipped(tuple(skipped))
    made = make_own_questions(documents)
    if not made:
        raise DocumentsError(f"{docs}: no heading or link of it makes a question")
    chosen = sample(made, limit)
    with write_whole(out) as stream:
        stream.writelines(f"{format_question(question)}\n" for question in chosen)
    sys.stdout.flush()
    more = f" of {len(made):,}; --limit gives more" if len(made) > len(chosen) else ""
    console.note(f"made {pluralize(len(chosen), 'question')}{more}")
    return ExitCode.OK
