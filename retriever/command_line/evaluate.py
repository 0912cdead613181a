"""`eval`: how well profiles find the sections that answer questions."""

import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import click
from rich.text import Text

from retriever.command_line import options
from retriever.command_line.console import QUIET, Page
from retriever.command_line.options import ExitCode, WithExamples
from retriever.display.phrases import counted
from retriever.display.sanitize import sanitize_line
from retriever.errors import DocumentsError, RetrieverError, UsageError
from retriever.evaluation.measures import BUDGET_NAMES
from retriever.evaluation.runs import Stage
from retriever.settings.layers import DEFAULT_PROFILE, profile_names

if TYPE_CHECKING:
    from pageindex.document import Document
    from retriever.command_line.console import Notes
    from retriever.evaluation.ask import Asked
    from retriever.evaluation.formats import Source
    from retriever.evaluation.runs import Run
    from retriever.evaluation.statistics import Estimate
    from retriever.evaluation.summary import Comparison, Summary, SystemSummary
    from retriever.retriever import Retriever
    from retriever.settings.schema import DocumentSettings
    from retriever.types import Progress


WITHOUT_EXPANSION = " - expansion"
"""Ends the name of a system that is measured without expansions; see evaluation/ablation.py."""


@dataclass(frozen=True, slots=True)
class Request:
    """What is to be measured, and where the results go."""

    questions: str
    docs: tuple[str, ...]
    index: str | None
    profiles: str
    """Names, with commas between."""
    settings: dict[str, Any]
    """Over those of every profile."""
    expansions: str | None
    ablate: bool
    score: tuple[str, ...]
    depth: int
    as_json: bool
    run: str | None
    report: str | None
    baseline: str | None
    save_baseline: str | None


@click.command(
    "eval",
    examples=(
        "eval questions.jsonl --docs docs",
        "eval questions.jsonl --docs docs --profiles balanced,recall,classic --report report.html",
        "eval questions.jsonl --docs docs --ablate --json",
        "eval questions.jsonl --docs docs --save-baseline baseline.json",
    ),
    cls=WithExamples,
    params=options.setting_parameters(),
    short_help="Measure how well profiles find what answers a set of questions.",
)
@click.argument("questions", metavar="QUESTIONS")
@options.docs_option
@options.index_option
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
@options.json_option
@click.option("--run", metavar="FILE", help="Write what was found for each question, as JSONL.")
@click.option("--report", metavar="FILE", help="Write one page of HTML: plots, and each question with what was found.")
@click.option("--baseline", metavar="FILE", help="Exit with 1 when a measure fell significantly below this file's.")
@click.option("--save-baseline", metavar="FILE", help="Write the file that --baseline reads.")
@options.voice_options
def evaluate(**given: Any) -> ExitCode:  # noqa: ANN401 - one value for each of the profile's settings, whatever they are
    """Measure how well profiles find the sections that answer QUESTIONS, with intervals and every pair compared.

    QUESTIONS is a JSONL file (id, question, kind, gold: file, start_line, end_line), a BEIR folder, a fixture of qmd's
    bench, or TREC judgements (with --score). docs/evaluation.md describes the formats and the measures.
    """
    notes = options.taken_notes(given)
    request = Request(settings=options.taken_settings(given), **given)
    summary = _measured(request, notes)
    _write_files(request, summary)
    _show(request, summary, notes)
    return _compared(request, summary, notes)


def _measured(request: Request, notes: "Notes") -> "Summary":
    from retriever.command_line.console import shown_progress
    from retriever.evaluation.formats import open_source

    with open_source(Path(request.questions)) as source, shown_progress(notes) as progress:
        _check(request, source)
        with _asked(request, source) as asked:
            return _scored(request, asked) if request.score else _searched(request, asked, progress)


def _check(request: Request, source: "Source") -> None:
    """Refuses what cannot be meant, before anything is indexed.

    Raises:
        click.UsageError: options that exclude each other, or judgements without a run.
    """
    if not source.can_be_asked and not request.score:
        raise click.UsageError("TREC judgements hold no questions to ask: name a run with --score")
    if source.documents and (request.docs or request.index):
        raise click.UsageError("a BEIR folder brings its own documents: leave out --docs and --index")
    if request.score and (request.ablate or request.expansions or request.settings):
        raise click.UsageError("--score measures what was found before: leave out --ablate, --expansions and settings")
    if "top_k" in request.settings:
        raise click.UsageError("--depth says how many sections are measured; leave out --top-k")


