"""Fit the weights by which a section's units are chosen; print those for retriever/searching/passage.py.

    uv run scripts/calibrate_passages.py DATA...

Questions with the lines that answer them, and their sections, are those of `scripts/reader_data.py`. The model is a
conditional logit: the soft-max over a section's units, fitted by gradient descent with an L2 penalty. Accuracy is
measured by collection of documents, each left out in turn with a fifth of the others.
"""

import argparse
import sys
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

sys.path.insert(0, str(Path(__file__).parents[1]))

from pageindex.node import Unit, UnitKind
from retriever.searching.passage import Asked, read_features
from scripts.reader_data import Row, ask, cut, is_marked, measure_rarity, read_data

PENALTY = 0.001
STEPS = 3_000
RATE = 0.05
PARTS = 5


@dataclass(frozen=True, slots=True)
class Example:
    """A question with the features of its section's units, and which of them answer."""

    corpus: str
    kind: str
    features: Sequence[Mapping[str, float]]
    right: Sequence[bool]


def main() -> None:
    """Fit, and print weights and accuracy."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", nargs="+", type=Path)
    examples = read_examples(parser.parse_args().data)
    names = sorted({name for example in examples for own in example.features for name in own})
    corpora = sorted({example.corpus for example in examples})
    right: dict[str, list[bool]] = defaultdict(list)
    for part in range(PARTS):
        left_out = set(corpora[part::PARTS])
        weights = fit([example for example in examples if example.corpus not in left_out], names)
        for example in examples:
            if example.corpus in left_out:
                right[example.kind].append(example.right[choose(example, names, weights)])
    everything = [value for values in right.values() for value in values]
    print(f"{np.mean(everything):.3f} of {len(everything)} right")
    print(", ".join(f"{kind} {np.mean(values):.2f}" for kind, values in sorted(right.items())))
    fitted = fit(examples, names)
    print("{" + ", ".join(f'"{name}": {weight:.2f}' for name, weight in zip(names, fitted, strict=True)) + "}")


def read_examples(data: Sequence[Path]) -> list[Example]:
    """Return the questions whose section has units that answer and others."""
    return [
        Example(one.section["corpus"], one.kind, read_features(one.units, one.asked), one.right)
        for one in read_questions(data)
        if any(one.right) and not all(one.right)
    ]


@dataclass(frozen=True, slots=True)
class Question:
    """A question beside the units of its section."""

    text: str
    kind: str
    section: Row
    units: Sequence[Unit]
    asked: Asked
    right: Sequence[bool]
    """Which units answer: of a list as a whole, the list, and not its items."""


def read_questions(data: Sequence[Path], corpora: Collection[str] | None = None) -> Iterator[Question]:
    """Yield the questions with lines about some collections, or about all."""
    sections, rows = read_data(data)
    rarities = {}
    for row in rows:
        section = sections[row["section"]]
        corpus = section["corpus"]
        if corpora is not None and corpus not in corpora:
            continue
        if corpus not in rarities:
            rarities[corpus] = measure_rarity([one["text"] for one in sections.values() if one["corpus"] == corpus])
        units = cut(section)
        right = [
            is_marked(row, section, unit.span) and (unit.kind is UnitKind.LIST) == (row["kind"] == "list")
            for unit in units
        ]
        asked = ask(row["question"], rarities[corpus]).below(section["crumb"])
        yield Question(row["question"], row["kind"], section, units, asked, right)


def as_matrix(example: Example, names: Sequence[str]) -> npt.NDArray[np.float64]:
    """Return (units, features)."""
    return np.array([[own.get(name, 0.0) for name in names] for own in example.features])


def choose(example: Example, names: Sequence[str], weights: npt.NDArray[np.float64]) -> int:
    """Return the place of the unit with the highest score."""
    return int(np.argmax(as_matrix(example, names) @ weights))


def fit(examples: Sequence[Example], names: Sequence[str]) -> npt.NDArray[np.float64]:
    """Return the weights that make the right units likely, by Adam (Kingma and Ba, 2015) on all examples at once."""
    rows = np.concatenate([as_matrix(example, names) for example in examples])
    right = np.concatenate([example.right for example in examples])
    sizes = np.array([len(example.right) for example in examples])
    starts, owner = np.cumsum(sizes) - sizes, np.repeat(np.arange(len(sizes)), sizes)
    weights = np.zeros(len(names))
    mean, square = np.zeros_like(weights), np.zeros_like(weights)
    for step in range(1, STEPS + 1):
        scores = rows @ weights
        powers = np.exp(scores - np.maximum.reduceat(scores, starts)[owner])
        share = powers / np.add.reduceat(powers, starts)[owner]
        of_right = powers * right / np.add.reduceat(powers * right, starts)[owner]
        gradient = rows.T @ (share - of_right) / len(examples) + 2 * PENALTY * weights
        mean, square = 0.9 * mean + 0.1 * gradient, 0.999 * square + 0.001 * gradient**2
        weights -= RATE * (mean / (1 - 0.9**step)) / (np.sqrt(square / (1 - 0.999**step)) + 1e-8)
    return weights


if __name__ == "__main__":
    main()
