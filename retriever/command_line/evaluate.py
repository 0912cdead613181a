"""`eval`: how well profiles find the sections that answer questions."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import click

from retriever.command_line import options
from retriever.command_line.exit_codes import ExitCode
from retriever.command_line.help_pages import WithExamples
from retriever.errors import RetrieverError
from retriever.settings.layers import DEFAULT_PROFILE, profile_names

if TYPE_CHECKING:
    from retriever.command_line.notes import Notes
    from retriever.evaluation.asking import Asked
    from retriever.evaluation.formats import Source
    from retriever.evaluation.runs import Run
    from retriever.evaluation.summary import Summary
    from retriever.retrieving import Retriever
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
    from retriever.command_line.progress import shown_progress
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
    from retriever.evaluation.asking import Asked
    from retriever.evaluation.jsonl import check_expansions, read_expansions

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
    from retriever.evaluation.ablation import without_each_part
    from retriever.evaluation.asking import System, ask_all, open_system, sections_of
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
    from retriever.evaluation.asking import System, open_system, sections_of
    from retriever.evaluation.relevance import Sections, check_gold
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
    from retriever.command_line.batch import written_whole

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
        from retriever.evaluation.baseline import baseline_text

        with written_whole(request.save_baseline) as out:
            out.write(baseline_text(summary))


def _show(request: Request, summary: "Summary", notes: "Notes") -> None:
    if request.as_json:
        from retriever.command_line.as_json import write_json
        from retriever.evaluation.as_json import summary_object

        write_json(summary_object(summary))
    else:
        from retriever.command_line.evaluation_tables import show_summary
        from retriever.command_line.page import Page

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
    from retriever.evaluation.baseline import against, read_baseline

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
