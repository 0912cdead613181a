"""An index that was changed step by step answers as one that was made at once from the same documents."""

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.shelf import TOO_YOUNG_NS, Shelf

WORDS = ("amber", "birch", "cedar", "delta", "ember", "fjord", "grove", "heath", "inlet", "jetty", "knoll", "lagoon")


def page(chance: random.Random, title: str) -> str:
    """A page of one to four sections, some of which repeat the text of others; a link to another page."""
    sections = []
    for number in range(chance.randint(1, 4)):
        text = " ".join(chance.choices(WORDS, k=chance.choice([3, 8, 8, 40])))
        sections.append(f"{'#' * (1 if not number else 2)} {title} {number}\n\n{text}\n")
    return "\n".join([*sections, f"See [there]({chance.choice(WORDS)}.md).\n"])


def add(shelf: Shelf, chance: random.Random) -> None:
    folder = chance.choice(["", "", "a/", "a/b/"])
    shelf.write(f"{folder}{chance.choice(WORDS)}.md", page(chance, chance.choice(WORDS)))


def edit(shelf: Shelf, chance: random.Random) -> None:
    name = _some(shelf, chance)
    text = (shelf.docs / name).read_text(encoding="utf-8")
    shelf.write(name, text.replace(chance.choice(WORDS), chance.choice(WORDS)) + f"\n{chance.choice(WORDS)}\n")


def edit_and_keep_size_and_time(shelf: Shelf, chance: random.Random) -> None:
    """Nobody can see this from outside; the index does, because it does not trust the time of a file just written."""
    name = _some(shelf, chance)
    text = (shelf.docs / name).read_text(encoding="utf-8")
    shelf.touch(name, TOO_YOUNG_NS)
    shelf.update()
    shelf.write(name, text.swapcase(), mtime_ns=TOO_YOUNG_NS)


def rename(shelf: Shelf, chance: random.Random) -> None:
    target = shelf.docs / chance.choice(["", "c/"]) / f"{chance.choice(WORDS)}-{chance.randrange(100)}.md"
    target.parent.mkdir(exist_ok=True)
    (shelf.docs / _some(shelf, chance)).rename(target)


def delete(shelf: Shelf, chance: random.Random) -> None:
    if len(_files(shelf)) > 1:  # a folder without documents is an error of its own
        (shelf.docs / _some(shelf, chance)).unlink()


def rewrite_all(shelf: Shelf, chance: random.Random) -> None:
    """More than the share above which a snapshot is built from scratch."""
    for path in _files(shelf):
        shelf.write(path.relative_to(shelf.docs).as_posix(), page(chance, chance.choice(WORDS)))


EDITS: list[Callable[[Shelf, random.Random], None]] = [
    add, add, edit, edit, edit_and_keep_size_and_time, rename, delete,
]  # fmt: skip


def _files(shelf: Shelf) -> list[Path]:
    return sorted(shelf.docs.rglob("*.md"))


def _some(shelf: Shelf, chance: random.Random) -> str:
    return chance.choice(_files(shelf)).relative_to(shelf.docs).as_posix()


@pytest.mark.parametrize(("seed", "pages"), [(2, 12), (1, 3), pytest.param(3, 70, marks=pytest.mark.slow)])
def test_step_by_step_is_as_at_once(tmp_path: Path, seed: int, pages: int) -> None:
    """Five scripts of edits, one after the other; the index is compared with a new one after each of them."""
    chance = random.Random(seed)
    shelf = Shelf(tmp_path)
    for number in range(pages):
        shelf.write(f"{number:02}.md", page(chance, chance.choice(WORDS)))
    shelf.update()
    for step in range(5):
        for change in chance.choices(EDITS, k=chance.randint(1, 3)) if step != 3 else [rewrite_all]:
            change(shelf, chance)
        shelf.update()
        fresh = tmp_path / f"fresh-{step}"
        shelf.update(index=fresh)
        with shelf.open(top_k=10) as old, shelf.open(index=fresh, top_k=10) as new:
            assert old.tree() == new.tree()
            for _ in range(4):
                question = " ".join(chance.choices(WORDS, k=3))
                one, other = old.search(question), new.search(question)
                assert one.hits == other.hits, (step, question)
                assert one.degraded == other.degraded == ()
