"""Fit what is read of a line: prints the weights of retriever/searching/passage.py and of its confidence.py.

    uv run scripts/calibrate_reading.py DATA...

DATA is what `scripts/reader_data.py` reads; the questions are those about the documentations that the cross-encoder has
not learned. Which unit of a section answers is a conditional logit of its scores by words and by shape, the logit and
the late interaction; whether any does, a logistic model of the last two of the best unit, beside questions whose
section does not answer them.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

sys.path.insert(0, str(Path(__file__).parents[1]))

from retriever.embedding.onnx import OnnxEncoder, PassageReader
from retriever.searching.passage import as_sentence, score_units
from scripts.calibrate_passages import Example, as_matrix, choose, fit, read_questions
from scripts.reader_data import HELD_OUT

READ = 6  # units of a section: more than the search reads, so that there is more to tell apart
NAMES = ("words", "shape", "logit", "interaction")
STEPS, RATE = 4_000, 0.05


def main() -> None:
    """Fit, and print weights and accuracy."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", nargs="+", type=Path)
    examples = read_examples(parser.parse_args().data)
    answerable = [example for example in examples if any(example.right)]
    for names in (NAMES[:2], NAMES[:3], NAMES):
        weights = fit(answerable, names)
        right = np.mean([example.right[choose(example, names, weights)] for example in answerable])
        print(f"{right:.3f} of {len(answerable)} right by", dict(zip(names, weights.round(3).tolist(), strict=True)))
    best = np.array([as_matrix(example, NAMES[2:])[choose(example, NAMES, weights)] for example in examples])
    answers = np.array([any(example.right) for example in examples])
    of_logit, of_interaction = fit_logistic(best, answers)
    print(f"verdict: {of_logit:.2f} of the logit, {of_interaction:.2f} of the interaction; {len(examples)} questions")


def read_examples(data: Sequence[Path]) -> list[Example]:
    """Return held-out questions with what is read of the units that are best by words and shape."""
    reader = PassageReader(OnnxEncoder())
    examples = []
    for one in read_questions(data, HELD_OUT):
        scored = score_units(one.units, one.asked)
        places = scored.best()[:READ]
        texts = [(one.section["crumb"], as_sentence(one.units[place])) for place in places]
        readings = reader.read(one.text, texts)
        features = []
        for place, reading in zip(places, readings, strict=True):
            words = scored.by_words[place]
            values = (words, scored.scores[place] - words, reading.weigh(1, 0), reading.interaction)
            features.append(dict(zip(NAMES, values, strict=True)))
        right = [one.right[place] for place in places]
        if any(right) or (one.kind == "none" and places):
            examples.append(Example(one.section["corpus"], one.kind, features, right))
    return examples


def fit_logistic(values: npt.NDArray[np.float64], answers: npt.NDArray[np.bool_]) -> tuple[float, float]:
    """Return the weights of a logistic model with an intercept, both classes weighed alike, by gradient descent."""
    middle, spread = values.mean(axis=0), values.std(axis=0)
    rows = np.c_[(values - middle) / spread, np.ones(len(values))]
    shares = np.where(answers, 0.5 / answers.sum(), 0.5 / (~answers).sum())
    weights = np.zeros(rows.shape[1])
    for _ in range(STEPS):
        weights -= RATE * rows.T @ ((1 / (1 + np.exp(-rows @ weights)) - answers) * shares)
    return float(weights[0] / spread[0]), float(weights[1] / spread[1])


if __name__ == "__main__":
    main()
