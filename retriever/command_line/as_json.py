"""Every command's result as one JSON object, for programs: exact, keys in a fixed order.

`schema_version` rises when a key goes or changes its meaning; new keys may come at any time.
"""

import json
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from retriever.command_line.terminal import is_unicode
from retriever.command_line.timing import Spent

if TYPE_CHECKING:
    from retriever.types import Answer, Evidence, Hit, IndexState, Ranking, Trace

SCHEMA_VERSION = 1

TRACED_RANKS = 10
"""How many ranks of each arm --explain puts into the object."""


def write_json(content: dict[str, Any]) -> None:
    """One object and a newline on standard output."""
    sys.stdout.write(f"{json_line({'schema_version': SCHEMA_VERSION, **content})}\n")


def json_line(content: dict[str, Any]) -> str:
    """The object as text that standard output can hold: other characters than ASCII stay as they are where they can.

    A file name that is not UTF-8 holds lone surrogates, which only an escape can carry.
    """
    text = json.dumps(content, ensure_ascii=False, allow_nan=False)
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return json.dumps(content, allow_nan=False)
    return text if is_unicode(sys.stdout) else json.dumps(content, allow_nan=False)


def answer_object(answer: "Answer", spent: Spent, *, full: bool, explain: bool) -> dict[str, Any]:
    """An answer; with each hit's text if `full`, and with the trace if `explain`."""
    content = {
        "question": answer.question,
        "profile": answer.profile,
        "verdict": answer.verdict,
        "confidence": answer.confidence,
        "hits": [hit_object(hit, full=full) for hit in answer.hits],
        "index": index_object(answer.index),
        "degraded": list(answer.degraded),
        "timings_ms": timings(answer, spent),
    }
    return content | {"trace": trace_object(answer.trace)} if explain else content


def hit_object(hit: "Hit", *, full: bool) -> dict[str, Any]:
    """A hit; `file` is relative to `folder`, lines are 1-based and inclusive."""
    text = {"text": hit.text, "text_cut": hit.text_cut} if full else {}
    return {
        "rank": hit.rank,
        "node_id": hit.node_id,
        "folder": hit.folder,
        "file": hit.file,
        "start_line": hit.span.first,
        "end_line": hit.span.last,
        "citation": hit.citation,
        "title": hit.title,
        "breadcrumb": list(hit.breadcrumb),
        "snippet": hit.snippet,
        "summary": hit.summary,
        **text,
        "score": hit.score,
        "scale": hit.scale,
        "evidence": [evidence_object(item) for item in hit.evidence],
    }


def evidence_object(evidence: "Evidence") -> dict[str, Any]:
    """What one arm says; `share` is its part of the hit's score."""
    return {
        "arm": evidence.arm,
        "rank": evidence.rank,
        "score": evidence.score,
        "scale": evidence.scale,
        "share": evidence.share,
        "origin": evidence.origin,
    }


def index_object(state: "IndexState") -> dict[str, Any]:
    """What was searched; `fresh` is false while files on disk differ from it."""
    return {
        "path": state.path,
        "folders": list(state.folders),
        "generation": state.generation,
        "documents": state.documents,
        "sections": state.sections,
        "chunks": state.chunks,
        "fresh": state.stale_files == 0,
        "refreshed_files": state.refreshed_files,
        "stale_files": state.stale_files,
        "skipped_files": state.skipped_files,
    }


def timings(answer: "Answer", spent: Spent) -> dict[str, float]:
    """Milliseconds: `opening` (loading, indexing --docs), each stage of the search, `total` by the clock."""
    by_stage: dict[str, float] = {"opening": spent.opening}
    for stage in answer.trace.stages:
        by_stage[stage.name] = by_stage.get(stage.name, 0.0) + stage.milliseconds
    return {name: round(value, 3) for name, value in by_stage.items()} | {"total": round(spent.total, 3)}


def trace_object(trace: "Trace") -> dict[str, Any]:
    """The stages in their order, the first ranks of each arm, and what the verdict was made of."""
    stages = [
        {"name": item.name, "milliseconds": round(item.milliseconds, 3), "note": item.note} for item in trace.stages
    ]
    rankings = [ranking_object(item) for item in trace.rankings]
    return {"stages": stages, "rankings": rankings, "signals": asdict(trace.signals)}


def ranking_object(ranking: "Ranking") -> dict[str, Any]:
    """What one arm found, before the fusion."""
    return {
        "arm": ranking.arm,
        "scale": ranking.scale,
        "weight": ranking.weight,
        "found": len(ranking.items),
        "first": [
            {"node_id": item.node_id, "score": item.score, "origin": item.origin}
            for item in ranking.items[:TRACED_RANKS]
        ],
    }


def skipped_objects(skipped: tuple[tuple[str, str], ...]) -> list[dict[str, str]]:
    """The files that could not be read, and why."""
    return [{"file": path, "reason": reason} for path, reason in skipped]
