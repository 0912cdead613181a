"""The values of a context: the sections that it may quote, and what it quotes."""

from dataclasses import dataclass

from pageindex.node import Span
from retriever.types import CitationState

CHARS_PER_TOKEN = 4  # of prose


@dataclass(frozen=True, slots=True)
class ContextSection:
    """A section with its whole text, as a context may quote it."""

    node_id: str
    folder: str  # the indexed folder, absolute
    file: str  # relative to `folder`
    span: Span  # the lines of `text` in the file: where it has moved, its new ones
    titles: tuple[str, ...]  # the titles above it, outermost first, and its own
    text: str  # exactly the lines of `span`
    rank: int | None  # of the hit, from 1; None for a section that only completes its family
    # The lines of its chunks: the one that matched, then the others, the nearest to it first.
    chunk_spans: tuple[Span, ...] = ()
    # Whether the file holds `text` in the lines of `span`; if it does not, these are where it was indexed.
    citation_state: CitationState = "exact"
    cited_as: str = ""  # as in `Hit`

    @property
    def citation(self) -> str:
        return f"{self.cited_as or self.file}:{self.span}"

    @property
    def tokens(self) -> int:
        """About how many it has."""
        return len(self.text) // CHARS_PER_TOKEN

    @property
    def is_held(self) -> bool:
        """Whether the file holds it there; the lines of what it does not hold are of another time."""
        return self.citation_state in ("exact", "moved")

    def lines(self, span: Span) -> list[str]:
        return self.text.split("\n")[span.first - self.span.first : span.last - self.span.first + 1]

    def quote_chunks(self, count: int) -> "list[Quotation]":
        """Its first chunks, as one quotation where they touch; the section whole when these are all of them."""
        if count >= len(self.chunk_spans) > 0:
            return [Quotation(self, self.span)]
        joined: list[Span] = []
        for span in sorted(self.chunk_spans[:count]):
            between = range(joined[-1].last + 1, span.first) if joined else None
            # Two spans touch when they overlap, or when only blank lines are between them.
            if between is not None and not (between and "".join(self.lines(Span(between[0], between[-1]))).strip()):
                joined[-1] = Span(joined[-1].first, max(joined[-1].last, span.last))
            else:
                joined.append(span)
        return [Quotation(self, span) for span in joined]


@dataclass(frozen=True, slots=True)
class Quotation:
    section: ContextSection
    span: Span  # all lines of the section, or some of them


@dataclass(frozen=True, slots=True)
class Piece:
    """Lines of a document that follow one another, quoted together."""

    folder: str
    file: str
    span: Span
    titles: tuple[str, ...]  # the common heading of its sections: titles, outermost first
    node_ids: tuple[str, ...]  # of its sections, in document order
    rank: int | None  # of the best hit in it; None when it only completes a family
    text: str  # exactly the lines of `span`, each with its line end
    cut_from: tuple[Span, ...] = ()  # the spans of those of its sections that are not quoted whole
    # As the first of its sections that is not `exact`; what the file holds and what it does not are never in one.
    citation_state: CitationState = "exact"
    cited_as: str = ""  # as in `Hit`

    @property
    def citation(self) -> str:
        return f"{self.cited_as or self.file}:{self.span}"
