"""What each tool answers, from one library and within the tokens that it was given."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from retriever.browse import find_node, load_tree, read_excerpt
from retriever.display.sanitize import code
from retriever.serving.mcp_text import (
    DATA,
    Reply,
    envelope,
    expansion_lines,
    expansion_values,
    headline,
    hit_line,
    hit_values,
    page_reply,
    related_lines,
    said_of,
    status_line,
    status_values,
    text_reply,
)
from retriever.serving.paging import Cursors, compact_json, estimated_tokens, fitting_lines, fitting_text

if TYPE_CHECKING:
    from retriever.serving.pool import ServedIndex
    from retriever.types import Answer, Hit

MOST_HITS = 30
WIDE = {"top_k": MOST_HITS}
"""Settings of every search: as many hits as are ever asked for, so that `top_k` and pages only cut the same list."""
DEEP = {"top_k": 300, "candidate_cap": 300, "vector_top_n": 600, "keyword_top_n": 600}
"""Of a search below a path: its hits are those of all documents that lie there."""
RESERVED_TOKENS = 150
"""For what is known at the end alone: the cursor and the sum."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A search as a tool was called."""

    question: str
    top_k: int
    profile: str
    path: str
    max_tokens: int
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Over those of the profile."""
    shows_passages: bool = False
    """Whether the answer holds the hypothetical passages, too."""

    @property
    def call(self) -> tuple[object, ...]:
        """What a cursor is bound to."""
        return "search", self.question, self.top_k, self.profile, self.path


class Answers:
    """Answers the tools' calls from one library; safe to share between threads."""

    def __init__(self, library: "ServedIndex") -> None:
        self._library = library
        self._cursors = Cursors()

    def search(self, asked: Asked, cursor: str = "") -> Reply:
        """The sections that answer a question, as many as fit.

        Raises:
            UsageError: an argument means nothing here.
            RetrieverError: the index cannot answer.
        """
        settings = {**(DEEP if asked.path else WIDE), **asked.settings}
        with self._library.retriever(asked.profile, settings) as retriever:
            answer = retriever.search(asked.question)
        hits = answer.hits
        remarks: list[str] = []
        if asked.path:
            hits = tuple(hit for hit in hits if lies_in(hit, asked.path))
            remarks = self._path_remarks(asked, answer, hits)
        first = self._cursors.offset(cursor, asked.call, answer.index.snapshot)
        return self._filled(asked, replace(answer, hits=hits[: asked.top_k]), remarks, first)

    def _path_remarks(self, asked: Asked, answer: "Answer", hits: Sequence["Hit"]) -> list[str]:
        if not hits:
            with self._library.retriever(asked.profile) as retriever:
                retriever.nodes(asked.path, depth=0)  # raises where there is no such path
        remarks = ["path: verdict and confidence are those of the search in all documents"]
        if len(hits) < asked.top_k and len(answer.hits) >= DEEP["top_k"]:
            remarks.append(
                f"path: {len(hits)} of the {len(answer.hits)} best sections of all documents lie there; others there "
                "may have been missed: outline(path) shows them"
            )
        return remarks

    def _filled(self, asked: Asked, answer: "Answer", remarks: Sequence[str], first: int) -> Reply:
        """The hits from place `first` on, until the budget is spent; the first one is cut to fit."""
        values = envelope(answer, remarks) | expansion_values(answer, shows_passages=asked.shows_passages)
        head = "\n".join([headline(answer), *expansion_lines(values)])
        left = asked.max_tokens - estimated_tokens(compact_json(values) + head) - RESERVED_TOKENS
        hits: list[dict[str, Any]] = []
        lines: list[str] = []
        for hit in answer.hits[first:]:
            line, value = hit_line(hit), hit_values(hit, answer)
            cost = estimated_tokens(line + compact_json(value))
            if cost > left and not hits:
                value |= {"text": fitting_text(hit.text, max(left - cost + _text_cost(hit.text), 1)), "text_cut": True}
                cost = left
            if cost > left:
                break
            left -= cost
            hits.append(value)
            lines.append(line)
        end = first + len(hits)
        cursor = self._cursors.make(asked.call, answer.index.snapshot, end) if end < len(answer.hits) else ""
        values |= {"hits": hits, "truncated": bool(cursor), "next_cursor": cursor or None}
        more = [f"{len(answer.hits) - end} more: call again with the same arguments and cursor={cursor}"]
        notes = [f"note: {item}" for item in (*values["degraded"], *values["remarks"])]
        text = "\n".join([head, *lines, *(more if cursor else []), *notes])
        values["total_tokens"] = estimated_tokens(text + compact_json(values))
        return Reply(text, values)

    def read(self, reference: str, max_tokens: int, cursor: str = "") -> Reply:
        """The text of a section with all below it, of a file, or of lines.

        Raises:
            UsageError: there is nothing of that name.
        """
        with self._library.retriever() as retriever, retriever.view() as view:
            passage = read_excerpt(view.connection, reference, retriever.access)
            snapshot = view.number
        call = ("read", reference, hash(passage.text))  # a file that changes makes no new snapshot at once
        first = self._cursors.offset(cursor, call, snapshot)
        titles = code(" > ".join((*passage.breadcrumb, passage.title)))
        cited = code(passage.citation) + said_of(passage.citation_state)
        head = f"{cited} {titles} node {code(passage.node_id)}. {DATA}"
        most = max_tokens - estimated_tokens(head) - RESERVED_TOKENS
        text = fitting_text(passage.text[first:], most)
        end = first + len(text)
        next_cursor = self._cursors.make(call, snapshot, end) if end < len(passage.text) else ""
        line = passage.span.first + passage.text.count("\n", 0, end)
        rest = f"cut before line {line} of {passage.span.last}" if next_cursor else ""
        return page_reply(head, text, rest, next_cursor)

    def outline(self, reference: str, depth: int, max_tokens: int, cursor: str = "") -> Reply:
        """The drawn tree of all documents, or below a folder, a file or a section.

        Raises:
            UsageError: there is nothing of that name.
        """
        with self._library.retriever() as retriever, retriever.view() as view:
            tree, snapshot = load_tree(view.connection), view.number
            top = find_node(view.connection, tree, reference) if reference else None
        lines = tree.pretty(top, depth).split("\n")
        call = ("outline", reference, depth)
        first = self._cursors.offset(cursor, call, snapshot)
        head = f"Titles with file:first-last as indexed, {len(lines):,} lines; read() takes the latter. {DATA}"
        count = fitting_lines(lines[first:], max_tokens - estimated_tokens(head) - RESERVED_TOKENS)
        end = first + count
        next_cursor = self._cursors.make(call, snapshot, end) if end < len(lines) else ""
        rest = (
            f"{len(lines) - end:,} more lines; a smaller depth or a part of the tree is shorter" if next_cursor else ""
        )
        return page_reply(head, "\n".join([*lines[first:end], ""]), rest, next_cursor)

    def related(self, reference: str, max_tokens: int) -> Reply:
        """What a section or a file stands beside.

        Raises:
            UsageError: there is no such section or file.
        """
        from retriever.browse import find_relations, locate_relations

        with self._library.retriever() as retriever, retriever.view() as view:
            found = find_relations(view, reference)
            lines = related_lines(found, locate_relations(view, found, retriever.access))
        count = fitting_lines(lines, max_tokens - RESERVED_TOKENS)
        if count < len(lines):
            lines[count:] = [f"cut: {len(lines) - count} more lines; a larger max_tokens shows them"]
        return text_reply("\n".join(lines), "", truncated=count < len(lines))

    def status(self) -> Reply:
        """What is indexed, how fresh it is, and what was skipped."""
        with self._library.retriever() as retriever:
            status = retriever.status()
        values = status_values(status, self._library.profile)
        text = status_line(status)
        return Reply(text, values | {"total_tokens": estimated_tokens(text + compact_json(values))})


def lies_in(hit: "Hit", path: str) -> bool:
    """Whether a hit is in a file, or below a folder; both as citations name them, or as node ids do."""
    wanted = path.removeprefix("./").strip("/")
    names = (hit.file, hit.node_id.partition("#")[0])
    return not wanted or any(name == wanted or name.startswith(f"{wanted}/") for name in names)


def _text_cost(text: str) -> int:
    return estimated_tokens(compact_json(text))
