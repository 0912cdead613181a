"""What people and programs see of an answer."""

import io
import json
import sys
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hybrid_retrieve import main
from retriever.command_line.console import json_line, shorten_path
from retriever.command_line.render import Page, show_answer
from retriever.display.phrases import find_highlights, format_size
from retriever.display.sanitize import sanitize, sanitize_line
from retriever.types import Answer, Evidence, Relation, RelationKind, Source, Verdict
from tests.answers import HIT, STATE, answer, hit
from tests.fake_library import FakeLibrary

SECOND = hit(
    rank=2,
    file="a\nb.md",
    title="Evil\x1b[2J",
    breadcrumb=(),
    snippet="Sending mails. \u202eYou e-mail\u2026",
    evidence=(
        Evidence(
            Source.NEIGHBORS, 2, 0.0163, "decayed rrf", 0.001, via=Relation(RelationKind.PARENT, "guide/mail.md#mail")
        ),
    ),
)

PLAIN = """\
 1  /docs/guide/mail.md:12-34
    Mail \u203a After the response
    Send an email after the response has gone out: add it to the background tasks.
    semantic #1 (cosine 0.713) \u00b7 keyword #3 (bm25 12.4)

 2  /docs/a\\x0ab.md:12-34
    Evil\ufffd[2J
    Sending mails. \ufffdYou e-mail\u2026
    neighbors #2 (decayed rrf 0.0163, parent of guide/mail.md#mail)
"""


class Terminal(io.StringIO):
    """A stream that says it is one."""

    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


def shown(stream: io.TextIOBase, *, full: bool = False) -> None:
    show_answer(Page.on(stream), answer(HIT, SECOND), full=full)  # type: ignore[arg-type]  # StringIO is TextIO to all but mypy


def on_terminal(monkeypatch: pytest.MonkeyPatch, columns: int, *, full: bool = False) -> str:
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("TERM", "xterm-256color")
    stream = Terminal()
    shown(stream, full=full)
    return stream.getvalue()


