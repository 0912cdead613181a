"""Results as they are shown: in words for people, made safe for terminal and page; as JSON for programs."""

import os
import re
import shlex
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from pageindex.node import Node, Span
from pageindex.text import sanitize as sanitize
from pageindex.text import sanitize_line as sanitize_line
from retriever.errors import UsageError, name_program
from retriever.lexical.languages import STEMMED
from retriever.lexical.sections import is_status
from retriever.lexical.tokens import is_unspaced, tokenize_unit
from retriever.query import Scope
from retriever.trace import Spent
from retriever.types import Answer, Cited, CitedSentence, Degradation, Hit, IndexState, ShortAnswer, StageName

if TYPE_CHECKING:
    from jinja2 import Environment

# By `Verdict`.
VERDICTS = {
    "answered": "A section probably answers this.",
    "weak": "It is not certain that a section answers this; these are the nearest.",
    "none": "Probably no section answers this; these are the nearest.",
}

# What stands above the quoted lines, by `Verdict`.
HEADLINES = {
    "answered": "Answer",
    "weak": "No clear answer. Closest passages:",
    "none": "Probably no answer. Closest passage:",
}

# The fields of `Signals`, from which the verdict comes, and what each says.
SIGNALS = (
    ("coverage", "share of the question, by the rarity of its words, that one section covers"),
    ("known", "share of the question in words that the documents use"),
    ("together", "share of the question's pairs of words that stand side by side in a section"),
    ("margin", "deviations of the nearest passage above what unrelated questions find"),
    ("lead", "how far the first section's score is above the third's, beyond chance"),
)

# How a section that the tree brought in stands to the hit that it stands near, by `RelationKind`.
RELATIONS = {
    "parent": "the parent of",
    "child": "a child of",
    "sibling": "beside",
    "file": "the top of the file of",
}

# What is said beside the lines that are cited, by `CitationState`; nothing where they are what was indexed.
CITATION_STATES = {
    "exact": "",
    "moved": "moved here since it was indexed",
    "stale": "stale: these lines have changed since they were indexed",
    "gone": "gone: the file can no longer be read",
    "unchecked": "unchecked: as it was indexed; its folder is not looked at until named with --docs",
}

# With the accents, vowels and tones that are characters of their own: `\w` has none of them.
_WORD = re.compile(
    r"[\w\u0300-\u036f\u0591-\u05c7\u064b-\u065f\u0670\u0900-\u0963\u0966-\u0ece\u102b-\u103e\u17b4-\u17d3\u3099\u309a]+"
)


def format_fields(hit: Hit) -> str:
    """Return what a question names of a hit's front matter, in words, but for what its sentence says already.

    So: `also called Mise en place; tagged kitchen/prep, journal; status: draft`.
    """
    by_key: dict[str, list[str]] = {}
    for key, value in hit.matched_fields:
        if f"{key}: {value}".casefold() not in hit.sentence.casefold():
            by_key.setdefault(key, []).append(value)
    leads = {"aliases": "also called ", "tags": "tagged "}
    return "; ".join(f"{leads.get(key, f'{key}: ')}{', '.join(values)}" for key, values in by_key.items())


def because(words: Sequence[str], reasons: Sequence[str]) -> str:
    """Return why a hit is there, from its fields `words` and `reasons`.

    >>> because(["vacation days", "May"], ["near in meaning"]), because([], [])
    ('*vacation days*, *May*; near in meaning', 'words of the question')
    """
    named = ", ".join(f"*{word}*" for word in words)
    return "; ".join(filter(None, (named, *reasons))) or "words of the question"


def format_doubt(state: str) -> str:
    """Format a citation's state in a word, two blanks before it; nothing where the lines are what was indexed."""
    return "" if state == "exact" else f"  {state}"


def format_status(place: CitedSentence, hits: Sequence[Hit]) -> str:
    """Format how far the document of a place holds, as `  status: superseded`, two blanks before it; else nothing."""
    fields = (field for hit in hits if hit.node_id == place.node_id for field in hit.matched_fields)
    return "".join(f"  {key}: {value}" for key, value in fields if is_status(key, value))


def pluralize(number: int, noun: str) -> str:
    """Return `1 file` or `1,203 files`.

    >>> pluralize(0, "file"), pluralize(1, "file"), pluralize(1203, "file")
    ('0 files', '1 file', '1,203 files')
    """
    return f"{number:,} {noun}{'s' * (number != 1)}"