@contextmanager
def _asked(request: Request, source: "Source") -> "Iterator[Asked]":
    from retriever.evaluation.ask import Asked
    from retriever.evaluation.formats import check_expansions, read_expansions

    expansions = {}
    if request.expansions:
        path = Path(request.expansions)
        expansions = read_expansions(path)
        check_expansions(expansions, source.questions, path)
    if source.documents is None:
        yield Asked(source.questions, request.docs, request.index, expansions, request.depth)
        return
    with TemporaryDirectory(prefix="hybrid-retrieve-index-") as index:
        yield Asked(source.questions, (str(source.documents),), index, expansions, request.depth)


def _searched(request: Request, asked: "Asked", progress: "Progress | None") -> "Summary":
    """Every profile is asked every question."""
    from retriever.evaluation.ask import System, ask_all, open_system, sections_of, without_each_part
    from retriever.evaluation.summary import summarize

    names = list(dict.fromkeys(name.strip() for name in request.profiles.split(",") if name.strip()))
    if not names:
        raise click.UsageError("--profiles names none")
    systems = [System(name, name, request.settings) for name in names]
    if request.ablate:
        profiles = []
        for system in systems:
            with open_system(system, asked, progress) as retriever:
                profiles.append(retriever.profile)
        expanded = bool(asked.expansions)
        systems = [
            part
            for system, profile in zip(systems, profiles, strict=True)
            for part in without_each_part(system, profile, expanded=expanded or profile.use_llm)
        ]
    runs = [ask_all(system, asked, progress) for system in systems]
    with open_system(systems[0], asked, progress) as retriever:
        summary = summarize(asked.questions, runs, sections_of(retriever))
        _note_gains(summary, retriever)
    return summary


def _note_gains(summary: "Summary", retriever: "Retriever") -> None:
    """For `status --metrics`: what expansions were worth, where --ablate measured a profile without them too."""
    systems = {system.system: system for system in summary.systems}
    measure = summary.headlines[0]
    for name, system in systems.items():
        without = systems.get(f"{name}{WITHOUT_EXPANSION}")
        if without and measure in system.overall and measure in without.overall:
            questions = f"{summary.questions.name}, {name}"
            retriever.note_gain(questions, without.overall[measure].mean, system.overall[measure].mean)


def _scored(request: Request, asked: "Asked") -> "Summary":
    """Runs from files; the index says only which sections there are."""
    from retriever.evaluation.ask import System, open_system, sections_of
    from retriever.evaluation.questions import Sections, check_gold
    from retriever.evaluation.runs import check_runs, read_runs
    from retriever.evaluation.summary import summarize

    runs = [run for name in request.score for run in read_runs(Path(name))]
    check_runs(runs, [question.id for question in asked.questions.questions])
    sections = Sections(())
    if asked.questions.has_lines:
        with open_system(System("", DEFAULT_PROFILE, {}), asked) as retriever:
            sections = sections_of(retriever)
        check_gold(asked.questions.questions, sections)
    return summarize(asked.questions, _distinct_names(runs), sections)


def _distinct_names(runs: "Sequence[Run]") -> "list[Run]":
    """`run`, `run 2`: two files may be called alike."""
    from dataclasses import replace

    seen: dict[str, int] = {}
    named = []
    for run in runs:
        seen[run.system] = seen.get(run.system, 0) + 1
        number = seen[run.system]
        named.append(run if number == 1 else replace(run, system=f"{run.system} {number}"))
    return named


def _write_files(request: Request, summary: "Summary") -> None:
    from retriever.command_line.ask import written_whole

    if request.run:
        from retriever.evaluation.runs import run_lines

        with written_whole(request.run) as out:
            for run in summary.runs:
                out.writelines(f"{line}\n" for line in run_lines(run, len(summary.runs)))
    if request.report:
        from retriever.evaluation.report import render_report

        with written_whole(request.report) as out:
            out.write(render_report(summary))
    if request.save_baseline:
        from retriever.evaluation.summary import baseline_text

        with written_whole(request.save_baseline) as out:
            out.write(baseline_text(summary))


def _show(request: Request, summary: "Summary", notes: "Notes") -> None:
    if request.as_json:
        from retriever.command_line.console import write_json
        from retriever.evaluation.summary import summary_object

        write_json(summary_object(summary))
    else:
        from retriever.command_line.console import Page

        show_summary(Page.on(sys.stdout), summary)
    sys.stdout.flush()
    for system in summary.systems:
        for sentence, times in {**system.failures, **system.remarks}.items():
            is_failure = sentence in system.failures
            notes.say(f"{'failed' if is_failure else 'note'}: {system.system}: {sentence} ({times:,} questions)")


