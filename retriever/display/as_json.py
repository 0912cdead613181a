"""What the library gives, as objects for programs: exact, keys in a fixed order.

`schema_version` rises when a key goes or changes its meaning; new keys may come at any time.
"""

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from retriever.timing import Spent

if TYPE_CHECKING:
    from pageindex.node import Node
    from retriever.browsing import Passage
    from retriever.query import ExpansionReport
    from retriever.status import Status
    from retriever.types import Answer, Evidence, Hit, IndexState, Ranking, Trace

SCHEMA_VERSION = 1

TRACED_RANKS = 10
"""How many ranks of each arm a trace puts into the object."""


def answer_object(
    answer: "Answer", spent: Spent, *, full: bool, explain: bool, hypothetical: bool = False
) -> dict[str, Any]:
    """An answer; with each hit's text if `full`, with the trace if `explain`, with made-up texts if `hypothetical`."""
    content = {
        "question": answer.question,
        "profile": answer.profile,
        "verdict": answer.verdict,
        "confidence": answer.confidence,
        "hits": [hit_object(hit, full=full) for hit in answer.hits],
        "index": index_object(answer.index),
        "degraded": list(answer.degraded),
        "expansion": expansion_object(answer.expansion, hypothetical=hypothetical) if answer.expansion else None,
        "timings_ms": timings(answer, spent),
    }
    return content | {"trace": trace_object(answer.trace)} if explain else content


def expansion_object(report: "ExpansionReport", *, hypothetical: bool) -> dict[str, Any]:
    """What became of the expansion; what a model made up only if `hypothetical`, so that nothing quotes it."""
    passages: dict[str, Any] = {"passages": list(report.passages)} if hypothetical else {}
    dropped = [
        {"kind": item.kind, "reason": item.reason} | ({"text": item.text} if hypothetical else {})
        for item in report.dropped
    ]
    return {
        "used": report.used,
        "used_hyde": report.used_hyde,
        "note": report.note,
        "rewordings": list(report.rewordings),
        **passages,
        "dropped": dropped,
        "intent": report.intent,
        "entities": list(report.entities),
        "milliseconds": report.milliseconds,
        "cached": report.cached,
    }


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
        "citation_state": hit.citation_state,
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
    """What was searched; `fresh` is false while files on disk differ from it, or are not looked at."""
    return {
        "path": state.path,
        "folders": list(state.folders),
        "generation": state.generation,
        "documents": state.documents,
        "sections": state.sections,
        "chunks": state.chunks,
        "fresh": state.stale_files == 0 and state.unchecked_folders == 0,
        "refreshed_files": state.refreshed_files,
        "stale_files": state.stale_files,
        "skipped_files": state.skipped_files,
        "unchecked_folders": state.unchecked_folders,
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


def node_object(node: "Node") -> dict[str, Any]:
    """A folder, file or section, for programs; the lines are null where it has none of its own."""
    return {
        "node_id": node.id,
        "kind": str(node.kind),
        "file": node.path,
        "title": node.title,
        "level": node.level,
        "start_line": node.span.first if node.span else None,
        "end_line": node.span.last if node.span else None,
        "summary": node.summary,
    }


def passage_object(passage: "Passage") -> dict[str, Any]:
    """A passage, for programs."""
    return {
        "node_id": passage.node_id,
        "folder": passage.folder,
        "file": passage.file,
        "start_line": passage.span.first,
        "end_line": passage.span.last,
        "citation": passage.citation,
        "citation_state": passage.citation_state,
        "title": passage.title,
        "breadcrumb": list(passage.breadcrumb),
        "text": passage.text,
    }


def status_object(status: "Status") -> dict[str, Any]:
    """The index's state, for programs."""
    return {
        "index": index_object(status.index),
        "encoder": status.encoder,
        "size_bytes": status.size_bytes,
        "changed_files": list(status.changed_files),
        "skipped": skipped_objects(status.skipped),
        "broken_links": status.broken_links,
        "coverage": status.coverage,
        "former_encoder": status.former_encoder,
        "former_coverage": status.former_coverage,
    }
