"""Fits the models of retriever/searching/confidence.py, and says what they are worth; about 10 minutes.

    uv run scripts/calibrate_confidence.py ../shared/eval

Four groups of documents are asked: FastAPI's, the Rust book, and the collections of benchmarks/data/lines and
benchmarks/data/everyday. The kinds of questions are

    answerable    those of the set, and of lines.jsonl, with gold lines
    no answer     those of lines.jsonl that the documents do not answer
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
    absent word   a word alone, of questions about other documents, that these do not have

Each model says whether a right section is among the first five hits: by all that is known of a question, without what
was read of lines, and without vectors. It is fitted to all groups, and for the shares "held out" to all but one, to be
tried on that. Exits with 1 when the verdicts, by the numbers as they are now, miss one of TARGETS.

    uv run scripts/calibrate_confidence.py --abroad

asks the everyday notes in other languages than English (benchmarks/data/languages, two minutes) their questions, their
near misses and words that one section has, and fits what speaks for a right section in the first place: on each half
of the questions, to be counted on the other, then on all.
"""

import json
import random
import re
import sys
from collections import Counter
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
from retriever.searching import confidence
from retriever.searching.confidence import Coefficients, adjust_signals, assess, choose_model, measure_evidence
from retriever.types import Hit, Signals, Verdict

ROOT = Path(__file__).resolve().parents[1]
UNANSWERABLE = ROOT / "tests" / "eval_unanswerable"
SETS = ("fastapi", "rustbook")
COLLECTIONS = ROOT / "benchmarks" / "data"  # NAME.jsonl asks about the folders in NAME/
COLLECTED = ("lines", "everyday")
TITLES = 100
SEED = 5
FIRST = 5  # among how many hits a right section counts
RIDGE = 1.0  # weight of the squared coefficients, of features with a deviation of 1: 2,000 questions need little
BINS = 10
VERDICTS: tuple[Verdict, ...] = ("answered", "weak", "none")
STYLES = ("paraphrase", "direct", "identifier", "overview")
WITHOUT = ("near miss", "no answer")  # the kinds by which the cut of `answered` is chosen
# What a question counts in the fit; else 1. Numbers are in most documents, and no section is the right one.
WORTH = {"hex string": 0.1, "number": 0.0, "word": 0.5, "words at random": 0.5}


@dataclass(frozen=True, slots=True)
class Fitted:
    """How a model of `confidence` is fitted."""

    view: Callable[[Signals], Signals]
    """The signals that it sees."""
    evidence: tuple[str, ...]
    none: float
    """The share of right questions that are `none` by its sum."""
    answered: float
    """The share of questions without an answer that are `answered`."""


WORDS = ("coverage", "known", "together", "asked")
MEANING = (*WORDS, "margin", "lead")
MODELS = {
    "READ": Fitted(lambda signals: signals, (*MEANING, "reading"), 0.005, 0.074),
    "MEANING_AND_WORDS": Fitted(lambda signals: replace(signals, reading=None), MEANING, 0.02, 0.12),
    "WORDS_ALONE": Fitted(lambda signals: replace(signals, reading=None, margin=None), WORDS, 0.02, 0.085),
    "ABROAD": Fitted(lambda signals: signals, ("lead", "reading"), 0.035, 0.05),
    "ABROAD_BY_MEANING": Fitted(
        lambda signals: replace(signals, reading=None), ("coverage", "margin", "together"), 0.06, 0.05
    ),
}

