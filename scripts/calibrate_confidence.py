"""Recomputes the coefficients of retriever/searching/confidence.py and says what they are worth; about 3 minutes.

    uv run scripts/calibrate_confidence.py ../shared/eval

Asks each of two sets of documents these kinds of questions, and this project's docs/ the last six:

    answerable    those of the set, with gold lines
    near miss     tests/eval_unanswerable/NAME.jsonl: plausible, in the same vocabulary, without an answer
    elsewhere     the answerable ones of the other set
    gibberish     tests/eval_unanswerable/gibberish.jsonl
    title         a hundred of the documents' own headings: short questions, which the sets do not have
    topic         sixty headings of two words, in lower case
    salad         five to eight words of the documents, drawn at random
    salad in running words   four to eight as they come in the text, function words among them
    hex string    7 to 40 hexadecimal digits
    two words     two of them
    number        a number alone, mostly one of the documents'
    made-up word  a sentence around a word that is no word and resembles none of the documents'

and fits a logistic model of whether a right section is among the first five hits, to the first five kinds. Each measure
is of a model that was fitted on the one set and tried on the other; the coefficients are of both. Exits with 1 when the
verdicts on both sets, by the numbers as they are now, miss one of TARGETS.

    uv run scripts/calibrate_confidence.py --abroad

asks the everyday notes in other languages than English (benchmarks/data/languages, two minutes) their questions and
near misses, and fits what speaks for a right section in the first place: on each half of the questions, to be counted
on the other, then on all.
"""

import json
import random
import re
import sys
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click
import numpy as np
import numpy.typing as npt

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from pageindex.node import Span
from retriever import open_retriever
from retriever.lexical.tokens import tokenize
from retriever.retriever import Retriever
from retriever.searching.confidence import ABROAD, MEANING_AND_WORDS, WORDS_ALONE, adjust_unspaced, assess
from retriever.types import Hit, Signals, Verdict

ROOT = Path(__file__).resolve().parents[1]
UNANSWERABLE = ROOT / "tests" / "eval_unanswerable"
SETS = ("fastapi", "rustbook")
OWN = "docs"  # this project's own, without questions written by a person
TITLES = 100
SEED = 5
FIRST = 5  # among how many hits a right section counts
RIDGE = 1.0  # weight of the squared coefficients, of features with a deviation of 1: 700 questions need little
BINS = 10
VERDICTS: tuple[Verdict, ...] = ("answered", "weak", "none")
STYLES = ("paraphrase", "direct", "identifier", "overview")
FITTED = ("answerable", "near miss", "elsewhere", "gibberish", "title")

# Kind or style of answerable questions, verdict, and the least and the largest share of it, by meaning and words.
TARGETS: tuple[tuple[str, Verdict, float, float], ...] = (
    ("gibberish", "none", 1.0, 1.0),
    ("salad", "answered", 0.0, 0.1),
    ("salad in running words", "answered", 0.0, 0.1),
    ("hex string", "answered", 0.0, 0.0),
    ("two words", "answered", 0.0, 0.1),
    ("number", "answered", 0.0, 0.0),
    ("made-up word", "none", 0.95, 1.0),
    ("topic", "answered", 0.95, 1.0),
    ("title", "answered", 0.98, 1.0),
    ("direct", "answered", 0.97, 1.0),
    ("identifier", "answered", 0.94, 1.0),
    ("overview", "answered", 0.8, 1.0),
    ("paraphrase", "none", 0.0, 0.095),
)
# The sentences around a made-up word.
FRAMES = (
    "how do I configure {}", "what is {}", "why does {} fail", "what is the {} timeout", "how do I install {}",
    "why does my {} not work?", "what does {} do?", "where is {} documented?", "{} error", "can I disable {}?",
)  # fmt: skip
ONSETS = (*tuple("bcdfghjklmnprstvwz"), "bl", "br", "cr", "dr", "fl", "gl", "gr", "pl", "pr", "st", "tr", "sn")
VOWELS = ("a", "e", "i", "o", "u", "oo", "ee", "ai")
CODAS = ["", *["x", "n", "r", "t", "k", "sk", "lt", "m", "d"]]

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Asked:
    """A question, and what became of it."""

    kind: str
    """As named above."""
    style: str
    """Of answerable ones and near misses: `paraphrase`, `direct`, `identifier` or `overview`."""
    signals: Signals
    is_right: bool
    """Whether a right section is among the first five hits."""
    verdict: Verdict
    """By the coefficients as they are now."""