def _compared(request: Request, summary: "Summary", notes: "Notes") -> ExitCode:
    """Says what became of the baseline.

    Raises:
        RetrieverError: something fell, or cannot be compared.
    """
    if not request.baseline:
        return ExitCode.OK
    from retriever.evaluation.summary import against, read_baseline

    verdict = against(summary, read_baseline(Path(request.baseline)))
    for change in verdict.changes:
        values = f"{change.before:.3f} -> {change.after:.3f} (p = {change.difference.p:.4f})"
        notes.say(f"{change.system}: {change.measure} {values}")
    if verdict.is_worse:
        fallen = [
            f"{change.system}: {change.measure} fell from {change.before:.3f} to {change.after:.3f}"
            for change in verdict.changes
            if change.is_fall
        ]
        raise RetrieverError("\n".join([*fallen, *verdict.problems]))
    return ExitCode.OK


# A summary for people: every system in a row, with intervals; by kind; what it costs; where it loses; every pair.

KIND_MEASURES = 3
"""So many of the headline measures are shown for each kind: nDCG@10, hit@1, hit@5."""

NONE = "-"


def show_summary(page: Page, summary: "Summary") -> None:
    """All tables, a blank line between two."""
    questions = summary.questions
    unanswerable = sum(not item.is_answerable for item in questions.questions)
    text = f"{sanitize_line(questions.name)}: {counted(len(questions.questions), 'question')}"
    without = f", {unanswerable:,} of them without an answer" if unanswerable else ""
    page.line(Text.assemble((text, "bold"), (f"{without}; means with 95 % intervals", QUIET)))
    _show_evaluation_tables(
        page, ["", *summary.headlines], ([name, *_headline_cells(summary, name)] for name in _names(summary))
    )
    if len(questions.kinds) > 1:
        shown = summary.headlines[:KIND_MEASURES]
        page.blank()
        page.line(Text.assemble(("by kind", "bold"), (f"  {' / '.join(shown)}", QUIET)))
        _show_evaluation_tables(
            page, ["", *_kind_titles(summary)], ([item.system, *_kind_cells(summary, item)] for item in summary.systems)
        )
    page.blank()
    page.line(Text.assemble(("cost", "bold"), ("  of a question; answered@n: within n tokens of context", QUIET)))
    _show_evaluation_tables(page, _COST_TITLES, (_cost_cells(item) for item in summary.systems))
    if any(item.losses for item in summary.systems):
        page.blank()
        page.line(Text.assemble(("lost", "bold"), ("  how far the best of the right sections came", QUIET)))
        _show_evaluation_tables(page, ["", *Stage], ([item.system, *_loss_cells(item)] for item in summary.systems))
    if summary.comparisons:
        page.blank()
        page.line(Text.assemble(("pairs", "bold"), ("  difference, 95 % interval, paired randomisation test", QUIET)))
        _show_evaluation_tables(page, _PAIR_TITLES, map(_pair_cells, summary.comparisons))


def _names(summary: "Summary") -> list[str]:
    return [system.system for system in summary.systems]


def _headline_cells(summary: "Summary", name: str) -> list[str]:
    system = next(item for item in summary.systems if item.system == name)
    return [_interval(system.overall.get(measure)) for measure in summary.headlines]


def _interval(value: "Estimate | None") -> str:
    return NONE if value is None else f"{_share(value.mean)} [{_share(value.low, 2)} {_share(value.high, 2)}]"


def _share(value: float, digits: int = 3) -> str:
    """`.617`, `1.00`."""
    text = f"{value:.{digits}f}"
    return text.removeprefix("0") if value >= 0 else f"-{text.removeprefix('-').removeprefix('0')}"


def _kind_titles(summary: "Summary") -> list[str]:
    count = {
        kind: sum(item.kind == kind and item.is_answerable for item in summary.questions.questions)
        for kind in summary.questions.kinds
    }
    return [f"{kind} ({number})" for kind, number in count.items()]


def _kind_cells(summary: "Summary", system: "SystemSummary") -> list[str]:
    rows = [system.by_kind[kind] for kind in summary.questions.kinds]
    shown = summary.headlines[:KIND_MEASURES]
    return [" / ".join(_share(row[name].mean) if name in row else NONE for name in shown) for row in rows]


_COST_TITLES = [
    "",
    "p50 ms",
    "p95 ms",
    *BUDGET_NAMES,
    "tokens to answer",
    "abstains",
    "wrongly",
    "AUROC",
    "LLM calls",
    "failed",
]


