"""Answers as people and programs see them; tests/output_cases has what commands print."""

import io
import json
import re
import sys
from contextlib import redirect_stdout
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retriever.command_line.output import Console, ProgressLine, format_json
from retriever.command_line.render import Page, show_answer
from retriever.display import EDITOR_TEMPLATES, EDITOR_VARIABLE, make_editor_link, sanitize, sanitize_line
from retriever.errors import UsageError
from retriever.query import Dropped, ExpansionReport
from retriever.retriever import Retriever
from retriever.types import DroppedSentence, Evidence, Hit, Relation, RelationKind, Source
from tests.answers import HIT, answer, hit
from tests.program import Cli, Terminal
from tests.sample_library import Sample

SECOND = hit(
    rank=2,
    file="a\nb.md",
    title="Evil\x1b[2J",
    breadcrumb=(),
    text="Sending mails. You e-mail.",
    snippet="Sending mails. \u202eYou e-mail\u2026",
    verbatim=(),
    evidence=(
        Evidence(
            Source.NEIGHBORS, 2, 0.0163, "decayed rrf", 0.001, via=Relation(RelationKind.PARENT, "guide/mail.md#mail")
        ),
    ),
    words=(),
    reasons=('the parent of "Mail\x1b"',),
)

PLAIN = """\
 1  /docs/guide/mail.md:12-34
    Mail \u203a After the response
    \u2502 Send an email:
    \u2502     tasks.add_task(send, address)
    because: *send an email*, *after the response*; nearest in meaning

 2  /docs/a\\x0ab.md:12-34
    Evil\ufffd[2J
    Sending mails. \ufffdYou e-mail\u2026
    because: the parent of "Mail\ufffd"
"""


@pytest.fixture(autouse=True)
def _a_plain_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR", EDITOR_VARIABLE):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")


def show(*hits: Hit, stream: io.StringIO | None = None) -> str:
    """The text that a terminal gets, or another stream."""
    stream = stream or Terminal()
    with redirect_stdout(stream):
        show_answer(Page(), answer(*(hits or (HIT, SECOND))), full=False)
    return stream.getvalue()