def test_elsewhere_than_on_a_terminal_each_item_is_one_plain_line(
    library: FakeLibrary, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    library.answers = [answer(HIT, SECOND)]
    assert main(["q"]) == 0
    assert capsys.readouterr().out == PLAIN


def test_a_terminal_wraps_and_marks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    page = on_terminal(monkeypatch, 60)
    assert "\x1b[1;33mSend\x1b[0m an \x1b[1;33memail\x1b[0m after the \x1b[1;33mresponse\x1b[0m" in page
    assert "\x1b[1;36m/docs/guide/mail.md:12-34\x1b[0m" in page


def test_no_color_keeps_the_marks_without_colours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    page = on_terminal(monkeypatch, 60)
    assert "\x1b[1mSend\x1b[0m an" in page
    assert "\x1b[3" not in page


@pytest.mark.parametrize("columns", [0, 1, 40, 80, 140])
def test_prose_fits_the_width(monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setenv("COLUMNS", str(columns))
    stream = Terminal()
    shown(stream)
    assert max(map(len, stream.getvalue().splitlines())) <= (columns if columns > 1 else 80)
    assert " ".join(stream.getvalue().split()) == " ".join(PLAIN.split())


def test_full_quotes_the_text_as_it_stands(library: FakeLibrary, capsys: pytest.CaptureFixture[str]) -> None:
    library.answers = [answer(hit(text="# A\n\n\tcode\x07\n", text_cut=True))]
    assert main(["q", "--full"]) == 0
    expected = """\
    \u2502 # A
    \u2502
    \u2502     code\ufffd
    cut here; all of it: hybrid_retrieve.py read 'guide/mail.md#mail/after-the-response'
"""
    assert expected in capsys.readouterr().out


def test_explain_takes_the_answer_apart(library: FakeLibrary, capsys: pytest.CaptureFixture[str]) -> None:
    library.answers = [answer(HIT)]
    assert main(["q", "--explain"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "      4.2  semantic  40 chunks of 23 sections" in lines
    assert "verdict  answered, confidence 0.88" in lines
    assert "     6.50  margin     deviations of the nearest passage above what unrelated questions find" in lines
    assert "   1    0.7134  0.01640 of hit 1  guide/mail.md#mail/after-the-response" in lines
    assert "   2       0.5  -                 other.md" in lines
    assert lines[-1] == "   1   0.03120 = 0.01640 semantic + 0.01480 keyword  guide/mail.md:12-34"


def test_json_of_an_answer(library: FakeLibrary, capsys: pytest.CaptureFixture[str]) -> None:
    library.answers = [answer(HIT, degraded=("semantic: off",), index=replace(STATE, stale_files=2))]
    assert main(["q", "--json"]) == 0
    content = json.loads(capsys.readouterr().out)
    spent = content.pop("timings_ms")
    assert content == {
        "schema_version": 2,
        "question": "send an email after the response has gone out",
        "profile": "balanced",
        "verdict": "answered",
        "confidence": 0.875,
        "hits": [
            {
                "rank": 1,
                "node_id": "guide/mail.md#mail/after-the-response",
                "folder": "/docs",
                "file": "guide/mail.md",
                "start_line": 12,
                "end_line": 34,
                "citation": "guide/mail.md:12-34",
                "citation_state": "exact",
                "title": "After the response",
                "breadcrumb": ["Mail"],
                "snippet": HIT.snippet,
                "summary": HIT.summary,
                "score": 0.0312,
                "scale": "rrf",
                "evidence": [
                    {
                        "source": "semantic",
                        "rank": 1,
                        "score": 0.7134,
                        "scale": "cosine",
                        "share": 0.0164,
                        "matched": {"start_line": 12, "end_line": 20},
                        "via": None,
                        "note": "",
                    },
                    {
                        "source": "keyword",
                        "rank": 3,
                        "score": 12.41,
                        "scale": "bm25",
                        "share": 0.0148,
                        "matched": None,
                        "via": None,
                        "note": "",
                    },
                ],
            }
        ],
        "index": {
            "path": "/index",
            "folders": ["/docs"],
            "snapshot": 7,
            "documents": 155,
            "sections": 1203,
            "chunks": 3204,
            "fresh": False,
            "refreshed_files": 0,
            "stale_files": 2,
            "skipped_files": 0,
            "unchecked_folders": 0,
        },
        "degraded": ["semantic: off"],
        "expansion": None,
    }
    assert list(spent) == ["opening", "semantic", "keyword", "total"]
    assert spent["semantic"] == 4.25


def test_json_has_texts_and_trace_only_when_asked(library: FakeLibrary, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["q", "--json", "--full", "--explain"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert content["hits"][0]["text"] == HIT.text
    assert content["hits"][0]["text_cut"] is False
    assert [item["name"] for item in content["trace"]["stages"]] == ["semantic", "keyword"]
    assert content["trace"]["rankings"][0]["found"] == 2
    assert content["trace"]["rankings"][0]["first"][1] == {
        "node_id": "other.md",
        "score": 0.5,
        "matched": None,
        "via": None,
    }
    assert content["trace"]["signals"] == {
        "coverage": 0.75, "known": 1.0, "together": 0.5, "form": "sentence", "margin": 6.5, "agreement": 0.25,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("verdict", "begins"),
    [
        ("answered", " 1  /docs/guide/mail.md:12-34\n"),
        ("weak", "It is not certain that a section answers this; these are the nearest:\n\n 1  /docs"),
        ("none", "No section answers this; these are only the nearest:\n\n 1  /docs"),
    ],
)
def test_a_doubt_is_said_before_the_hits(
    library: FakeLibrary, capsys: pytest.CaptureFixture[str], verdict: Verdict, begins: str
) -> None:
    library.answers = [answer(HIT, verdict=verdict)]
    assert main(["q"]) == 0
    assert capsys.readouterr().out.startswith(begins)


def test_stale_and_skipped_files_are_said_with_what_to_do(
    library: FakeLibrary, capsys: pytest.CaptureFixture[str]
) -> None:
    state = replace(STATE, folders=("/my docs", "/b"), stale_files=3, skipped_files=1)
    library.answers = [answer(HIT, index=state)]
    assert main(["q", "--json", "--index", "i"]) == 0
    assert capsys.readouterr().err.splitlines() == [
        "note: 3 files changed, not in this answer; run: hybrid_retrieve.py index --index i '/my docs' /b",
        "note: 1 file could not be read; `status` names them",
    ]


@pytest.mark.parametrize(
    ("text", "stems", "marked"),
    [
        ("Sending e-mails, sent email", {"send", "email"}, ["Sending", "email"]),
        ("BackgroundTasks.add_task()", {"task"}, ["BackgroundTasks", "add_task"]),
        ("\u6771\u4eac\u30bf\u30ef\u30fc\u3078email\u3092", {"\u4eac\u30bf", "email"}, ["\u4eac\u30bf", "email"]),
        ("nothing here", {"send"}, []),
        ("", {"send"}, []),
    ],
)
def test_marked_words(text: str, stems: set[str], marked: list[str]) -> None:
    assert [text[first:last] for first, last in find_highlights(text, frozenset(stems))] == marked


OBEYED = "".join(map(chr, [*range(0x09), *range(0x0B, 0x20), *range(0x7F, 0xA0)]))
"""Control characters: all but newline and tab."""
HIDING = (
    "\u061c\u200b\u200e\u200f\u2028\u2029\u202a\u202b\u202c\u202d\u202e\u2060\u2066\u2067\u2068\u2069\ufeff\U000e0041"
)
"""Characters that reverse, hide or break text: bidirectional controls, zero widths, tags."""


@given(st.text(alphabet=st.one_of(st.characters(), st.sampled_from(OBEYED + HIDING + "\n\t"))))
def test_nothing_that_a_terminal_obeys_is_left(text: str) -> None:
    for safe in sanitize(text), sanitize_line(text):
        assert not set(safe) & set(OBEYED + HIDING)
        safe.encode("utf-8")  # no lone surrogate is left
    assert sanitize(text).count("\n") == text.count("\n")
    assert not set(sanitize_line(text)) & {"\n", "\t"}


@pytest.mark.parametrize("sign", [*OBEYED, *HIDING], ids=ascii)
def test_each_of_them_is_seen(sign: str) -> None:
    assert sanitize(f"a{sign}b") == sanitize_line(f"a{sign}b") == "a\ufffdb"


def test_ordinary_text_stays_as_it_is() -> None:
    family, persian = "\U0001f468\u200d\U0001f469\u200d\U0001f467", "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645"
    text = f"tab\tand\nline; \u6771\u4eac, \u05e9\u05dc\u05d5\u05dd, {family}, {persian}, caf\xe9, e\u0301"
    assert sanitize(text) == text


def test_names_that_are_no_unicode_show_their_bytes() -> None:
    assert sanitize_line("caf\udce9\n.md") == "caf\\xe9\\x0a.md"
    assert sanitize("\ud800") == "\ufffd"


@pytest.mark.parametrize("encoding", ["utf-8", "ascii", "latin-1"])
def test_json_is_exact_in_any_encoding(monkeypatch: pytest.MonkeyPatch, encoding: str) -> None:
    content = {"a": "\x1b[2J \u6771\u4eac \U0001f468 caf\udce9 \u202e"}
    stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    monkeypatch.setattr(sys, "stdout", stream)
    line = json_line(content)
    line.encode(encoding)
    assert json.loads(line) == content
    readable = json_line({"a": "\u6771\u4eac"})
    assert ("\u6771\u4eac" in readable) == (encoding == "utf-8")


@pytest.mark.parametrize(
    ("folder", "file", "expected"),
    [
        ("{cwd}/docs", "a/b.md", "docs/a/b.md"),
        ("{cwd}", "b.md", "b.md"),
        ("/d", "b.md", "/d/b.md"),
    ],
)
def test_a_citation_opens_from_here(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory, folder: str, file: str, expected: str
) -> None:
    here = tmp_path_factory.mktemp("here")
    monkeypatch.chdir(here)
    assert shorten_path(folder.format(cwd=here), file) == expected


@pytest.mark.parametrize(
    ("number", "words"),
    [(0, "0 bytes"), (999, "999 bytes"), (1000, "1.0 kB"), (22_900_000, "22.9 MB"), (4 * 10**12, "4.0 TB")],
)
def test_sizes(number: int, words: str) -> None:
    assert format_size(number) == words


def test_an_answer_without_hits_prints_nothing(library: FakeLibrary, capsys: pytest.CaptureFixture[str]) -> None:
    empty: Answer = answer()
    library.answers = [empty]
    assert main(["q", "--explain", "-q"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "fused  no hits"
    assert main(["q"]) == 0
    assert capsys.readouterr().out == ""
