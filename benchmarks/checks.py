"""How many sentences pass the check of short answers: true ones, changed ones, inventions.

    uv run benchmarks/checks.py [--failures]          # failures of all but the unseen ones

The sentences, of seven kinds of documents, are in benchmarks/data/sentences.jsonl.
"""

import json
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from pageindex.node import Span
from retriever.answering.context import Piece
from retriever.answering.sentences import check_sentence
from retriever.types import DroppedSentence

DATA = Path(__file__).with_name("data") / "sentences.jsonl"


def count_kept(*, shows_failures: bool = False) -> Mapping[tuple[str, str], float]:
    """Return the share of sentences that pass, by half and by what they are."""
    lines = [json.loads(line) for line in DATA.read_text(encoding="utf-8").splitlines()]
    documents = [item for item in lines if "text" in item]
    blocks = [
        Piece(
            tuple(item["titles"]),
            item["text"],
            rank=1,
            node_id="x",
            folder="",
            file=f"{item['document']}.md",
            passage=Span(1, 1),
            span=Span(1, item["text"].count("\n")),
        )
        for item in documents
    ]
    numbers = {item["document"]: number for number, item in enumerate(documents, start=1)}
    languages = {item["document"]: tuple(item.get("languages", ())) for item in documents}
    kept: dict[tuple[str, str], list[bool]] = {}
    for item in lines[len(documents) :]:
        document = item["document"]
        found = check_sentence(
            item["sentence"], numbers[document], item["quote"], blocks, languages=languages[document]
        )
        reason = found.reason if isinstance(found, DroppedSentence) else ""
        kept.setdefault((item["half"], item["label"]), []).append(not reason)
        if shows_failures and item["half"] != "unseen" and (item["label"] == "true") == bool(reason):
            print(f"{item['kind']}: {item['sentence']} ({reason or 'kept'})")
    return {key: sum(passed) / len(passed) for key, passed in sorted(kept.items())}


if __name__ == "__main__":
    started = time.perf_counter()
    for (half, label), share in count_kept(shows_failures="--failures" in sys.argv).items():
        print(f"{half:7} {label:9} {share:.2f} kept")
    print(f"{1000 * (time.perf_counter() - started):.0f} ms")