def test_elsewhere_than_on_a_terminal_each_item_is_one_plain_line(
    library: Sample, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    library.answers = [answer(HIT, SECOND)]
    assert cli("q").out == PLAIN


def test_a_terminal_marks_words_in_colours_unless_it_is_not_to(monkeypatch: pytest.MonkeyPatch) -> None:
    page = show()
    assert "\x1b[1;33mSend\x1b[0m an \x1b[1;33memail\x1b[0m:" in page
    assert "\x1b[1;36m/docs/guide/mail.md:12-34\x1b[0m" in page
    monkeypatch.setenv("NO_COLOR", "1")
    page = show()
    assert "\x1b[1mSend\x1b[0m an" in page
    assert "\x1b[3" not in page


@pytest.mark.parametrize("columns", [0, 1, 40, 140])
def test_prose_fits_the_width(monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setenv("COLUMNS", str(columns))
    page = show()
    assert max(map(len, page.splitlines())) <= (columns if columns > 1 else 80)
    assert " ".join(page.split()) == " ".join(PLAIN.split())


def test_full_quotes_the_text_as_it_stands(library: Sample, cli: Cli) -> None:
    library.answers = [answer(hit(text="# A\n\n\tcode\x07\n", text_cut=True))]
    expected = """\
    \u2502 # A
    \u2502
    \u2502     code\ufffd
    cut here; all of it: python -m retriever read 'guide/mail.md#mail/after-the-response'
"""
    assert expected in cli("q", "--full").out


def test_explain_names_what_a_model_wrote(library: Sample, cli: Cli) -> None:
    library.answers = [answer(HIT, expansion=REPORT)]
    out = cli("q", "--explain").out
    assert "searched with  invented\n" in out
    assert "dropped        wild (far)\n" in out


def test_json_has_what_a_model_wrote_only_when_asked(library: Sample, cli: Cli) -> None:
    library.answers = [answer(HIT, expansion=REPORT)]
    short = cli("q", "--json").json
    assert list(short["timings_ms"]) == ["opening", "semantic", "keyword", "total"]
    assert not {"trace", "passages", "text"} & {*short, *short["expansion"], *short["hits"][0]}
    assert "invented" not in json.dumps(short)
    assert "wild" not in json.dumps(short)
    whole = cli("q", "--json", "--full", "--explain").json
    assert whole["expansion"]["passages"] == ["invented"]


# No text speaks to the terminal.

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


def test_ordinary_text_stays_as_it_is() -> None:
    family, persian = "\U0001f468\u200d\U0001f469\u200d\U0001f467", "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645"
    text = f"tab\tand\nline; \u6771\u4eac, \u05e9\u05dc\u05d5\u05dd, {family}, {persian}, caf\xe9, e\u0301"
    assert sanitize(text) == text
    assert sanitize_line("café\n.md") == "café\\x0a.md"
    assert sanitize("\ud800") == "\ufffd"


# What programs get is exact.

REPORT = ExpansionReport(passages=("invented",), note="two texts", dropped=(Dropped("passage", "wild", "far"),))


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_json_is_exact_in_any_encoding(monkeypatch: pytest.MonkeyPatch, encoding: str) -> None:
    content = {"a": "\x1b[2J \u6771\u4eac \U0001f468 caf\udce9 \u202e"}
    stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding, errors="backslashreplace")
    monkeypatch.setattr(sys, "stdout", stream)
    stream.write(format_json(content))
    stream.flush()
    written = stream.buffer.getvalue()
    assert json.loads(written) == content
    assert ("\u6771\u4eac".encode() in written) == (encoding == "utf-8")


# Citations open in an editor.

LINK = re.compile(r"\x1b\]8;(?:id=\d+)?;([^\x1b]*)\x1b\\(.*?)\x1b\]8;;\x1b\\")
CODE = "code://open?{path}#{line}"


def test_a_note_of_a_vault_opens_in_obsidian(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".obsidian").mkdir()
    monkeypatch.delenv(EDITOR_VARIABLE, raising=False)
    assert make_editor_link(hit(folder=str(tmp_path), file="daily/a.md"), "vscode").startswith("obsidian://open?path=/")


@pytest.mark.parametrize("name", ["\x1b]8;;evil\x1b\\", "a\x07b\nc\x9c\u202e", "{line}{path}", "\udcff", "a;b ?#&%"])
def test_no_name_of_a_file_can_end_the_link(name: str) -> None:
    for editor in (*EDITOR_TEMPLATES, CODE):
        address = make_editor_link(hit(folder="/docs", file=name), editor)
        assert re.fullmatch(r"[!-~]+", address)
        assert "{" not in address


@pytest.mark.parametrize("template", ["nano", "{path}", "x://{path}\x1b[2J", "x://{path} {line}", "1:{path}"])
def test_what_is_no_editor_and_no_address_is_refused(template: str) -> None:
    with pytest.raises(UsageError, match="no such editor; there are vscode"):
        make_editor_link(HIT, template)


def test_a_citation_is_a_link_on_a_terminal_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = show(HIT)
    assert "\x1b]" not in plain
    monkeypatch.setenv(EDITOR_VARIABLE, "vscode")
    linked = show(HIT)
    assert LINK.findall(linked) == [
        ("vscode://file/docs/guide/mail.md:12", "\x1b[1;36m/docs/guide/mail.md:12-34\x1b[0m")
    ]
    assert LINK.sub(r"\2", linked) == plain
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "\x1b]" not in show(HIT, stream=io.StringIO())
    monkeypatch.delenv("FORCE_COLOR")
    monkeypatch.setenv("TERM", "dumb")
    assert "\x1b" not in show(HIT)


# A short answer, and progress.


def test_a_dropped_sentence_is_named_and_no_sentence_steers_a_terminal(
    library: Sample, monkeypatch: pytest.MonkeyPatch, cli: Cli
) -> None:
    sentence = "Send an email after \u202ethe response\x1b[2J."
    library.answers = [answer(hit(sentence=sentence, verbatim=()))]
    dropped = (DroppedSentence("It\x1b lies.", "it says other things"),)
    written = Retriever.answer
    monkeypatch.setattr(Retriever, "answer", lambda *given, **named: replace(written(*given, **named), dropped=dropped))
    assert cli("answer", "how to send an email?").out.split("\n")[:2] == [
        "Send an email after \ufffdthe response\ufffd[2J.  /docs/guide/mail.md:12-34",
        "    dropped: It\ufffd lies. (it says other things)",
    ]
    said = cli("answer", "how to send an email?", "--json").json["answer"]
    assert said["sentences"][0]["text"] == sentence, "exact, for programs"
    assert said["dropped"] == [{"text": "It\x1b lies.", "reason": "it says other things"}]


def test_progress_is_a_line_written_over_itself_and_then_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setattr("retriever.command_line.output.time.perf_counter", Mock(side_effect=[0, 0, 0.05, 60]))
    line = ProgressLine(Console())
    line.start("indexing words", 3400, "files and more")
    line.advance("too soon", 1)
    line.advance("in", 850)
    line.finish("indexing words")
    drawn = ("indexing words: 0 of 3,400 files and mo", "in: 850 of 3,400 files and more, 3 minu", " " * 39)
    assert terminal.getvalue() == "".join(f"\r{text}\r" for text in drawn)