def ask(retriever: Retriever, row: dict[str, Any], kind: str, is_right: Callable[[Hit], bool]) -> Asked:
    """Ask the documents one question."""
    answer = retriever.search(row["question"])
    right = any(is_right(hit) for hit in answer.hits[:FIRST])
    style = row.get("style", row["kind"])
    return Asked(kind, style, answer.trace.signals, right, assess(answer.trace.signals).verdict)


def ask_all(retriever: Retriever, evaluation: Path, name: str) -> list[Asked]:
    """Ask one set of documents all kinds of questions."""
    (other,) = set(SETS) - {name}
    results = [ask(retriever, row, "answerable", holds(row["gold"])) for row in read_rows(evaluation, name)]
    for kind, folder, file in (
        ("near miss", UNANSWERABLE, name),
        ("elsewhere", evaluation, other),
        ("gibberish", UNANSWERABLE, "gibberish"),
    ):
        results += [ask(retriever, row, kind, lambda _: False) for row in read_rows(folder, file)]
    return results + ask_made(retriever)


def ask_made(retriever: Retriever) -> list[Asked]:
    """Ask the kinds of questions that a program makes of the documents themselves."""
    headings = [{"question": title, "kind": "title"} for title in draw_titles(retriever)]
    results = [ask(retriever, row, "title", is_titled(row["question"])) for row in headings]
    made = [{"question": question, "kind": kind} for kind, question in make_questions(retriever)]
    return results + [ask(retriever, row, row["kind"], lambda _: False) for row in made]


def make_questions(retriever: Retriever) -> list[tuple[str, str]]:
    """Return (kind, question) made of the documents' words, numbers and headings, always the same."""
    draw = random.Random(SEED)
    sections = [node for node in retriever.nodes() if node.span]
    texts = [node.text for node in sections]
    running = [word.lower() for text in texts for word in re.findall(r"[A-Za-z]{3,}", text) if tokenize(word)]
    pools = (running, sorted(set(running)))  # half of the questions of frequent words, half of rare ones
    every = [
        word.lower() for text in texts for word in re.findall(r"[A-Za-z]+", text)
    ]  # as they come, function words too
    numbers = sorted({number for text in texts for number in re.findall(r"\b\d+(?:\.\d+)*\b", text)})
    short = sorted({node.title.lower() for node in sections if re.fullmatch(r"[A-Za-z]{3,} [A-Za-z]{3,}", node.title)})
    made = [("topic", title) for title in draw.sample(short, min(60, len(short)))]
    for number in range(40):
        pool = pools[number % 2]
        made.append(("salad", " ".join(draw.choice(pool) for _ in range(draw.randint(5, 8)))))
        made.append(("salad in running words", " ".join(draw.choice(every) for _ in range(draw.randint(4, 8)))))
        made.append(
            ("hex string", "".join(draw.choice("0123456789abcdef") for _ in range(draw.choice((7, 8, 16, 40)))))
        )
        made.append(("two words", " ".join(draw.choice(pool) for _ in range(2))))
        made.append(("number", draw.choice(numbers) if number % 4 else str(draw.randint(0, 9999))))
    with retriever.view() as view:
        spellings = view.spellings
        assert spellings is not None, "the snapshot is whole"
        while sum(kind == "made-up word" for kind, _ in made) < 120:
            word = "".join(draw.choice(ONSETS) + draw.choice(VOWELS) for _ in range(draw.randint(2, 3)))
            word += draw.choice(CODAS)
            (term,) = tokenize(word) or ("",)
            if len(word) >= 5 and not view.lexical.search([term], 1) and not spellings.resembles(term):
                made.append(("made-up word", FRAMES[len(made) % len(FRAMES)].format(word)))
    return made


