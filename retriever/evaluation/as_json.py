"""A summary as one JSON object, for programs: exact, keys in a fixed order."""

from dataclasses import asdict
from typing import Any

from retriever.evaluation.statistics import CONFIDENCE, PERMUTATIONS, RESAMPLES, Estimate
from retriever.evaluation.summary import Comparison, Summary, SystemSummary


def summary_object(summary: Summary) -> dict[str, Any]:
    """All of it but the hits, which `--run` writes."""
    questions = summary.questions.questions
    return {
        "questions": {
            "name": summary.questions.name,
            "count": len(questions),
            "unanswerable": sum(not item.is_answerable for item in questions),
            "kinds": {
                kind: sum(item.kind == kind and item.is_answerable for item in questions)
                for kind in summary.questions.kinds
            },
        },
        "statistics": {"confidence": CONFIDENCE, "resamples": RESAMPLES, "permutations": PERMUTATIONS},
        "systems": [system_object(system) for system in summary.systems],
        "comparisons": [comparison_object(item) for item in summary.comparisons],
    }


def system_object(system: SystemSummary) -> dict[str, Any]:
    """One system."""
    return {
        "name": system.system,
        **system.settings,
        "measures": {name: asdict(value) for name, value in system.overall.items()},
        "kinds": {
            kind: {name: asdict(value) for name, value in measures.items()} for kind, measures in system.by_kind.items()
        },
        "failed_questions": system.failed,
        "failures": dict(system.failures),
        "remarks": dict(system.remarks),
        "latency_ms": asdict(system.latency) if system.latency else None,
        "tokens_to_answer": system.tokens_to_answer,
        "abstention": {"unanswerable": system.abstention, "answerable": system.false_abstention},
        "confidence_auroc": system.auroc,
        "llm": {"calls": system.llm_calls, "tokens": system.llm_tokens},
        "lost": {str(stage): count for stage, count in system.losses.items()},
        "per_question": {key: dict(values) for key, values in system.per_question.items()},
    }


def comparison_object(item: Comparison) -> dict[str, Any]:
    """One pair by one measure."""
    return {
        "first": item.first,
        "second": item.second,
        "measure": item.measure,
        **asdict(item.difference),
        "significant": item.difference.is_significant,
        "won": list(item.won),
        "lost": list(item.lost),
    }


def estimate_text(value: Estimate) -> str:
    """`0.617 [0.562, 0.671]`."""
    return f"{value.mean:.3f} [{value.low:.3f}, {value.high:.3f}]"
