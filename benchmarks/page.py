"""What the web page costs when everything is open: as one types, the whole answer, the page without a question.

uv run python benchmarks/page.py [DOCS] [--profile NAME]

In a process that answers in place of a server: by the clock, as somebody waits, and of the processor, where other work
on the machine does not count.
"""

import tempfile
from pathlib import Path
from statistics import median, quantiles
from time import perf_counter, process_time, sleep

import click
from starlette.testclient import TestClient

from retriever.serving.pool import ServedIndex
from retriever.serving.web import make_web_app
from retriever.settings.layers import DEFAULT_PROFILE

QUESTION = "how are the two rankings fused and what does a reranker change?"
ROUNDS = 3


@click.command()
@click.argument("docs", default="docs")
@click.option("--profile", default=DEFAULT_PROFILE)
def main(docs: str, profile: str) -> None:
    """Prints a table."""
    begun = [QUESTION[:length] for length in range(2, len(QUESTION) + 1)]  # as it is typed, key by key
    pages: dict[str, list[dict[str, str]]] = {
        "found as one types": [{"question": text, "typing": "true"} for text in begun],
        "the whole answer": [{"question": text} for text in begun[::4]],
        "at first": [{}] * 20,
    }
    print("| page | by the clock | 95 % | of the processor | 95 % | bytes |\n|---|---|---|---|---|---|")
    with (
        tempfile.TemporaryDirectory() as folder,
        ServedIndex((docs,), str(Path(folder) / "index"), profile, wait_s=600) as library,
        TestClient(make_web_app(library)) as client,
    ):
        with library.retriever():  # a page would say how far the reading is
            while library.progress.is_indexing:
                sleep(0.2)
        for name, asked in pages.items():
            waited, spent, size = list[float](), list[float](), 0
            for number in range(ROUNDS + 1):  # the first round, unmeasured, opens everything
                for parameters in asked:
                    begin, start = perf_counter(), process_time()
                    page = client.get("/", params=parameters).raise_for_status()
                    if number:
                        waited.append(1000 * (perf_counter() - begin))
                        spent.append(1000 * (process_time() - start))
                    size = len(page.content)
            times = " | ".join(f"{median(one):.1f} ms | {quantiles(one, n=20)[-1]:.1f} ms" for one in (waited, spent))
            print(f"| {name} | {times} | {size:,} |", flush=True)


if __name__ == "__main__":
    main()
