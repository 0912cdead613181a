"""How the expansion of questions fared with one index, of the last 10,000 questions of this user."""

from dataclasses import dataclass
from pathlib import Path

from retriever.expansion.memory import Memory
from retriever.expansion.values import ExpansionReport


@dataclass(frozen=True, slots=True)
class Gain:
    """What `eval` measured of expansions."""

    questions: str
    """The name of the set."""
    plain: float
    """Mean nDCG@10 without."""
    expanded: float
    """And with."""


@dataclass(frozen=True, slots=True)
class ExpansionMetrics:
    """Shares are 0 to 1, and None where nothing was counted."""

    questions: int
    """With a language model switched on."""
    usage_rate: float | None
    """Questions that were searched with other texts."""
    cache_hit_rate: float | None
    """Of the expansions that were needed, those that were remembered."""
    drop_rate: float | None
    """Of the texts that a model wrote, those that were not searched with."""
    p50_ms: float | None
    """Median time of a model for an expansion that was not remembered."""
    p95_ms: float | None
    gains: tuple[Gain, ...]


def note_event(memory: Memory, index: Path, report: ExpansionReport) -> None:
    """Counts one question."""
    used = len(report.rewordings) + len(report.passages)
    memory.add_event(
        str(index),
        used=report.used,
        cached=report.cached,
        milliseconds=report.milliseconds,
        texts=used + len(report.dropped),
        dropped=len(report.dropped),
    )


def metrics_of(memory: Memory, index: Path) -> ExpansionMetrics:
    """What was counted for an index."""
    events = memory.events(str(index))
    times = sorted(milliseconds for _, cached, milliseconds, _, _ in events if milliseconds is not None and not cached)
    needed = [cached for _, cached, milliseconds, _, _ in events if milliseconds is not None]
    return ExpansionMetrics(
        questions=len(events),
        usage_rate=_share(sum(used for used, *_ in events), len(events)),
        cache_hit_rate=_share(sum(needed), len(needed)),
        drop_rate=_share(sum(dropped for *_, dropped in events), sum(texts for *_, texts, _ in events)),
        p50_ms=_percentile(times, 50),
        p95_ms=_percentile(times, 95),
        gains=tuple(Gain(*row) for row in memory.gains(str(index))),
    )


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def _percentile(ascending: list[float], percent: int) -> float | None:
    """The nearest-rank percentile."""
    return ascending[max(0, -(-percent * len(ascending) // 100) - 1)] if ascending else None