# Kind or style of answerable questions, verdict, and the least and the largest share of it, by meaning and words.
TARGETS: tuple[tuple[str, Verdict, float, float], ...] = (
    ("gibberish", "none", 1.0, 1.0),
    ("salad", "answered", 0.0, 0.1),
    ("salad in running words", "answered", 0.0, 0.1),
    ("hex string", "answered", 0.0, 0.0),
    ("two words", "answered", 0.0, 0.1),
    ("number", "answered", 0.0, 0.05),  # a version may be a title
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


def ask(retriever: Retriever, row: dict[str, Any], kind: str, is_right: Callable[[Hit], bool]) -> Asked:
    """Ask the documents one question."""
    answer = retriever.search(row["question"])
    right = any(is_right(hit) for hit in answer.hits[:FIRST])
    style = row.get("style", row["kind"])
    return Asked(kind, style, adjust_signals(answer.trace.signals), right)


def ask_set(retriever: Retriever, evaluation: Path, name: str) -> list[Asked]:
    """Ask one set of documents all kinds of questions."""
    (other,) = set(SETS) - {name}
    results = [ask(retriever, row, "answerable", holds(row["gold"])) for row in read_rows(evaluation, name)]
    for kind, folder, file in (
        ("near miss", UNANSWERABLE, name),
        ("elsewhere", evaluation, other),
        ("gibberish", UNANSWERABLE, "gibberish"),
    ):
        results += [ask(retriever, row, kind, lambda _: False) for row in read_rows(folder, file)]
    return results + ask_lines(retriever, evaluation, "lines", name) + ask_made(retriever)


def ask_lines(retriever: Retriever, folder: Path, questions: str, corpus: str) -> list[Asked]:
    """Ask the questions of FOLDER/QUESTIONS.jsonl about one corpus."""
    results = []
    for row in read_rows(folder, questions):
        if row["corpus"] == corpus:
            kind = "no answer" if row["kind"] == "none" else "answerable"
            places = [row, *row.get("also", ())] if kind == "answerable" else []
            gold = [
                {"file": place["file"], "start_line": place["lines"][0], "end_line": place["lines"][1]}
                for place in places
            ]
            results.append(ask(retriever, row, kind, holds(gold)))
    return results


def ask_made(retriever: Retriever, step: int = 1) -> list[Asked]:
    """Ask the kinds of questions that a program makes of the documents themselves, each `step`-th of them."""
    made = [("title", title) for title in draw_titles(retriever)] + make_questions(retriever)
    rows = [{"question": question, "kind": kind} for kind, question in made[::step]]
    return [ask(retriever, row, row["kind"], is_titled(row["question"], row["kind"])) for row in rows]


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
        asked = " ".join(row["question"] for row in read_rows(COLLECTIONS, "lines"))
        words = sorted({word for word in re.findall(r"[a-z]{5,}", asked) if tokenize(word)})
        absent = [word for word in words if not view.lexical.search(tokenize(word), 1)]
        made += [("absent word", word) for word in draw.sample(absent, min(60, len(absent)))]
    return made


def read_rows(folder: Path, name: str) -> list[dict[str, Any]]:
    """Read the lines of a file of questions."""
    return [json.loads(line) for line in (folder / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()]


def holds(gold: Sequence[dict[str, Any]]) -> Callable[[Hit], bool]:
    """Return a test of whether a hit's own lines overlap lines that answer."""
    places = [(item["file"], Span(item["start_line"], item["end_line"])) for item in gold]
    return lambda hit: any(hit.file == file and hit.span.overlap(span) for file, span in places)


def is_titled(title: str, kind: str) -> Callable[[Hit], bool]:
    """Return a test of whether a hit has this title, for kinds of questions that are one."""
    return lambda hit: kind in ("title", "topic") and hit.title.lower() == title.lower()


def draw_titles(retriever: Retriever) -> list[str]:
    """Return headings of the documents, drawn with a seed; without the release notes', which are version numbers."""
    known = {node.title for node in retriever.nodes() if node.span and not node.path.startswith("release-notes")}
    told = sorted(title for title in known if len(title) > 3)
    return random.Random(SEED).sample(told, min(TITLES, len(told)))


def build_features(signals: Sequence[Signals], names: Sequence[str]) -> Floats:
    """Return (n, d): the evidence of these names."""
    return np.array([[measure_evidence(each)[name] for name in names] for each in signals])


def is_right(items: Sequence[Asked]) -> Flags:
    """Return (n,): whether a right section is among the first hits, which the model is to predict."""
    return np.array([item.is_right for item in items])


def is_of_kind(items: Sequence[Asked], kind: str) -> Flags:
    """Return (n,): whether a question is of this kind."""
    return np.array([item.kind == kind for item in items])


def fit(values: Floats, wanted: Flags, worth: Floats | None = None) -> Floats:
    """Return (1 + d,): intercept and coefficients of ridge logistic regression, by Newton's method.

    Args:
        values: (n, d).
        wanted: (n,).
        worth: (n,), what each counts; None: each 1.
    """
    mean, deviation = values.mean(axis=0), values.std(axis=0)
    design = np.column_stack([np.ones(len(values)), (values - mean) / deviation])
    penalty = np.diag([0.0] + [RIDGE] * values.shape[1])
    weights = np.zeros(design.shape[1])
    worth = np.ones(len(values)) if worth is None else worth
    for _ in range(50):
        chance = 1 / (1 + np.exp(-design @ weights))
        slope = design.T @ (worth * (chance - wanted)) + penalty @ weights
        curvature = (design.T * (worth * chance * (1 - chance))) @ design + penalty
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


def fit_model(items: Sequence[Asked], name: str) -> Coefficients:
    """Fit a model of `MODELS` to questions, without evidence that would lower it: more of it never does."""
    own, model = MODELS[name], getattr(confidence, name)
    items = [item for item in items if not item.signals.is_named and choose_model(own.view(item.signals)) is model]
    signals, wanted = [own.view(item.signals) for item in items], is_right(items)
    worth = np.array([WORTH.get(item.kind, 1.0) for item in items])
    names = list(own.evidence)
    while True:
        weights = fit(build_features(signals, names), wanted, worth)
        if weights[1:].min() >= 0:
            break
        names.pop(int(weights[1:].argmin()))
    scores = probabilities(build_features(signals, names), weights)
    found = is_of_kind(items, "answerable") & wanted
    without = is_of_kind(items, "near miss") | is_of_kind(items, "no answer")
    return Coefficients(
        round(float(weights[0]), 2),
        **{name: round(float(weight), 2) for name, weight in zip(names, weights[1:], strict=True)},
        none_below=round(float(np.quantile(scores[found], own.none)), 3),
        answered_from=round(float(np.quantile(scores[without], 1 - own.answered)), 2),
    )


def assess_all(items: Sequence[Asked], name: str, model: Coefficients) -> list[confidence.Assessment]:
    """Return what a model of `MODELS` says of each question, with these coefficients in place of its own."""
    own = getattr(confidence, name)
    setattr(confidence, name, model)
    try:
        return [assess(MODELS[name].view(item.signals)) for item in items]
    finally:
        setattr(confidence, name, own)


def measure_model(items: Sequence[Asked], found: Sequence[confidence.Assessment]) -> dict[str, float]:
    """Return the AUROC of the confidence of one kind of questions against another, and its calibration error."""
    scores, right = np.array([each.confidence for each in found]), is_right(items)
    answerable, miss = is_of_kind(items, "answerable"), is_of_kind(items, "near miss")
    free = np.array([item.style == "paraphrase" for item in items])
    return {
        "answerable / near miss": auroc(scores, answerable, miss),
        "the same, paraphrases of both": auroc(scores, answerable & free, miss & free),
        "the same, by an oracle that sees whether a hit is right": auroc(right.astype(float), answerable, miss),
        "answer found / near miss": auroc(scores, answerable & right, miss),
        "answerable / elsewhere": auroc(scores, answerable, is_of_kind(items, "elsewhere")),
        "expected calibration error": calibration_error(scores, right),
    }


def group_questions(items: Sequence[Asked]) -> dict[str, list[int]]:
    """Return the places of the questions of each kind, and of each style of answerable ones."""
    groups: dict[str, list[int]] = {}
    for place, item in enumerate(items):
        groups.setdefault(item.kind, []).append(place)
        if item.kind == "answerable" and item.style in STYLES:
            groups.setdefault(item.style, []).append(place)
        if item.kind == "answerable" and item.is_right:
            groups.setdefault("answer among the first five", []).append(place)
    return groups


def find_missed_targets(items: Sequence[Asked], found: Sequence[confidence.Assessment]) -> list[str]:
    """Return a line for each target that the verdicts miss."""
    groups, missed = group_questions(items), []
    for kind, verdict, least, most in TARGETS:
        share = float(np.mean([found[place].verdict == verdict for place in groups[kind]]))
        if not least <= share <= most:
            missed.append(f"{kind}: {share:.1%} are {verdict}, {least:.0%} to {most:.0%} are wanted")
    return missed


def show_verdicts(
    title: str, items: Sequence[Asked], now: Sequence[confidence.Assessment], held_out: Sequence[confidence.Assessment]
) -> None:
    """Print how often each verdict falls, now and by a model that was fitted to other documents."""
    print(f"\n  | {title} | questions | answered, held out | weak | none, held out |\n  |---|---|---|---|---|")
    for name, places in group_questions(items).items():
        shares = [[np.mean([one[place].verdict == verdict for place in places]) for verdict in VERDICTS]
                  for one in (now, held_out)]  # fmt: skip
        (answered, weak, none), (answered_too, _, none_too) = shares
        cells = (len(places), f"{answered:.1%}, {answered_too:.1%}", f"{weak:.1%}", f"{none:.1%}, {none_too:.1%}")
        print(f"  | {name} | {' | '.join(map(str, cells))} |")
    sure = [item for item, each in zip(items, now, strict=True) if each.verdict == "answered"]
    sure = [item for item in sure if item.kind in ("answerable", "near miss", "no answer")]
    print(f"  answered, with an answer and without: {np.mean(is_right(sure)):.1%} are right")


def show_model(groups: dict[str, list[Asked]], name: str) -> list[str]:
    """Print a model fitted to all groups, and its verdicts; return the targets that are missed."""
    every = [item for items in groups.values() for item in items]
    print(f"\n{name}\n  fitted: {fit_model(every, name)}\n  now:    {getattr(confidence, name)}")
    held_out: list[confidence.Assessment] = []
    for group, items in groups.items():
        others = [item for other in groups.values() if other is not items for item in other]
        found = assess_all(items, name, fit_model(others, name))
        held_out += found
        if {"answerable", "near miss", "elsewhere"} <= {item.kind for item in items}:
            for measure, value in measure_model(items, found).items():
                print(f"  {group}, held out: {measure} {value:.3f}")
    now = assess_all(every, name, getattr(confidence, name))
    start = 0
    for group, items in groups.items():
        end = start + len(items)
        show_verdicts(group, items, now[start:end], held_out[start:end])
        start = end
    show_verdicts("all", every, now, held_out)
    if name != "READ":
        return []
    both = sum(len(groups[name]) for name in SETS)
    return find_missed_targets(every[:both], now[:both])


ABROAD_NOTES = ROOT / "benchmarks" / "data" / "languages"
WORDS_ASKED, SALADS = 20, 10  # of each folder of notes


def calibrate_abroad() -> None:
    """Fit the model of `confidence.ABROAD`, and print what each half's fit is worth on the other half."""
    halves: dict[str, list[Asked]] = {"odd": [], "even": []}
    for notes in sorted(path for path in ABROAD_NOTES.iterdir() if path.is_dir()):
        with TemporaryDirectory() as index, closing(open_retriever([notes], index, settings={"top_k": 1})) as retriever:
            rows = read_rows(ABROAD_NOTES, notes.name) + read_rows(ABROAD_NOTES, f"{notes.name}.unanswerable")
            tests = [("answerable" if row["gold"] else "near miss", row, holds(row["gold"])) for row in rows]
            tests += [("word", {"question": word}, contains(word)) for word in draw_words(retriever)]
            tests += [("words at random", {"question": salad}, lambda _: False) for salad in draw_salads(retriever)]
            for number, (kind, row, test) in enumerate(tests):
                asked = ask(retriever, row | {"kind": kind}, kind, test)
                # A first section that is a wrong one says nothing of the signals.
                if asked.signals.abroad and (asked.is_right or kind not in ("answerable", "word")):
                    halves["odd" if number % 2 else "even"].append(asked)
    for name in ("ABROAD", "ABROAD_BY_MEANING"):
        show_model(halves, name)


def contains(word: str) -> Callable[[Hit], bool]:
    """Return a test of whether a hit's text has a word."""
    return lambda hit: word in hit.text.lower()


def draw_words(retriever: Retriever) -> list[str]:
    """Return words that one section has, always the same."""
    held = Counter(word for node in retriever.nodes() for word in set(re.findall(r"[^\W\d_]{5,}", node.text.lower())))
    rare = sorted(word for word, sections in held.items() if sections == 1)
    return random.Random(SEED).sample(rare, min(WORDS_ASKED, len(rare)))


def draw_salads(retriever: Retriever) -> list[str]:
    """Return four to seven words of the documents at random, as often as they stand there; always the same."""
    draw = random.Random(SEED)
    words = [word for node in retriever.nodes() for word in re.findall(r"[^\W\d_]{3,}", node.text.lower())]
    return [" ".join(draw.choice(words) for _ in range(draw.randint(4, 7))) for _ in range(SALADS)]


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
    places = [(name, evaluation / "corpora" / name) for name in SETS]
    places += [(name, docs) for name in COLLECTED for docs in sorted((COLLECTIONS / name).iterdir())]
    groups: dict[str, list[Asked]] = {name: [] for name, _ in places}
    with TemporaryDirectory(prefix="calibrate-") as folder:
        settings = {"top_k": FIRST, "refresh_max_files": 0, "encoder": {"kind": "onnx", "model": model}}
        for name, docs in places:
            place = (indexes or Path(folder)) / name / docs.name
            with closing(open_retriever([docs], place, settings=settings)) as retriever:
                if name in SETS:
                    groups[name] = ask_set(retriever, evaluation, name)
                else:  # there are several: fewer of the questions that a program makes
                    groups[name] += ask_lines(retriever, COLLECTIONS, name, docs.name) + ask_made(retriever, step=5)
    missed = [line for name in ("READ", "MEANING_AND_WORDS", "WORDS_ALONE") for line in show_model(groups, name)]
    if missed:
        raise SystemExit("\n".join(missed))


if __name__ == "__main__":
    main()