def _cost_cells(system: "SystemSummary") -> list[str]:
    latency = system.latency
    return [
        system.system,
        f"{latency.p50:.1f}" if latency else NONE,
        f"{latency.p95:.1f}" if latency else NONE,
        *(_share(system.overall[name].mean) if name in system.overall else NONE for name in BUDGET_NAMES),
        f"{system.tokens_to_answer:,.0f}" if system.tokens_to_answer is not None else NONE,
        f"{system.abstention:.0%}" if system.abstention is not None else NONE,
        f"{system.false_abstention:.0%}" if system.false_abstention is not None else NONE,
        _share(system.auroc) if system.auroc is not None else NONE,
        f"{system.llm_calls:,}",
        f"{system.failed:,}",
    ]


def _loss_cells(system: "SystemSummary") -> list[str]:
    return [f"{system.losses[stage]:,}" if system.losses else NONE for stage in Stage]


_PAIR_TITLES = ["", "against", "measure", "difference", "p", "won", "lost", "tied"]


def _pair_cells(item: "Comparison") -> list[str]:
    found = item.difference
    sign = "+" if found.mean > 0 else ""
    interval = f"{sign}{_share(found.mean)} [{_share(found.low)} {_share(found.high)}]"
    p = f"{found.p:.4f}{' *' if found.is_significant else ''}"
    return [item.first, item.second, item.measure, interval, p, str(found.wins), str(found.losses), str(found.ties)]


def _show_evaluation_tables(page: Page, titles: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Columns as wide as their longest cell, the first one left, the others right; rows are never broken."""
    cells = [[sanitize_line(str(cell)) for cell in row] for row in (titles, *rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for number, row in enumerate(cells):
        first, *others = zip(row, widths, strict=True)
        text = "  ".join([f"{first[0]:<{first[1]}}", *(f"{cell:>{width}}" for cell, width in others)])
        page.line(Text(text, QUIET if number == 0 else ""))


# `questions`: a first set of questions out of one's own documents.

STANDARD_STREAM = "-"


@click.command(
    examples=(
        "questions docs > questions.jsonl",
        "questions docs --limit 50 --out questions.jsonl",
    ),
    cls=WithExamples,
    params=options.setting_parameters(("documents",)),
    short_help="Make questions out of your own documents, for eval.",
)
@click.argument("docs", metavar="DOCS")
@click.option(
    "--limit", type=click.IntRange(min=1), default=200, show_default=True, metavar="N", help="How many at most."
)
@click.option("--out", default=STANDARD_STREAM, metavar="FILE", help="Where they go; standard output by default.")
@click.option("--llm", is_flag=True, help="Let a language model write them; this version has none.")
@options.voice_options
def questions(docs: str, limit: int, out: str, llm: bool, **given: Any) -> ExitCode:  # noqa: ANN401 - the settings of the documents, which are taken out by name
    """Make questions out of the folder DOCS: its headings, and its links with the sentence around them.

    They come with the lines that answer them, as JSONL for `eval`. They use the documents' own words, so they are
    easier than real questions: good for comparing settings, and for finding sections that are never found.
    """
    from retriever.command_line.ask import written_whole
    from retriever.evaluation.own_questions import own_questions, question_line, sample
    from retriever.settings.layers import load_profile

    notes = options.taken_notes(given)
    settings = options.taken_settings(given)
    if llm:
        raise UsageError("--llm: this version has no language-model stages; leave it off")
    made = own_questions(list(_documents(docs, load_profile(flags=settings).documents, notes)))
    if not made:
        raise DocumentsError(f"{docs}: no heading or link of it makes a question")
    chosen = sample(made, limit)
    with written_whole(out) as stream:
        stream.writelines(f"{question_line(question)}\n" for question in chosen)
    sys.stdout.flush()
    more = f" of {len(made):,}; --limit gives more" if len(made) > len(chosen) else ""
    notes.say(f"made {counted(len(chosen), 'question')}{more}")
    return ExitCode.OK


def _documents(docs: str, settings: "DocumentSettings", notes: "Notes") -> "Iterator[Document]":
    """Every document that can be read; the others are named.

    Raises:
        DocumentsError: the folder cannot be listed, or holds none.
    """
    from pageindex.document import parse_document
    from pageindex.files import UnreadableDocumentError, read_document
    from retriever.indexing.changes import list_documents

    listing = list_documents(Path(docs), settings)
    skipped = [(item.path, item.reason) for item in listing.skipped]
    for file in listing.files:
        try:
            text = read_document(file, settings.max_file_bytes).text
        except UnreadableDocumentError as error:
            skipped.append((file.path, error.reason))
            continue
        yield parse_document(file.path, text)
    notes.skipped(tuple(skipped))