def format_duration(seconds: float) -> str:
    """Format a rough time: `5 minutes`, `1 hour`, `3 days`; empty below a minute.

    >>> [format_duration(seconds) for seconds in (59, 60, 3_599, 3_600, 86_399, 86_400, 200_000)]
    ['', '1 minute', '59 minutes', '1 hour', '23 hours', '1 day', '2 days']
    """
    for unit, length in (("day", 86_400), ("hour", 3_600), ("minute", 60)):
        if seconds >= length:
            return pluralize(int(seconds // length), unit)
    return ""


def format_age(seconds: float) -> str:
    """Format how long ago something was: `just now`, `5 minutes ago`."""
    age = format_duration(seconds)
    return f"{age} ago" if age else "just now"


def describe_freshness(state: IndexState) -> str:
    """Describe how the index compares with the files on disk: `up to date`, `2 files stale`."""
    words = []
    if state.refreshed_files:
        words.append(f"{pluralize(state.refreshed_files, 'file')} re-indexed first")
    if state.stale_files:
        words.append(f"{pluralize(state.stale_files, 'file')} stale")
    if state.unchecked_folders:
        words.append(f"{pluralize(state.unchecked_folders, 'folder')} not looked at")
    return ", ".join(words) or "up to date"


def format_refresh_command(state: IndexState, index: str | None) -> str:
    """Format the command that brings the index up to date; `index` as it was given with --index."""
    option = ["--index", index] if index else []
    return f"{name_program()} {shlex.join(['index', *option, *state.folders])}"


def describe_search(answer: Answer) -> str:
    """Return how much was searched: `3 sections of 2 files (in:daily)`."""
    part = answer.scope or answer.index
    amount = f"{pluralize(part.sections, 'section')} of {pluralize(part.documents, 'file')}"
    return f"{amount} ({' '.join(answer.scope.scope.terms)})" if answer.scope else amount


def list_remarks(answer: Answer, refresh: str = "index again to search them") -> list[str]:
    """List what to know about an answer: how the question was understood, what was left out, and what can be done.

    `refresh` says how to bring the index up to date.
    """
    state, remarks = answer.index, list[str]()
    if answer.corrections:
        searched = ", ".join(f"{item.searched} (you wrote {item.wrote})" for item in answer.corrections)
        remarks.append(f"searched for {searched}; double quotes keep a word as it is written")
    if answer.follow_up:
        remarks.append(f"understood as: {answer.follow_up.question}")
    remarks += [*map(str, answer.degraded), *answer.notes]
    if (report := answer.expansion) and report.used:
        rewordings = pluralize(len(report.rewordings), "rewording")
        passages = pluralize(len(report.passages), "hypothetical passage")
        remarks.append(f"also searched with {rewordings}, {passages} ({report.note})")
    elif report and report.gated:
        remarks.append(f"searched as it is: {report.note}; --hyde always expands it all the same")
    elif report and report.dropped:
        remarks.append(f"searched as it is: {report.note}")
    if state.stale_files:
        remarks.append(f"{pluralize(state.stale_files, 'file')} changed, not in this answer; {refresh}")
    # The sections of such a file cannot be found, and only this says so.
    if state.skipped_files:
        remarks.append(f"{pluralize(state.skipped_files, 'file')} could not be read in full; see `status`")
    # Where the filters left nothing, a note has named the filter.
    if not answer.hits and (answer.scope is None or answer.scope.sections):
        # A question that the model cannot read comes with what helps.
        is_unread = StageName.EMBED in [item.stage for item in answer.degraded]
        remarks.append("nothing found" if is_unread else "nothing found: try other words, or the profile recall")
    return remarks


def find_highlights(text: str, stems: Collection[str], languages: Sequence[str] = ()) -> list[tuple[int, int]]:
    """Return (start, end) of each word that the keyword ranking counts as one of the stems; neighbors are one phrase.

    Of a script without spaces they are runs of characters: its terms are pairs, which overlap. Single ones, of which
    most are a part of other words, are left out.

    >>> find_highlights("学生的软件", ["软件", "学"], ("chinese",))
    [(3, 5)]
    """
    endings = tuple(name for name in languages if name in STEMMED)
    places: list[tuple[int, int]] = []
    for word in _WORD.finditer(text):
        found = [term for term in tokenize_unit(word[0], endings) if term in stems]
        # There a "word" is a whole clause: only the characters that matched are marked.
        literal = [
            match.span()
            for term in found
            if any(map(is_unspaced, word[0]))
            for match in re.compile(re.escape(term), re.IGNORECASE).finditer(text, *word.span())
        ]
        for start, end in sorted(literal) or ([word.span()] if found else []):
            # Between two words of one phrase may stand one sign.
            if places and text[places[-1][1] : start] in " -_.'\u2019":
                start, end = places[-1][0], max(end, places.pop()[1])
            places.append((start, end))
    return places


def shorten_path(folder: str, file: str) -> str:
    """Return the file's path as an editor started here opens it: relative or absolute, whichever is shorter."""
    absolute = os.path.normpath(f"{folder}/{file}")
    try:
        relative = os.path.relpath(absolute)
    except (OSError, ValueError):  # the current folder was deleted, or is on another drive
        return absolute
    return min(relative, absolute, key=len)


def shorten_citation(place: Cited) -> str:
    """Return the lines of a file as an editor opens them, and as `read` takes them."""
    if place.cited_as not in ("", place.file):
        return place.citation
    return f"{shorten_path(place.folder, place.file)}:{place.cited_lines}"


EDITOR_VARIABLE = "HYBRID_RETRIEVE_EDITOR"
# By editor: `{path}` is percent-encoded but for its slashes. The schemes are those that the
# editors register themselves; MacVim's for Vim, that of the usual desktop entry for Emacs. Obsidian takes no line.
EDITOR_TEMPLATES = {
    "vscode": "vscode://file{path}:{line}",
    "vim": "mvim://open?url=file://{path}&line={line}",
    "emacs": "emacs://open?url=file://{path}&line={line}",
    "jetbrains": "idea://open?file={path}&line={line}",
    "obsidian": "obsidian://open?path={path}",
}


def make_editor_link(place: Cited, default: str = "none") -> str:
    """Return the address of cited lines in the editor of HYBRID_RETRIEVE_EDITOR; empty for none.

    Without the variable, a file of a vault opens in Obsidian.

    Args:
        place: to open.
        default: the editor where the variable names none.

    Raises:
        UsageError: the variable names no editor, and is no address.
    """
    file = PurePath(place.folder, place.file)
    is_in_vault = any(os.path.isdir(folder / ".obsidian") for folder in file.parents)  # noqa: PTH112 - never raises
    editor = os.environ.get(EDITOR_VARIABLE) or ("obsidian" if is_in_vault else default)
    if editor == "none":
        return ""
    address = EDITOR_TEMPLATES.get(editor, editor)
    # Printable ASCII alone: nothing in it can end the sequence that makes a terminal show a link.
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9+.-]*:[!-~]*\{path\}[!-~]*", address):
        known = ", ".join(EDITOR_TEMPLATES)
        raise UsageError(
            f"{EDITOR_VARIABLE}={editor!r}: no such editor; there are {known}, or myeditor:{{path}}:{{line}}"
        )
    path = os.fsencode(file.as_posix())
    rooted = path if path.startswith(b"/") else b"/" + path  # C:/docs is /C:/docs in an address
    return address.replace("{line}", str(place.cited_lines.first)).replace("{path}", quote(rooted))


# Text of documents as it may be shown: no character of it steers a terminal, or reorders or hides what is read.
# Quotations are made here as well: `code` and `fence` keep one in Markdown inside its marks, and `open_templates` opens
# templates that escape and sanitize every value that they put into a page.

_BACKTICKS = re.compile("`+")


def code(text: str) -> str:
    """Return a Markdown code span of one line with exactly that text, sanitized; nothing in it can end the span.

    >>> code("a `b` c"), code("`b` c"), code("c `b`"), code("b")
    ('``a `b` c``', '`` `b` c ``', '`` c `b` ``', '`b`')
    """
    line = sanitize_line(text)
    marks = fence(line, 1)
    space = " " if line.startswith("`") or line.endswith("`") else ""
    return f"{marks}{space}{line}{space}{marks}"


def fence(text: str, least: int = 3) -> str:
    """Return the backticks around a Markdown code block with that text: more than any row in it, at least `least`.

    >>> fence(""), fence("a `b`"), fence("```sh"), fence("````", 1)
    ('```', '```', '````', '`````')
    """
    return "`" * max(least, 1 + max(map(len, _BACKTICKS.findall(text)), default=0))


def open_templates(folder: Path) -> "Environment":
    """Open the HTML templates of a folder. Every value in them is sanitized and escaped, unless it is `Markup`."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined  # 60 ms: pages and reports alone need it

    def sanitize_value(value: object) -> object:
        # Markup is made by our own code from texts that are sanitized.
        return sanitize(value) if isinstance(value, str) and not hasattr(value, "__html__") else value

    return Environment(
        loader=FileSystemLoader(folder),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=sanitize_value,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )


# Values as JSON: the command line, the HTTP API and MCP give programs the same objects. The keys of an object are the
# fields of its dataclass; the tables below name the exceptions.

SCHEMA_VERSION = 8  # rises when a key goes or changes its meaning; new keys may come at any time

# Properties that programs see beside the fields.
ADDED = ("fresh", "used", "citation", "missing", "size_bytes", "updated")
# Fields that are tuples of rows: the keys of a row.
ROWS = {
    "matched_fields": ("key", "value"),
    "skipped": ("file", "reason"),
    "remarks": ("file", "reason"),
    "forgotten": ("file", "reason"),
    "failed": ("file", "reason"),
    "broken_links": ("file", "line", "target", "reason"),
}
TIMES = frozenset({"milliseconds", "seconds"})  # rounded to three digits


def dump(value: Any, *left_out: str) -> Any:  # noqa: ANN401 - JSON
    """Return a value as JSON: for a dataclass or named tuple an object, without the keys `left_out`.

    >>> from retriever.types import Stage
    >>> dump(Stage(StageName.FUSE, 1.23456, "3 sections"), "note", "skipped")
    {'name': <StageName.FUSE: 'fuse'>, 'milliseconds': 1.235}
    """
    if isinstance(value, Span):
        return {"start_line": value.first, "end_line": value.last}
    if isinstance(value, Degradation):
        return str(value)
    if isinstance(value, Mapping):
        return {key: dump(part) for key, part in value.items()}
    if not (is_dataclass(value) or hasattr(value, "_fields")):
        return [dump(part) for part in value] if isinstance(value, list | tuple) else value
    names = getattr(value, "_fields", None) or [field.name for field in fields(value)]
    found: dict[str, Any] = {}
    for key in (*names, *(name for name in ADDED if hasattr(value, name))):
        part = getattr(value, key)
        if key in left_out:
            continue
        if key == "span" or isinstance(part, Scope):  # their keys are of the object itself
            found |= dump(part)
        elif key in ROWS and isinstance(part, tuple):
            found[key] = [row if isinstance(row, str) else dict(zip(ROWS[key], row, strict=True)) for row in part]
        else:
            found[key] = round(part, 3) if key in TIMES else dump(part)
    return found


def add_version(content: Mapping[str, Any]) -> dict[str, Any]:
    """Put the version of the schema before an answer to a program."""
    return {"schema_version": SCHEMA_VERSION, **content}


def dump_answer(
    answer: Answer, spent: Spent, short: ShortAnswer | None = None, *, full: bool = False, explain: bool = False
) -> dict[str, Any]:
    """Return an answer as JSON, with its sentences if it has a `short` one.

    If `full`, with the hits' texts; if `explain`, with trace and made-up passages.
    """
    content: dict[str, Any] = dump(answer, *(() if explain else ("trace",)))
    content["hits"] = [dump(hit, *(() if full else ("text", "text_cut"))) for hit in answer.hits]
    if answer.expansion is not None and not explain:  # so that nothing quotes what no document says
        content["expansion"] = dump(answer.expansion, "passages")
        content["expansion"]["dropped"] = [dump(item, "text") for item in answer.expansion.dropped]
    # Loading and indexing --docs, each stage of the search, and all of it by the clock.
    times = defaultdict[str, float](float, opening=spent.opening)
    for stage in answer.trace.stages:
        times[stage.name] += stage.milliseconds
    times["total"] = spent.total
    content["timings_ms"] = {name: round(value, 3) for name, value in times.items()}
    if short is not None:
        content["answer"] = dump(short, "answer")
    return content


def dump_node(node: Node) -> dict[str, Any]:
    """Return a node of the outline."""
    return {
        "node_id": node.id,
        "kind": node.kind,
        "file": node.path,
        "title": node.title,
        "level": node.level,
        "start_line": node.span and node.span.first,
        "end_line": node.span and node.span.last,
        "summary": node.summary,
    }