def read_rows(folder: Path, name: str) -> list[dict[str, Any]]:
    """Read the lines of a file of questions."""
    return [json.loads(line) for line in (folder / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()]


def holds(gold: Sequence[dict[str, Any]]) -> Callable[[Hit], bool]:
    """Return a test of whether a hit's own lines overlap lines that answer."""
    places = [(item["file"], Span(item["start_line"], item["end_line"])) for item in gold]
    return lambda hit: any(hit.file == file and hit.span.overlap(span) for file, span in places)


def is_titled(title: str) -> Callable[[Hit], bool]:
    """Return a test of whether a hit has this title."""
    return lambda hit: hit.title == title


def draw_titles(retriever: Retriever) -> list[str]:
    """Return headings of the documents, drawn with a seed; without the release notes', which are version numbers."""
    known = {node.title for node in retriever.nodes() if node.span and not node.path.startswith("release-notes")}
    told = sorted(title for title in known if len(title) > 3)
    return random.Random(SEED).sample(told, min(TITLES, len(told)))


def build_features(items: Sequence[Asked]) -> Floats:
    """Return (n, 4): coverage, known, ln(1 + margin), agreement; without vectors (n, 2), the first two.

    A question in a language that the model does not know has no margin even where there are vectors.
    """
    signals = [item.signals for item in items]
    words = np.array([(each.coverage, each.known) for each in signals])
    if all(each.margin is None for each in signals):
        return words
    meaning = np.array([(np.log1p(max(0.0, each.margin or 0.0)), each.agreement or 0.0) for each in signals])
    return np.column_stack([words, meaning])


def is_right(items: Sequence[Asked]) -> Flags:
    """Return (n,): whether a right section is among the first hits, which the model is to predict."""
    return np.array([item.is_right for item in items])


def is_of_kind(items: Sequence[Asked], kind: str) -> Flags:
    """Return (n,): whether a question is of this kind."""
    return np.array([item.kind == kind for item in items])


def fit(values: Floats, wanted: Flags) -> Floats:
    """Return (1 + d,): intercept and coefficients of ridge logistic regression, by Newton's method.

    Args:
        values: (n, d).
        wanted: (n,).
    """
    mean, deviation = values.mean(axis=0), values.std(axis=0)
    design = np.column_stack([np.ones(len(values)), (values - mean) / deviation])
    penalty = np.diag([0.0] + [RIDGE] * values.shape[1])
    weights = np.zeros(design.shape[1])
    for _ in range(50):
        chance = 1 / (1 + np.exp(-design @ weights))
        slope = design.T @ (chance - wanted) + penalty @ weights
        curvature = (design.T * (chance * (1 - chance))) @ design + penalty
        weights = weights - np.linalg.solve(curvature, slope)
    coefficients = weights[1:] / deviation
    return np.array([weights[0] - coefficients @ mean, *coefficients])


def probabilities(values: Floats, model: Floats) -> Floats:
    """Return (n,): the model's probabilities."""
    result: Floats = 1 / (1 + np.exp(-(model[0] + values @ model[1:])))
    return result


def auroc(scores: Floats, positive: Flags, negative: Flags) -> float:
    """Return how often a positive one is above a negative one, 0 to 1; half of a tie."""
    difference = scores[positive][:, np.newaxis] - scores[negative][np.newaxis]
    return float(((difference > 0) + 0.5 * (difference == 0)).mean())


def calibration_error(scores: Floats, wanted: Flags) -> float:
    """Return the expected calibration error over ten equal bins of the score."""
    places = np.minimum((scores * BINS).astype(int), BINS - 1)
    parts = [places == place for place in range(BINS) if (places == place).any()]
    return float(sum(part.mean() * abs(scores[part].mean() - wanted[part].mean()) for part in parts))


def measure_model(items: Sequence[Asked], model: Floats) -> dict[str, float]:
    """Measure a model on these questions: AUROC of one kind against another, and its calibration error."""
    scores, found = probabilities(build_features(items), model), is_right(items)
    answerable, miss = is_of_kind(items, "answerable"), is_of_kind(items, "near miss")
    free = np.array([item.style == "paraphrase" for item in items])
    return {
        "answerable / near miss": auroc(scores, answerable, miss),
        "the same, paraphrases of both": auroc(scores, answerable & free, miss & free),
        "the same, without paraphrases": auroc(scores, answerable & ~free, miss & ~free),
        "the same, by an oracle that sees whether a hit is right": auroc(found.astype(float), answerable, miss),
        "answer found / near miss": auroc(scores, answerable & found, miss),
        "answer found / not found, near miss": auroc(scores, answerable & found, (answerable & ~found) | miss),
        "answerable / elsewhere": auroc(scores, answerable, is_of_kind(items, "elsewhere")),
        "answerable / gibberish": auroc(scores, answerable, is_of_kind(items, "gibberish")),
        "titles / near miss": auroc(scores, is_of_kind(items, "title"), miss),
        "expected calibration error": calibration_error(scores, found),
    }


def show_model(results: dict[str, list[Asked]]) -> None:
    """Print the coefficients fitted to both sets, and how the model of each does on the other."""
    first, second = SETS
    results = {name: [item for item in items if item.kind in FITTED] for name, items in results.items()}
    both = [*results[first], *results[second]]
    names = ("intercept", "coverage", "known", "margin", "agreement")
    model = fit(build_features(both), is_right(both))
    print("  coefficients:", ", ".join(f"{name} {value:.2f}" for name, value in zip(names, model, strict=False)))
    tried = {
        name: measure_model(results[name], fit(build_features(results[other]), is_right(results[other])))
        for name, other in ((first, second), (second, first))
    }
    print(f"\n  | fitted on the other set, tried on | {first} | {second} |\n  |---|---|---|")
    for measure in tried[first]:
        print(f"  | {measure} | {tried[first][measure]:.3f} | {tried[second][measure]:.3f} |")


def find_missed_targets(items: Sequence[Asked]) -> list[str]:
    """Return a line for each target that the verdicts miss."""
    missed = []
    for kind, verdict, least, most in TARGETS:
        verdicts = [
            item.verdict for item in items if kind in (item.kind, item.style if item.kind == "answerable" else "")
        ]
        share = verdicts.count(verdict) / len(verdicts)
        if not least <= share <= most:
            missed.append(f"{kind}: {share:.1%} are {verdict}, {least:.0%} to {most:.0%} are wanted")
    return missed


def show_verdicts(results: Sequence[Asked], documents: str) -> None:
    """Print how often each verdict falls, by the coefficients and thresholds as they are now in confidence.py."""
    print(f"\n  | {documents} | questions | answered | weak | none |\n  |---|---|---|---|---|")
    groups = {
        kind: [item for item in results if item.kind == kind] for kind in dict.fromkeys(item.kind for item in results)
    }
    answerable = groups.get("answerable", [])
    groups |= {style: [item for item in answerable if item.style == style] for style in STYLES}
    groups["answer among the first five"] = [item for item in answerable if item.is_right]
    for name, items in groups.items():
        if items:
            shares = (sum(item.verdict == verdict for item in items) / len(items) for verdict in VERDICTS)
            print(f"  | {name} | {len(items)} | {' | '.join(f'{share:.1%}' for share in shares)} |")
    sure = [item for item in results if item.verdict == "answered" and item.kind in ("answerable", "near miss")]
    if sure:
        print(
            f"  answered, of answerable and near miss: {sum(item.is_right for item in sure) / len(sure):.1%} are right"
        )


ABROAD_NOTES = ROOT / "benchmarks" / "data" / "languages"
RIGHT_AS_NONE, WRONG_AS_ANSWERED = 0.05, 0.06  # shares of the half that is fitted, by which the two cuts are chosen


def calibrate_abroad() -> None:
    """Fit the model of `confidence.ABROAD`, and print what each half's fit is worth on the other half."""
    halves: tuple[list[Asked], list[Asked]] = ([], [])
    for notes in sorted(path for path in ABROAD_NOTES.iterdir() if path.is_dir()):
        settings = {"top_k": 1, "read_passages": 0}
        with TemporaryDirectory() as index, closing(open_retriever([notes], index, settings=settings)) as retriever:
            for name in (notes.name, f"{notes.name}.unanswerable"):
                kind = "near miss" if "." in name else "answerable"
                for number, row in enumerate(read_rows(ABROAD_NOTES, name)):
                    asked = ask(retriever, row | {"kind": kind}, kind, holds(row["gold"]))
                    halves[number % 2].append(replace(asked, signals=adjust_unspaced(asked.signals)))
    first, second = halves
    for name, fitted, tried in (("even on odd", first, second), ("odd on even", second, first)):
        model, none_below, answered_from = fit_abroad(fitted)
        print(f"{name}: cuts {none_below:.2f}, {answered_from:.2f}; of the other half")
        scores, misses = probabilities(build_features(tried), model), is_of_kind(tried, "near miss")
        for group, places in (("right first", is_right(tried)), ("near misses", misses)):
            none, answered = (scores[places] < none_below).mean(), (scores[places] >= answered_from).mean()
            print(f"  {group}: {places.sum()}, none {none:.2f}, answered {answered:.2f}")
    model, none_below, answered_from = fit_abroad([*first, *second])
    weights = ", ".join(f"{value:.2f}" for value in model)
    print(f"all: intercept, coverage, known, margin, agreement {weights}; cuts {none_below:.2f}, {answered_from:.2f}")
    print(f"now: {ABROAD}")


def fit_abroad(items: Sequence[Asked]) -> tuple[Floats, float, float]:
    """Return the model and its two cuts; questions whose first section is a wrong one say nothing."""
    telling = [item for item in items if item.is_right or item.kind == "near miss"]
    model = fit(build_features(telling), is_right(telling))
    scores, right = probabilities(build_features(telling), model), is_right(telling)
    return (
        model,
        float(np.quantile(scores[right], RIGHT_AS_NONE)),
        float(np.quantile(scores[~right], 1 - WRONG_AS_ANSWERED)),
    )


@click.command()
@click.argument("evaluation", required=False, type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--abroad", is_flag=True, help="Fit what is asked in other languages instead.")
@click.option("--model", default="", help="Another encoder than the default, by its name or folder.")
@click.option("--indexes", type=click.Path(file_okay=False, path_type=Path), help="Where indexes are, or are kept.")
def main(evaluation: Path | None, model: str, indexes: Path | None, *, abroad: bool) -> None:
    """Calibrate on the sets fastapi and rustbook in the folder EVALUATION."""
    if abroad:
        calibrate_abroad()
        return
    if evaluation is None:
        raise click.UsageError("name the folder EVALUATION")
    with TemporaryDirectory(prefix="calibrate-") as folder:
        place = indexes or Path(folder)
        for kind, now in (("onnx", MEANING_AND_WORDS), ("none", WORDS_ALONE)):
            print(f"\nencoder {kind}; now {now}")
            results = {}
            for name in (*SETS, OWN):
                settings = {"top_k": FIRST, "refresh_max_files": 0, "encoder": {"kind": kind, "model": model}}
                docs = [ROOT / "docs" if name == OWN else evaluation / "corpora" / name]
                with closing(open_retriever(docs, place / f"{name}-{kind}", settings=settings)) as retriever:
                    results[name] = ask_made(retriever) if name == OWN else ask_all(retriever, evaluation, name)
            own = results.pop(OWN)
            both = [item for items in results.values() for item in items]
            show_model(results)
            show_verdicts(both, "both sets")
            show_verdicts(own, "docs/")
            missed = find_missed_targets(both)
            if kind == "onnx" and missed:
                raise SystemExit("\n".join(missed))


if __name__ == "__main__":
    main()
