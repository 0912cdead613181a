"""Answers for tests of how they are shown: no index, no model."""

from dataclasses import replace
from typing import Any

from pageindex.node import Span
from retriever.types import Answer, Evidence, Hit, IndexState, Ranked, Ranking, Signals, Source, Stage, StageName, Trace

HIT = Hit(
    rank=1, node_id="guide/mail.md#mail/after-the-response", folder="/docs", file="guide/mail.md", span=Span(12, 34),
    passage=Span(12, 34), title="After the response", breadcrumb=("Mail",), score=0.0312, scale="rrf",
    snippet="Send an email after the response has gone out: add it to the background tasks.",
    summary="Send an email after the response.",
    text="## After the response\n\nSend an email:\n\n    tasks.add_task(send, address)\n", text_cut=False,
    evidence=(
        Evidence(Source.SEMANTIC, 1, 0.7134, "cosine", 0.0164, Span(12, 20)),
        Evidence(Source.KEYWORD, 3, 12.41, "bm25", 0.0148),
    ),
    words=("send an email", "after the response"), reasons=("nearest in meaning",),
    verbatim=("Send an email:", "    tasks.add_task(send, address)"),
)  # fmt: skip

STATE = IndexState(path="/index", folders=("/docs",), snapshot="7", documents=155, sections=1203, chunks=3204)

TRACE = Trace(
    stages=(Stage(StageName.SEMANTIC, 4.25, "40 chunks of 23 sections"), Stage(StageName.KEYWORD, 1.5, "100 sections")),
    rankings=(
        Ranking(
            Source.SEMANTIC, "cosine", 1.0, (Ranked(HIT.node_id, 0.7134, matched=Span(12, 20)), Ranked("other.md", 0.5))
        ),
        Ranking(Source.KEYWORD, "bm25", 0.8, (Ranked("other.md", 14.0),)),
    ),
    signals=Signals(coverage=0.75, known=1.0, together=0.5, form="question", margin=6.5, lead=0.25),
)


def hit(**changes: Any) -> Hit:  # noqa: ANN401 - whatever the fields hold
    return replace(HIT, **changes)


def answer(*hits: Hit, **changes: Any) -> Answer:  # noqa: ANN401 - as above
    whole = Answer(
        question="send an email after the response has gone out", profile="balanced", hits=hits,
        verdict="answered" if hits else "none", confidence=0.875 if hits else 0.0,
        matched_words=("send", "email", "respons", "gone"), index=STATE, degraded=(), trace=TRACE,
    )  # fmt: skip
    return replace(whole, **changes)
