"""Damage done to the files of an index, and what must be true of the next commands."""

import random
from collections.abc import Callable, Mapping
from pathlib import Path

from retriever.api import check_up
from retriever.errors import RetrieverError
from tests.scenarios import Scenario, pages
from tests.shelf import PAGES, Shelf
from tests.trials import Stage, asked, ended, in_a_child, oversized, problems, put_back, result, staged

Harm = Callable[[bytes, random.Random], bytes | None]
"""From what a file holds to what it is to hold; None: it goes."""


def flipped(data: bytes, chance: random.Random) -> bytes:
    """One bit is another."""
    changed = bytearray(data)
    if changed:
        changed[chance.randrange(len(changed))] ^= 1 << chance.randrange(8)
    return bytes(changed)


def zeroed(data: bytes, chance: random.Random) -> bytes:
    """A part of it is zeros."""
    start = chance.randrange(max(1, len(data) - 1))
    return data[:start] + bytes(len(data) - start)


A_FOLDER = "a folder in its place"
HARMS: Mapping[str, Harm] = {
    "deleted": lambda _, __: None,
    A_FOLDER: lambda _, __: None,
    "emptied": lambda _, __: b"",
    "half of it": lambda data, _: data[: len(data) // 2],
    "without its last byte": lambda data, _: data[:-1],
    "random": lambda data, chance: chance.randbytes(len(data)),
    "truncated": lambda data, chance: data[: chance.randrange(max(1, len(data)))],
    "zeroed": zeroed,
    "one bit flipped": flipped,
}


def large(place: Path) -> Stage:
    """An index large enough for ChromaDB to write files of vectors; `before` is what it is made of."""
    scenario = Scenario("large", _made, lambda shelf: shelf.update())
    return staged(scenario, place)


def _made(shelf: Shelf) -> None:
    for name, text in {**PAGES, **pages(70, "large")}.items():
        shelf.write(name, text)
    shelf.update()


def damaged_file(stage: Stage, name: Path, harm: str, chance: random.Random) -> list[str]:
    """Harms a derived file: the next question answers rightly and says so, `doctor` finds nothing after it."""
    put_back(stage)
    file = stage.shelf.index / name
    data = file.read_bytes()
    changed = HARMS[harm](data, chance)
    file.unlink()
    if harm == A_FOLDER:
        file.mkdir()
    elif changed is not None:
        file.write_bytes(changed)
    outcome = ended(*in_a_child(lambda: _asked_and_examined(stage)))
    if outcome.error or outcome.wrong:
        return [f"the next question failed: {outcome}"]
    answers, degraded, found, embedded = outcome.value
    wrong = [] if answers == stage.after else ["a wrong answer"]
    wrong += found + oversized(stage) + ([f"{embedded} texts were embedded"] if embedded else [])
    unnoticed = not degraded and changed != data and not _may_pass(name)
    return [*wrong, "nothing was said"] if unnoticed else wrong


def _may_pass(name: Path) -> bool:
    """ChromaDB's folder is made again where it is not whole, as where an update left it out: nothing is said."""
    return "chroma" in name.parts


def _asked_and_examined(stage: Stage) -> tuple[object, list[str], list[str], int]:
    answers, degraded = asked(stage.shelf)
    return answers, degraded, problems(stage.shelf), stage.shelf.encoder.encoded


def damaged_bits(stage: Stage, name: str, chance: random.Random) -> tuple[str, list[str]]:
    """Flips a bit of a database; what came of it in a word or two, and what was wrong with that.

    A question ends with an answer or an error of ours, and where `doctor` sees damage, a repair makes the index whole.
    A bit inside a text or a number of index.sqlite may go unnoticed.
    """
    put_back(stage)
    file = stage.shelf.index / name
    file.write_bytes(flipped(file.read_bytes(), chance))
    seen = bool(result(lambda: problems(stage.shelf)))
    outcome = "found by doctor" if seen else "not found"
    return outcome if name == "index.sqlite" else "", _repaired_bits(stage, name)


def _repaired_bits(stage: Stage, name: str) -> list[str]:
    outcome = ended(*in_a_child(lambda: asked(stage.shelf)))
    if outcome.wrong:
        return [f"the next question ended with {outcome.wrong}"]
    wrong = []
    if name != "index.sqlite" and (outcome.error or outcome.value[0] != stage.after):
        wrong.append(f"a derived database: {outcome.error or 'a wrong answer'}")
    repaired = ended(*in_a_child(lambda: _repaired(stage)))
    if repaired.error or repaired.wrong:
        return [*wrong, f"the repair failed: {repaired}"]
    found, repairs, answers = repaired.value
    wrong += found
    if repairs and answers != stage.after:
        wrong.append("after the repair, the answers are not those of an index made in one go")
    return wrong


def _repaired(stage: Stage) -> tuple[list[str], tuple[str, ...], object]:
    repairs = check_up(stage.shelf.index, repair=True, encoder=stage.shelf.encoder).repairs
    if any("cannot be read; run" in text for text in repairs):
        stage.shelf.update()
    found = [text for text in problems(stage.shelf) if "there is no index" not in text]
    try:
        answers = asked(stage.shelf)[0]
    except RetrieverError:
        stage.shelf.update()  # what doctor said was no index, or one that is not finished
        answers = asked(stage.shelf)[0]
    return found, repairs, answers
